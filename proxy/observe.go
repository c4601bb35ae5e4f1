package proxy

import (
	"context"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/operate"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// What the metrics count is in package observe; this file feeds them.

// refused counts and logs a request with a refused credential. The cause is logged, but never the token.
func (p *Proxy) refused(r *auth.Refusal) {
	if r.Cause != nil {
		p.log.Info("request refused", "outcome", observe.Of(r).String(), "status", r.Status, "reason", r.Error(), "err", r.Cause)
	}
	p.metrics.Refused(r.Status)
}

// state is the state for /metrics.
func (p *Proxy) state() observe.State {
	c := p.catalog.Load()
	s := observe.State{
		Edge: p.edge.Stats(), Listed: len(c.VisibleTools()), Problems: len(c.Problems), Suspended: p.suspended.Len(),
		Dropped: p.suspended.Dropped(), Unwritten: p.record.Unwritten(), Waiting: p.admission.Waiting(),
		Draining: p.edge.IsStopping(), Version: p.options.Version, Server: p.server.Load(), Applied: &p.applied, Replicas: p.replicas(),
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
		s.RunsBytes, s.RunsForgotten = kept.Kept, map[string]int64{}
		for _, state := range durable.States {
			s.RunsForgotten[string(state)] = kept.Forgotten[state]
		}
		if !kept.OldestWaiting.IsZero() {
			s.OldestWaiting = max(0, time.Since(kept.OldestWaiting))
		}
	}
	for _, b := range p.backends.All() {
		if b.State().Status == backends.Disabled {
			continue
		}
		s.Backends = append(s.Backends, observe.Backend{
			Name: b.Name(), Ready: operate.State(c, b).Status == backends.Ready, Tools: len(b.Offer().Tools), Unpinned: c.Unpinned(b), Stats: b.Stats(),
		})
	}
	return s
}

// reportPins counts and audits the violations of pins, once each, and logs those that are not among the problems of the
// catalog.
func (p *Proxy) reportPins(c *catalog.Catalog) {
	news, leftOut := p.pins.News(c.Violations, c.Private())
	if leftOut > 0 {
		p.log.Warn("more violations of pins than are reported per minute", "left out", leftOut)
	}
	for _, v := range news {
		p.metrics.Unpinned(v.Name.Backend, string(v.Name.Kind))
		p.record.Unpinned(&v)
		if c != p.catalog.Load() {
			p.log.Warn(v.Reason+", in the session of a client", "backend", v.Name.Backend, "entry", v.Entry())
		}
	}
}

// runOver counts a kept run that has ended.
func (p *Proxy) runOver(tool string, o runs.Outcome) {
	how := o.How
	switch {
	case o.State == durable.Cancelled:
		how = observe.Cancelled
	case how == observe.NotYet:
		how = observe.Limit
	}
	p.metrics.Runs.Over(tool, how)
}
