package observe

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
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// This part of the package has the metrics of /metrics: requests and calls, counted at the door, runs of scripts, and the state
// at the moment of the scrape. A label is a method, a backend, a tool or an outcome, never a peer's text.

// Metrics are the metrics of one proxy. Each proxy has its own registry, unless it shares a page with others.
type Metrics struct {
	Handler  http.Handler        // of the page
	Gatherer prometheus.Gatherer // of the metrics on the page
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
	client, script tally // calls, by caller
	seconds        prometheus.Observer
	running        prometheus.Gauge
}

// Enter counts a request of a client at its beginning.
func (m *Method) Enter() { m.running.Inc() }

// Done counts a request of a client at its end.
func (m *Method) Done(o Outcome, took time.Duration) {
	m.running.Dec()
	m.seconds.Observe(took.Seconds())
	m.requests.add(o)
}

// CalledByClient counts a call of a client, in addition to its request.
func (m *Method) CalledByClient(o Outcome) { m.client.add(o) }

// CalledByScript counts a call of a script.
func (m *Method) CalledByScript(o Outcome) { m.script.add(o) }

// A tally has one counter per outcome. The series of an outcome is made when it first occurs, except for ok and error,
// which alerts compare.
type tally struct {
	vec    *prometheus.CounterVec
	labels []string // without the outcome, which is the last label
	counts [Count]atomic.Pointer[prometheus.Counter]
}

func (t *tally) init(vec *prometheus.CounterVec, labels ...string) {
	t.vec, t.labels = vec, labels
	t.of(OK)
	t.of(Error)
}

func (t *tally) of(o Outcome) prometheus.Counter {
	if c := t.counts[o].Load(); c != nil {
		return *c
	}
	c := t.vec.WithLabelValues(append(t.labels[:len(t.labels):len(t.labels)], o.String())...)
	t.counts[o].Store(&c)
	return c
}

func (t *tally) add(o Outcome) { t.of(o).Inc() }

// Process are the metrics of a process with this memory limit in bytes; 0 and math.MaxInt64: no limit. Go's own
// go_gc_gomemlimit_bytes does not show it: it changes with the memory that scripts use.
func Process(limit int64) []prometheus.Collector {
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if limit > 0 && limit < math.MaxInt64 {
		g := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vmcp_memory_limit_bytes", Help: "Memory limit of the process: GOMEMLIMIT, else nine tenths of the limit of its cgroup. Absent without a limit.",
		})
		g.Set(float64(limit))
		all = append(all, g)
	}
	return all
}

// NewMetrics makes the metrics of a proxy; state is called for every scrape. They are registered with to, whose owner serves
// the page; if to is nil, they have a page of their own, with the metrics of Process(limit).
func NewMetrics(state func() State, to prometheus.Registerer, limit int64) *Metrics {
	own := prometheus.NewRegistry()
	if to == nil {
		own.MustRegister(Process(limit)...)
		to = own
	}
	registry := to
	m := &Metrics{methods: map[string]*Method{}}
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_requests_total", Help: "Requests of clients by method and outcome (" + Words() + ").",
	}, []string{"method", "outcome"})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vmcp_calls_total", Help: "Calls of what backends and scripts offer, by method, caller (client, script) and outcome (" + Words() + ").",
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
		Name: "vmcp_pin_violations_total", Help: "Definitions and instructions found to differ from their pins, by backend and kind.",
	}, []string{"backend", "kind"})
	registry.MustRegister(total, calls, seconds, running, m.refused, m.overdue, m.pins, collector(state))
	m.Gatherer, m.Handler = own, promhttp.HandlerFor(own, promhttp.HandlerOpts{})
	return m
}

// countDecisions makes the counters of policy decisions.
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

// Of returns the counters of a method; unknown methods share one.
func (m *Metrics) Of(method string) *Method {
	if of := m.methods[method]; of != nil {
		return of
	}
	return m.unknown
}

// Refused counts a request that authentication refused.
func (m *Metrics) Refused(status int) { m.refused.WithLabelValues(strconv.Itoa(status)).Inc() }

// Overdue counts a call that a limit of rateLimiting refused; tool is the tool of the limit, if it is for one.
func (m *Metrics) Overdue(limit, tool string) { m.overdue.WithLabelValues(limit, tool).Inc() }

// Unpinned counts an entry of a backend, or its instructions, found to differ from its pin.
func (m *Metrics) Unpinned(backend, kind string) { m.pins.WithLabelValues(backend, kind).Inc() }
