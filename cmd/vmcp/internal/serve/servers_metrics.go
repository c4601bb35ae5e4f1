package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/proxy/observe"
)

var (
	descObjects  = prometheus.NewDesc("vmcp_kube_objects", "Objects of the namespace by kind, and whether they are good (accepted) or something about them is wrong (rejected).", []string{"kind", "state"}, nil)
	descSynced   = prometheus.NewDesc("vmcp_kube_last_sync_timestamp_seconds", "When a list of objects came last; 0: none did.", nil, nil)
	descWrites   = prometheus.NewDesc("vmcp_kube_status_writes_total", "Statuses that were written, by outcome (ok, gone, error). Only the holder of the lease writes.", []string{"outcome"}, nil)
	descAccepted = prometheus.NewDesc(observe.Reloaded, observe.ReloadedHelp, nil, nil)
)

// A collector exports the counters of a source at each scrape.
type collector func() cluster.Stats

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descObjects, descSynced, descWrites, descAccepted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, o := range s.Objects {
		gauge(descObjects, float64(o.Accepted), o.Kind, "accepted")
		gauge(descObjects, float64(o.Rejected), o.Kind, "rejected")
	}
	synced := 0.0
	if !s.Synced.IsZero() {
		synced = float64(s.Synced.UnixMilli()) / 1000
	}
	gauge(descSynced, synced)
	accepted := 0.0
	if s.Accepted {
		accepted = 1
	}
	gauge(descAccepted, accepted)
	for outcome, n := range s.Writes {
		ch <- prometheus.MustNewConstMetric(descWrites, prometheus.CounterValue, float64(n), outcome)
	}
}

// serveMetrics serves the metrics of the process and of all servers, which have the label server.
func (s *Servers) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if !s.o.Process.Telemetry.MetricsPath() {
		http.NotFound(w, r)
		return
	}
	promhttp.HandlerFor(s.gatherers(r.URL.Query().Get("server")), promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// Gatherer gathers the metrics of the process and of all servers that exist at the time.
func (s *Servers) Gatherer() prometheus.Gatherer { return s.gatherers("") }

// gatherers are those of the process and of one server; "" is all servers.
func (s *Servers) gatherers(only string) prometheus.Gatherers {
	all := prometheus.Gatherers{s.registry}
	s.each(func(v *server, _ bool) {
		if only == "" || only == v.name {
			all = append(all, v.registry)
		}
	})
	return all
}
