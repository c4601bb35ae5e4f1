package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/proxy/overview"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/trace"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// What is counted is in package metrics; this file says of whom and when.

// refused counts and logs a request whose credential was refused. What it was about is for the
// log: a token never is.
func (p *Proxy) refused(r *auth.Refusal) {
	if r.Cause != nil {
		p.log.Info("request refused", "outcome", outcome.Of(r).String(), "status", r.Status, "reason", r.Error(), "err", r.Cause)
	}
	p.metrics.Refused(r.Status)
}

// state is what /metrics shows of the present moment.
func (p *Proxy) state() metrics.State {
	c := p.catalog.Load()
	s := metrics.State{
		Edge: p.edge.Stats(), Listed: len(c.VisibleTools()), Problems: len(c.Problems), Parked: p.parked.Len(),
		Dropped: p.parked.Dropped(), Unwritten: p.record.Unwritten(),
	}
	if p.options.Workers != nil {
		s.Workers = p.options.Workers.Running()
	}
	ctx, cancel := context.WithTimeout(p.life, pingWithin)
	defer cancel()
	if kept, err := p.runs.Store().Stats(ctx); err == nil {
		s.Runs = map[string]int{}
		for state, n := range kept.States {
			s.Runs[string(state)] = n
		}
		if !kept.OldestWaiting.IsZero() {
			s.OldestWaiting = max(0, time.Since(kept.OldestWaiting))
		}
	}
	for _, b := range p.backends.All() {
		if b.State().Status == backends.Disabled {
			continue
		}
		s.Backends = append(s.Backends, metrics.Backend{
			Name: b.Name(), Ready: overview.State(c, b).Status == backends.Ready, Tools: len(b.Offer().Tools), Unpinned: c.Unpinned(b), Stats: b.Stats(),
		})
	}
	return s
}

// reportPins counts and writes down what is not as it is pinned, once for each, and logs it where
// the problems of the catalog do not.
func (p *Proxy) reportPins(c *catalog.Catalog) {
	news, leftOut := p.pins.News(c)
	if leftOut > 0 {
		p.log.Warn("more is not as it is pinned than is written down in a minute", "left out", leftOut)
	}
	for _, v := range news {
		p.metrics.Unpinned(v.Name.Backend, string(v.Name.Kind))
		p.record.Unpinned(&v)
		if c != p.catalog.Load() {
			p.log.Warn(v.Reason+", in the session of a client", "backend", v.Name.Backend, "entry", v.Entry())
		}
	}
}

// effect counts one effect of a run. What the journal answered is not done again.
func (h *host) effect(e script.Event) {
	if e.Replayed {
		return
	}
	h.p.metrics.Runs.Effect(h.tool.Name, e.Kind, h.label(e), outcome.Of(e.Err), e.Duration)
}

// observer is told of every effect of a run.
func (h *host) observer(ctx context.Context) func(script.Event) {
	shown, whole := trace.Recorder(ctx, h.p.secrets), trace.Whole(ctx)
	if shown == nil && whole == nil {
		return h.effect
	}
	return func(e script.Event) {
		h.effect(e)
		if whole != nil {
			whole.Add(e)
		}
		if shown != nil {
			shown(h.forClient(e))
		}
	}
}

// forClient is an effect as the client may see it. A failed call may tell in its error
// what is behind a tool, so of it nothing is told either.
func (h *host) forClient(e script.Event) script.Event {
	if h.x.traceAll || e.Kind != "call" {
		return e
	}
	if t := h.catalog.Find(catalog.AnyTool(e.Name)); t == nil || t.Hidden {
		e.Name = "(hidden)"
	}
	if e.Err != nil {
		e.Err = errHiddenFailure
	}
	return e
}

var errHiddenFailure = errors.New("failed")

// label keeps the names of metrics to those of tools that exist.
func (h *host) label(e script.Event) string {
	if e.Kind != "call" {
		return ""
	}
	if h.catalog.Find(catalog.AnyTool(e.Name)) == nil {
		return "unknown"
	}
	return e.Name
}

// done counts a run that a script has called, and what every part of a run has used.
func (h *host) done(stats script.Stats, o outcome.Outcome, err error) {
	m, name := h.p.metrics.Runs, h.tool.Name
	m.Steps(name, stats.Steps)
	switch {
	case o == outcome.Suspended:
		m.Suspended(name)
	case h.top() && h.part.Kept():
		m.Took(name, stats.Duration, stats.Memory, err) // it is counted when it is over
	default:
		if h.top() {
			h.part.Counted()
		}
		m.Over(name, o)
		m.Took(name, stats.Duration, stats.Memory, err)
	}
}

// runOver counts a kept run that has ended.
func (p *Proxy) runOver(tool string, o runs.Outcome) {
	how := o.How
	switch {
	case o.State == store.Cancelled:
		how = outcome.Cancelled
	case how == outcome.NotYet:
		how = outcome.Limit
	}
	p.metrics.Runs.Over(tool, how)
}
