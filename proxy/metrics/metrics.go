// Package metrics is what /metrics shows: requests and calls as the door counts them, runs of
// scripts, and what there is at the moment that somebody asks. A label is a method, a backend,
// a tool or an outcome, never a peer's text.
package metrics

import (
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/policy"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

// Metrics counts what one proxy does. Each proxy has its own registry, unless it shares a page with others.
type Metrics struct {
	Handler  http.Handler        // serves the page
	Gatherer prometheus.Gatherer // of what is on the page
	Runs     *Runs
	Calls    *Calls
	Cluster  *Cluster

	methods map[string]*Method // made once
	unknown *Method
	refused *prometheus.CounterVec
	overdue *prometheus.CounterVec
	pins    *prometheus.CounterVec

	decisions [policy.Resource + 1][policy.Allow + 1]prometheus.Counter
}

// A Method counts the requests of clients and the calls of one method.
type Method struct {
	requests       tally // of clients
	client, script tally // calls, by who makes them
	seconds        prometheus.Observer
	running        prometheus.Gauge
}

// Enter counts a request of a client that begins.
func (m *Method) Enter() { m.running.Inc() }

// Leave counts a request of a client that is over.
func (m *Method) Leave(o outcome.Outcome, took time.Duration) {
	m.running.Dec()
	m.seconds.Observe(took.Seconds())
	m.requests.add(o)
}

// CalledByClient counts a call of a client, beside its request.
func (m *Method) CalledByClient(o outcome.Outcome) { m.client.add(o) }

// CalledByScript counts a call of a script.
func (m *Method) CalledByScript(o outcome.Outcome) { m.script.add(o) }

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

// Process are the metrics of a process that may have so much memory; 0 and math.MaxInt64: as much as there is. Go's own
// go_gc_gomemlimit_bytes is no measure: it goes up and down with what scripts use.
func Process(limit int64) []prometheus.Collector {
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if limit > 0 && limit < math.MaxInt64 {
		g := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vmcp_memory_limit_bytes", Help: "Memory that the process may have: GOMEMLIMIT, else nine tenths of what its cgroup allows. Left out where nothing limits it.",
		})
		g.Set(float64(limit))
		all = append(all, g)
	}
	return all
}

// New makes the metrics of a proxy; state is asked for what there is whenever the page is read. They are
// registered with to, whose owner has a page; nil: they have a page of their own, with what the process uses of its limit
// of memory.
func New(state func() State, to prometheus.Registerer, limit int64) *Metrics {
	own := prometheus.NewRegistry()
	if to == nil {
		own.MustRegister(Process(limit)...)
		to = own
	}
	registry := to
	m := &Metrics{methods: map[string]*Method{}}
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_requests_total", Help: "Requests of clients by method and outcome (" + outcome.Words() + ").",
	}, []string{"method", "outcome"})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_calls_total", Help: "Calls of what backends and scripts offer, by method, by who makes them (client, script) and outcome (" + outcome.Words() + ").",
	}, []string{"method", "by", "outcome"})
	seconds := histogram("vmcp_request_duration_seconds", "Time from a request to its response.", quick, "method")
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vmcp_requests_running", Help: "Requests being served.",
	}, []string{"method"})
	of := func(method string) *Method {
		mm := &Method{seconds: seconds.WithLabelValues(method), running: running.WithLabelValues(method)}
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
		m.methods[name] = of(name)
	}
	m.methods[http.MethodGet], m.methods[http.MethodDelete] = of(http.MethodGet), of(http.MethodDelete)
	m.unknown = of("other")
	m.Runs, m.Calls, m.Cluster = newRuns(registry), newCalls(registry, wire.FromClients()), newCluster(registry)
	m.countDecisions(registry)
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_access_refused_total", Help: "Requests refused by authentication, by HTTP status.",
	}, []string{"status"})
	m.overdue = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_quota_refused_total", Help: "Calls of tools that a limit of rateLimiting refused, by limit and, for those under rateLimiting.tools, by tool.",
	}, []string{"limit", "tool"})
	m.pins = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_pin_violations_total", Help: "Definitions and instructions that were found not to be as they are pinned, by backend and kind.",
	}, []string{"backend", "kind"})
	registry.MustRegister(total, calls, seconds, running, m.refused, m.overdue, m.pins, collector(state))
	m.Gatherer, m.Handler = own, promhttp.HandlerFor(own, promhttp.HandlerOpts{})
	return m
}

// countDecisions makes the counters of what policies decide.
func (m *Metrics) countDecisions(registry prometheus.Registerer) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_authz_decisions_total", Help: "Calls that policies decided about, by action and decision (allow, deny, step-up, invisible).",
	}, []string{"action", "decision"})
	registry.MustRegister(vec)
	for kind := range m.decisions {
		for o := range m.decisions[kind] {
			m.decisions[kind][o] = vec.WithLabelValues(policy.Kind(kind).Action(), policy.Outcome(o).String())
		}
	}
}

// Decided counts a decision of policies.
func (m *Metrics) Decided(kind policy.Kind, o policy.Outcome) { m.decisions[kind][o].Inc() }

// Of is what is counted of a method; those that nobody knows are one.
func (m *Metrics) Of(method string) *Method {
	if of := m.methods[method]; of != nil {
		return of
	}
	return m.unknown
}

// Refused counts a request that authentication refused.
func (m *Metrics) Refused(status int) { m.refused.WithLabelValues(strconv.Itoa(status)).Inc() }

// Overdue counts a call that a limit of rateLimiting refused; tool is the one that the limit is for.
func (m *Metrics) Overdue(limit, tool string) { m.overdue.WithLabelValues(limit, tool).Inc() }

// Unpinned counts an entry of a backend, or its instructions, that was found not to be as it is pinned.
func (m *Metrics) Unpinned(backend, kind string) { m.pins.WithLabelValues(backend, kind).Inc() }
