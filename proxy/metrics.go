package proxy

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

// metrics is what /metrics shows. Each proxy has its own registry.
type metrics struct {
	handler  http.Handler
	registry *prometheus.Registry
	requests map[string]*methodMetrics // by method, made once
	unknown  *methodMetrics
	scripts  *runMetrics
	access   *prometheus.CounterVec // requests that did not come in, by HTTP status
}

type methodMetrics struct {
	requests       tally // of clients
	client, script tally // calls, by who makes them
	seconds        prometheus.Observer
	running        prometheus.Gauge
}

// A tally counts outcome.Count. An outcome has no series before it happened but for ok and error,
// which alerts compare.
type tally struct {
	vec    *prometheus.CounterVec
	labels []string // all but the outcome, which is the last one
	counts [outcome.Count]atomic.Pointer[prometheus.Counter]
}

func (t *tally) init(vec *prometheus.CounterVec, labels ...string) {
	t.vec, t.labels = vec, labels
	t.of(outcome.OK)
	t.of(outcome.Error)
}

func (t *tally) of(o outcome.Outcome) prometheus.Counter {
	if c := t.counts[o].Load(); c != nil {
		return *c
	}
	c := t.vec.WithLabelValues(append(t.labels[:len(t.labels):len(t.labels)], o.String())...)
	t.counts[o].Store(&c)
	return c
}

func (t *tally) add(o outcome.Outcome) { t.of(o).Inc() }

func newMetrics(p *Proxy) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), requests: map[string]*methodMetrics{}}
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_requests_total", Help: "Requests of clients by method and outcome (" + outcome.Words() + ").",
	}, []string{"method", "outcome"})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_calls_total", Help: "Calls of what backends and scripts offer, by method, by who makes them (client, script) and outcome (" + outcome.Words() + ").",
	}, []string{"method", "by", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "vmcp_request_duration_seconds", Help: "Time from a request to its response.",
		Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600},
	}, []string{"method"})
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vmcp_requests_running", Help: "Requests being served.",
	}, []string{"method"})
	of := func(method string) *methodMetrics {
		mm := &methodMetrics{seconds: seconds.WithLabelValues(method), running: running.WithLabelValues(method)}
		mm.requests.init(total, method)
		if wire.MethodOf(method).Call {
			mm.client.init(calls, method, "client")
		}
		if method == wire.ToolsCall {
			mm.script.init(calls, method, "script")
		}
		return mm
	}
	for _, name := range wire.FromClients() {
		m.requests[name] = of(name)
	}
	m.requests[http.MethodGet], m.requests[http.MethodDelete] = of(http.MethodGet), of(http.MethodDelete)
	m.unknown = of("other")
	m.scripts = newRunMetrics(m.registry)
	m.access = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_access_refused_total", Help: "Requests refused by authentication, by HTTP status.",
	}, []string{"status"})
	m.registry.MustRegister(total, calls, seconds, running, m.access, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &stateCollector{p})
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// refused counts and logs a request whose credential was refused. What it was about is for the
// log: a token never is.
func (p *Proxy) refused(r *auth.Refusal) {
	if r.Cause != nil {
		p.log.Info("request refused", "outcome", outcome.Of(r).String(), "status", r.Status, "reason", r.Error(), "err", r.Cause)
	}
	p.metrics.access.WithLabelValues(strconv.Itoa(r.Status)).Inc()
}

// of is what is counted of a method.
func (m *metrics) of(method string) *methodMetrics {
	if mm := m.requests[method]; mm != nil {
		return mm
	}
	return m.unknown
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
	descLost     = prometheus.NewDesc("vmcp_backend_messages_dropped_total", "Messages of the backend to callers that were too slow; their calls failed.", []string{"backend"}, nil)
	descHeld     = prometheus.NewDesc("vmcp_stream_bytes", "Bytes that event streams hold for their clients.", nil, nil)
	descDropped  = prometheus.NewDesc("vmcp_stream_notifications_dropped_total", "Notifications outside of calls that clients were too slow or too far away for.", nil, nil)
	descBroken   = prometheus.NewDesc("vmcp_streams_broken_total", "Answers that were given up because their clients did not read them.", nil, nil)
	descEvicted  = prometheus.NewDesc("vmcp_streams_evicted_total", "Answers that no client came back for in time.", nil, nil)
	descBodies   = prometheus.NewDesc("vmcp_request_body_bytes", "Bytes of large request bodies that are held.", nil, nil)
	descUnsaid   = prometheus.NewDesc("vmcp_audit_dropped_total", "Lines of the audit that could not be written.", nil, nil)
	descEnded    = prometheus.NewDesc("vmcp_sessions_evicted_total", "Client sessions that ended for want of room (full), of which nothing but an initialize came (unused), for another client's place at a backend (pressure), or after sessionIdle.client (idle).", []string{"reason"}, nil)
	descTurned   = prometheus.NewDesc("vmcp_sessions_refused_total", "Clients that found no room for a session.", nil, nil)
	descConns    = prometheus.NewDesc("vmcp_backend_connections", "Open connections to the backend: child processes, and over HTTP streams.", []string{"backend"}, nil)
	descPrivate  = prometheus.NewDesc("vmcp_backend_sessions", "Sessions with the backend that belong to one client each.", []string{"backend"}, nil)
	descRefused  = prometheus.NewDesc("vmcp_backend_refused_total", "Calls for which no connection or session with the backend was left.", []string{"backend"}, nil)
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
		counter(descLost, n.Dropped, b.Name())
		gauge(descPrivate, float64(n.Sessions), b.Name())
		counter(descRefused, n.Refused, b.Name())
	}
	edge := c.p.edge.Stats()
	counter(descEnded, edge.Evicted, "full")
	counter(descEnded, edge.Unused, "unused")
	counter(descEnded, edge.Pressed, "pressure")
	counter(descEnded, edge.Expired, "idle")
	counter(descUnsaid, c.p.unwritten.Load())
	counter(descTurned, edge.Refused)
	gauge(descHeld, float64(edge.StreamBytes))
	counter(descDropped, edge.Dropped+c.p.dropped.Load())
	counter(descBroken, edge.Broken)
	counter(descEvicted, edge.EvictedStreams)
	gauge(descBodies, float64(edge.BodyBytes))
	gauge(descSessions, float64(s.Sessions))
	gauge(descListed, float64(len(c.p.catalog.Load().VisibleTools())))
	gauge(descProblems, float64(len(s.Problems)))
	gauge(descParked, float64(c.p.parked.len()))
}
