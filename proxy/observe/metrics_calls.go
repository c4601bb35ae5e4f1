package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// Calls counts the calls of each tool and the requests to each backend.
//
// Labels come from the catalog and from the table of methods, never from a peer's text. SetCatalog of Metrics resolves
// them when a catalog is built; a call finds them in one map, without a lock. A series is made when it is first counted
// on, and deleted with its tool or backend: a call that ends later counts for an unknown name.
//
// 500 tools of 50 backends stay below 5000 series. For that, durations by tool have few classic buckets if there are
// many tools; native histograms are always complete.
type Calls struct {
	calls    *prometheus.CounterVec
	requests *prometheus.HistogramVec

	mu       sync.Mutex               // held while series are made and deleted
	seconds  *prometheus.HistogramVec // guarded by mu, like the contents of the series
	coarse   bool                     // guarded by mu: seconds has few buckets, which is not undone
	resolved atomic.Pointer[resolved]
}

// resolved are the labels of one catalog.
type resolved struct {
	tools    map[Tool]*toolCalls
	methods  []string
	backends map[string][]*series // by index of the method
	unknown  *toolCalls
}

// A Tool has the labels of a tool; Backend is "" for a scripted one.
type Tool struct{ Name, Backend string }

// ToolOf returns the labels for calls of an entry; nil is a name that no tool has.
func ToolOf(e *catalog.Entry) (t Tool) {
	if e != nil {
		t.Name = e.Name
	}
	if e != nil && e.Backend != nil {
		t.Backend = e.Backend.Name()
	}
	return t
}

// SetCatalog sets the labels of a new catalog: of its first most tools, and of all backends. Series of removed ones are
// deleted.
func (m *Metrics) SetCatalog(c *catalog.Catalog, all []*backends.Backend, most int) {
	entries := slices.Concat(c.VisibleTools(), c.HiddenTools())
	tools, names := make([]Tool, len(entries)), make([]string, len(all))
	scripts, called := map[string]bool{}, map[string]bool{}
	for i, e := range entries {
		tools[i] = ToolOf(e)
		switch {
		case i >= most:
		case e.Backend == nil:
			scripts[e.Name], called[e.Name] = true, true
		default:
			called[e.Name], called[e.Origin()] = true, true
		}
	}
	for i, b := range all {
		names[i] = b.Name()
	}
	m.Calls.setCatalog(tools, names, most)
	m.Runs.setCatalog(scripts, called)
}

// other is the label of tools beyond the bound, and of names that no tool has.
const other = "other"

// manyTools is the number of tools from which durations by tool have coarse buckets.
const manyTools = 150

var (
	// quick are the buckets for relayed requests: the proxy itself takes 0.1 to 1 ms.
	quick        = []float64{.00025, .0005, .001, .0025, .01, .05, .25, 1, 5, 30, 120}
	coarseOfTool = []float64{.00025, .25}
)

// nativeFactor is the ratio of neighbouring buckets of a native histogram.
const nativeFactor = 1.1

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func toolSeconds(buckets []float64) *prometheus.HistogramVec {
	return histogram("vmcp_tool_call_duration_seconds", "Time of a call of a tool, by client or script, from the request to the end of its result.", buckets, "tool", "backend")
}

func newCalls(r prometheus.Registerer, methods []string) *Calls {
	c := &Calls{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_tool_calls_total", Help: "Calls of tools by clients and scripts, by outcome (" + Words() + "). backend is empty for scripted tools; tool is other beyond telemetry.maxToolLabels and for names that no tool has.",
		}, []string{"tool", "backend", "outcome"}),
		requests: histogram("vmcp_backend_request_duration_seconds", "Time of a request to a backend, until its result is complete or begins to stream.", quick, "backend", "method"),
		seconds:  toolSeconds(quick),
	}
	c.resolved.Store(&resolved{methods: methods, unknown: c.tool(Tool{Name: other})})
	c.showUnknown()
	r.MustRegister(c.calls, c.requests, seconds{c})
	return c
}

// seconds is the collector of the durations by tool, with their current buckets.
type seconds struct{ of *Calls }

func (s seconds) now() *prometheus.HistogramVec {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.of.seconds
}

// Describe implements prometheus.Collector.
func (s seconds) Describe(ch chan<- *prometheus.Desc) { s.now().Describe(ch) }

// Collect implements prometheus.Collector.
func (s seconds) Collect(ch chan<- prometheus.Metric) { s.now().Collect(ch) }

// setCatalog resolves the labels of a catalog: of its first most tools, and of all backends. It deletes the series of
// what is not in it.
func (c *Calls) setCatalog(tools []Tool, backends []string, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.resolved.Load()
	next := &resolved{tools: map[Tool]*toolCalls{}, methods: old.methods, backends: map[string][]*series{}, unknown: old.unknown}
	if min(len(tools), most) > manyTools {
		c.makeCoarse(old)
	}
	labels := map[Tool]*toolCalls{{Name: other}: old.unknown}
	for _, t := range old.tools {
		labels[t.labels] = t
	}
	used := map[Tool]bool{{Name: other}: true}
	for i, t := range tools {
		label := t
		if i >= most {
			label.Name = other
		}
		if labels[label] == nil {
			labels[label] = c.tool(label)
		}
		next.tools[t], used[label] = labels[label], true
	}
	for _, name := range backends {
		if next.backends[name] = old.backends[name]; next.backends[name] == nil {
			next.backends[name] = c.backend(name, old.methods)
		}
	}
	c.resolved.Store(next)
	for label, t := range labels {
		if !used[label] {
			c.delete(t)
		}
	}
	for name, methods := range old.backends {
		if next.backends[name] == nil {
			c.deleteBackend(name, methods)
		}
	}
}

// showUnknown makes the series for names that no tool has, so that counting the first one adds none.
func (c *Calls) showUnknown() {
	c.calls.WithLabelValues(other, "", Error.String())
	c.seconds.WithLabelValues(other, "")
}

// makeCoarse replaces the durations by tool by empty ones with few buckets. mu is held.
func (c *Calls) makeCoarse(old *resolved) {
	if c.coarse {
		return
	}
	c.coarse, c.seconds = true, toolSeconds(coarseOfTool)
	old.unknown.seconds.observer.Store(nil)
	for _, t := range old.tools {
		t.seconds.observer.Store(nil)
	}
	c.showUnknown()
}

func (c *Calls) tool(label Tool) *toolCalls {
	t := &toolCalls{of: c, labels: label}
	t.seconds = series{of: c, make: func() prometheus.Observer { return c.seconds.WithLabelValues(label.Name, label.Backend) }}
	return t
}

func (c *Calls) backend(name string, methods []string) []*series {
	all := make([]*series, len(methods))
	for i, method := range methods {
		all[i] = &series{of: c, make: func() prometheus.Observer { return c.requests.WithLabelValues(name, method) }}
	}
	return all
}

// delete deletes the series of a tool. mu is held.
func (c *Calls) delete(t *toolCalls) {
	t.seconds.gone = true
	c.seconds.DeleteLabelValues(t.labels.Name, t.labels.Backend)
	for o := range Count {
		c.calls.DeleteLabelValues(t.labels.Name, t.labels.Backend, o.String())
	}
}

// deleteBackend deletes the series of a backend. mu is held.
func (c *Calls) deleteBackend(name string, methods []*series) {
	for i, s := range methods {
		s.gone = true
		c.requests.DeleteLabelValues(name, c.resolved.Load().methods[i])
	}
}

// Called counts a call of a tool; the zero Tool is a name that no tool has.
func (c *Calls) Called(t Tool, o Outcome, took time.Duration) {
	now := c.resolved.Load()
	of := now.tools[t]
	if of == nil {
		of = now.unknown
	}
	of.counter(o).Inc()
	of.seconds.observe(took)
}

// Requested records the time of a request to a backend.
func (c *Calls) Requested(backend, method string, took time.Duration) {
	now := c.resolved.Load()
	of := now.backends[backend]
	for i := range of {
		if now.methods[i] == method {
			of[i].observe(took)
			return
		}
	}
}

// toolCalls are the series of one tool, or of all that share its labels.
type toolCalls struct {
	of      *Calls
	labels  Tool
	counts  [Count]atomic.Pointer[prometheus.Counter]
	seconds series
}

// nowhere replaces the counters of deleted series.
var nowhere = prometheus.NewCounter(prometheus.CounterOpts{Name: "nowhere"})

func (t *toolCalls) counter(o Outcome) prometheus.Counter {
	if n := t.counts[o].Load(); n != nil {
		return *n
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.seconds.gone {
		return nowhere
	}
	n := t.of.calls.WithLabelValues(t.labels.Name, t.labels.Backend, o.String())
	t.counts[o].Store(&n)
	return n
}

// A series is one series of a histogram, made when it is first observed.
type series struct {
	of       *Calls
	make     func() prometheus.Observer // called with of.mu held
	observer atomic.Pointer[prometheus.Observer]
	gone     bool // guarded by of.mu: it was deleted and must not be made again
}

func (s *series) observe(took time.Duration) {
	if o := s.observer.Load(); o != nil {
		(*o).Observe(took.Seconds())
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.gone {
		return
	}
	o := s.make()
	s.observer.Store(&o)
	o.Observe(took.Seconds())
}
