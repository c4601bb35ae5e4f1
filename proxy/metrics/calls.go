package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

// Calls counts the calls of each tool and the requests to each backend.
//
// Labels are of the catalog and of the table of methods, never a peer's text. Use of
// Metrics resolves them when a catalog is built, and a call finds what is resolved in one map, without a lock.
// A series is made when something is first counted on it, and deleted with its tool or
// backend: a call of it that ends later is one of an unknown name.
//
// What 500 tools of 50 backends show stays below 5000 series, so that the duration by tool
// has few classic buckets where there are many tools. Native histograms have them all.
type Calls struct {
	calls    *prometheus.CounterVec
	requests *prometheus.HistogramVec

	mu       sync.Mutex               // held while series are made and deleted
	seconds  *prometheus.HistogramVec // guarded by mu, as is what is in the series
	coarse   bool                     // guarded by mu: seconds has few buckets, and stays so
	resolved atomic.Pointer[resolved]
}

// resolved is what can be counted of one catalog.
type resolved struct {
	tools    map[Tool]*ToolCalls
	methods  []string
	backends map[string][]*series // by the index of the method
	unknown  *ToolCalls
}

// A Tool is what the catalog has by that name; Backend is "" for a scripted tool.
type Tool struct{ Name, Backend string }

// ToolOf is what calls of an entry are counted as; nil is a name that no tool has.
func ToolOf(e *catalog.Entry) (t Tool) {
	if e != nil {
		t.Name = e.Name
	}
	if e != nil && e.Backend != nil {
		t.Backend = e.Backend.Name()
	}
	return t
}

// Use takes the labels of a new catalog: of the first most tools in its order, and of all
// backends. Series of what is gone are deleted.
func (m *Metrics) Use(c *catalog.Catalog, all []*backends.Backend, most int) {
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
	m.Calls.use(tools, names, most)
	m.Runs.use(scripts, called)
}

// other stands for tools without labels of their own, and for names that are nobody's.
const other = "other"

// manyTools is from where on tools have coarse buckets.
const manyTools = 150

var (
	// quick are the buckets of what a relay passes on: it takes 0.1 to 1 ms itself.
	quick        = []float64{.00025, .0005, .001, .0025, .01, .05, .25, 1, 5, 30, 120}
	coarseOfTool = []float64{.00025, .25}
)

// nativeFactor is by how much a bucket of a native histogram is larger than the one before.
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
			Name: "vmcp_tool_calls_total", Help: "Calls of tools by clients and scripts, by outcome (" + outcome.Words() + "). backend is empty for scripted tools; tool is other beyond telemetry.maxToolLabels and for names that no tool has.",
		}, []string{"tool", "backend", "outcome"}),
		requests: histogram("vmcp_backend_request_duration_seconds", "Time of a request to a backend, until its result is there or begins to stream.", quick, "backend", "method"),
		seconds:  toolSeconds(quick),
	}
	c.resolved.Store(&resolved{methods: methods, unknown: c.tool(Tool{Name: other})})
	c.showUnknown()
	r.MustRegister(c.calls, c.requests, seconds{c})
	return c
}

// seconds collects the durations by tool with the buckets that they have now.
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

// use resolves the labels of a catalog: of the first most tools, in the order of the
// catalog, and of all backends. What it has not any more is deleted.
func (c *Calls) use(tools []Tool, backends []string, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.resolved.Load()
	next := &resolved{tools: map[Tool]*ToolCalls{}, methods: old.methods, backends: map[string][]*series{}, unknown: old.unknown}
	if min(len(tools), most) > manyTools {
		c.makeCoarse(old)
	}
	labels := map[Tool]*ToolCalls{{Name: other}: old.unknown}
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

// showUnknown makes the series of names that no tool has, so that the first one adds none.
func (c *Calls) showUnknown() {
	c.calls.WithLabelValues(other, "", outcome.Error.String())
	c.seconds.WithLabelValues(other, "")
}

// makeCoarse begins the durations by tool anew, with few buckets. mu is held.
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

func (c *Calls) tool(label Tool) *ToolCalls {
	t := &ToolCalls{of: c, labels: label}
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
func (c *Calls) delete(t *ToolCalls) {
	t.seconds.gone = true
	c.seconds.DeleteLabelValues(t.labels.Name, t.labels.Backend)
	for o := range outcome.Count {
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
func (c *Calls) Called(t Tool, o outcome.Outcome, took time.Duration) {
	now := c.resolved.Load()
	of := now.tools[t]
	if of == nil {
		of = now.unknown
	}
	of.counter(o).Inc()
	of.seconds.observe(took)
}

// Requested notes the time of a request to a backend.
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

// ToolCalls are the series of one tool, or of all that share its labels.
type ToolCalls struct {
	of      *Calls
	labels  Tool
	counts  [outcome.Count]atomic.Pointer[prometheus.Counter]
	seconds series
}

// nowhere counts what nobody can see.
var nowhere = prometheus.NewCounter(prometheus.CounterOpts{Name: "nowhere"})

func (t *ToolCalls) counter(o outcome.Outcome) prometheus.Counter {
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

// A series is one of a histogram, made when something is first observed.
type series struct {
	of       *Calls
	make     func() prometheus.Observer // of.mu is held
	observer atomic.Pointer[prometheus.Observer]
	gone     bool // guarded by of.mu: it must not be made any more
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
