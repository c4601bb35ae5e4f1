package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cluster counts what goes on between the replicas of a cluster.
type Cluster struct {
	forwards *prometheus.CounterVec
	seconds  prometheus.Histogram
	adopted  prometheus.Counter
}

// Replicas are those of a cluster at one moment.
type Replicas struct {
	Live    int
	Configs int // different configurations that they serve
}

func newCluster(r prometheus.Registerer) *Cluster {
	c := &Cluster{
		forwards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_forwards_total", Help: "Requests that another replica was given, by kind (session, live: a call that waits there, stream, status: how it is) and outcome.",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vmcp_forward_seconds", Help: "Time from a request that another replica is given to the head of its answer; streams included.", Buckets: []float64{.0005, .001, .0025, .005, .01, .05, .25, 1, 5, 30},
		}),
		adopted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vmcp_sessions_adopted_total", Help: "Sessions of clients that this replica went on with because their replica was gone.",
		}),
	}
	r.MustRegister(c.forwards, c.seconds, c.adopted)
	return c
}

// Forwarded counts a request that another replica was given: kind is session, live or stream.
func (c *Cluster) Forwarded(kind, outcome string, took time.Duration) {
	c.forwards.WithLabelValues(kind, outcome).Inc()
	c.seconds.Observe(took.Seconds())
}

// Adopted counts a session that this replica went on with.
func (c *Cluster) Adopted() { c.adopted.Inc() }
