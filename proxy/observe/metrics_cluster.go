package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cluster has the metrics of requests and sessions between replicas.
type Cluster struct {
	forwards *prometheus.CounterVec
	seconds  prometheus.Histogram
	adopted  prometheus.Counter
}

// Replicas is the state of a cluster at one moment.
type Replicas struct {
	Live    int
	Configs int // number of different configurations that they serve
}

func newCluster(r prometheus.Registerer) *Cluster {
	c := &Cluster{
		forwards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_forwards_total", Help: "Requests forwarded to another replica, by kind (session, live: of a call suspended there, stream, status) and outcome.",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vmcp_forward_seconds", Help: "Time from forwarding a request to another replica to the header of its response; streams included.", Buckets: []float64{.0005, .001, .0025, .005, .01, .05, .25, 1, 5, 30},
		}),
		adopted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vmcp_sessions_adopted_total", Help: "Client sessions that this replica adopted because their replica was gone.",
		}),
	}
	r.MustRegister(c.forwards, c.seconds, c.adopted)
	return c
}

// Forwarded counts a request that was forwarded to another replica: kind is session, live, stream or status.
func (c *Cluster) Forwarded(kind, outcome string, took time.Duration) {
	c.forwards.WithLabelValues(kind, outcome).Inc()
	c.seconds.Observe(took.Seconds())
}

// Adopted counts a session that this replica adopted.
func (c *Cluster) Adopted() { c.adopted.Inc() }
