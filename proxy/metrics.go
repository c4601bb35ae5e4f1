package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// metrics is what /metrics shows. Each proxy has its own registry.
type metrics struct {
	handler  http.Handler
	registry *prometheus.Registry
	requests map[string]*methodMetrics // by method, made once
	unknown  *methodMetrics
	scripts  *runMetrics
}

type methodMetrics struct {
	ok, failed, cancelled prometheus.Counter
	seconds               prometheus.Observer
	running               prometheus.Gauge
}

func newMetrics(p *Proxy) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), requests: map[string]*methodMetrics{}}
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_requests_total", Help: "Requests of clients by method and outcome (ok, error, cancelled).",
	}, []string{"method", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "vmcp_request_duration_seconds", Help: "Time from a request to its response.",
		Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600},
	}, []string{"method"})
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vmcp_requests_running", Help: "Requests being served.",
	}, []string{"method"})
	of := func(method string) *methodMetrics {
		return &methodMetrics{
			ok:        total.WithLabelValues(method, "ok"),
			failed:    total.WithLabelValues(method, "error"),
			cancelled: total.WithLabelValues(method, "cancelled"),
			seconds:   seconds.WithLabelValues(method),
			running:   running.WithLabelValues(method),
		}
	}
	for name := range methods {
		m.requests[name] = of(name)
	}
	m.unknown = of("other")
	m.scripts = newRunMetrics(m.registry)
	m.registry.MustRegister(total, seconds, running, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &stateCollector{p})
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// start counts a request in; the returned function counts it out.
func (m *metrics) start(method string) func(error) {
	mm := m.requests[method]
	if mm == nil {
		mm = m.unknown
	}
	mm.running.Inc()
	began := time.Now()
	return func(err error) {
		mm.running.Dec()
		mm.seconds.Observe(time.Since(began).Seconds())
		var rpc *wire.Error
		switch {
		case err == nil:
			mm.ok.Inc()
		case errors.As(err, &rpc) && rpc.Code == wire.RequestCancelled:
			mm.cancelled.Inc()
		default:
			mm.failed.Inc()
		}
	}
}

// stateCollector reads gauges from the proxy when they are asked for.
type stateCollector struct{ p *Proxy }

var (
	descUp       = prometheus.NewDesc("vmcp_backend_up", "1 while the backend is ready.", []string{"backend"}, nil)
	descTools    = prometheus.NewDesc("vmcp_backend_tools", "Tools the backend offers.", []string{"backend"}, nil)
	descSessions = prometheus.NewDesc("vmcp_sessions", "Open client sessions.", nil, nil)
	descListed   = prometheus.NewDesc("vmcp_tools_listed", "Tools that clients see.", nil, nil)
	descProblems = prometheus.NewDesc("vmcp_catalog_problems", "Entries that were dropped or refused.", nil, nil)
	descParked   = prometheus.NewDesc("vmcp_parked_calls", "Calls that wait for an answer in another request.", nil, nil)
	descCalls    = prometheus.NewDesc("vmcp_backend_calls_total", "Calls to the backend.", []string{"backend"}, nil)
	descFailures = prometheus.NewDesc("vmcp_backend_failures_total", "Calls that failed on the way, not by the backend's answer.", []string{"backend"}, nil)
	descRedials  = prometheus.NewDesc("vmcp_backend_reconnects_total", "Times the backend was dialled again.", []string{"backend"}, nil)
	descConns    = prometheus.NewDesc("vmcp_backend_connections", "Open connections or sessions to the backend.", []string{"backend"}, nil)
)

func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := c.p.Status()
	for _, b := range s.Backends {
		up := 0.0
		if b.State == "ready" {
			up = 1
		}
		gauge(descUp, up, b.Name)
		gauge(descTools, float64(b.Tools), b.Name)
	}
	for _, b := range c.p.backends.All() {
		n := b.Stats()
		counter(descCalls, n.Calls, b.Name())
		counter(descFailures, n.Failures, b.Name())
		counter(descRedials, n.Reconnects, b.Name())
		gauge(descConns, float64(n.Connections), b.Name())
	}
	gauge(descSessions, float64(s.Sessions))
	gauge(descListed, float64(len(c.p.catalog.Load().tools.entries)))
	gauge(descProblems, float64(len(s.Problems)))
	gauge(descParked, float64(c.p.parked.len()))
}
