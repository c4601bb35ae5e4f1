package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
)

// admitWithin is how long a run waits for its turn before it is refused.
const admitWithin = 30 * time.Second

// admission bounds the scripts that run at one time: their number, in all and for one
// principal, and the memory that they may use together. Runs beyond it wait in order.
type admission struct {
	mu        sync.Mutex
	total     int64                          // guarded by mu, like all below
	perPerson int64                          //
	memory    int64                          //
	runs      *semaphore.Weighted            //
	bytes     *semaphore.Weighted            //
	people    map[string]*semaphore.Weighted // by principal
}

// set applies a configuration. Runs that were admitted before keep their places in the
// old count.
func (a *admission) set(l config.Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	total, perPerson, memory := orInt(int64(l.Runs), 100), orInt(int64(l.RunsPerPrincipal), 20), orInt(int64(l.TotalMemory), 2<<30)
	if a.runs != nil && total == a.total && perPerson == a.perPerson && memory == a.memory {
		return
	}
	a.total, a.perPerson, a.memory = total, perPerson, memory
	a.runs, a.bytes = semaphore.NewWeighted(total), semaphore.NewWeighted(memory)
	a.people = map[string]*semaphore.Weighted{}
}

func orInt(v, fallback int64) int64 {
	if v > 0 {
		return v
	}
	return fallback
}

// place is one thing a run has to hold while it runs.
type place struct {
	of     *semaphore.Weighted
	weight int64
	full   func() string // why nobody else gets it
}

func (a *admission) places(h *host) []place {
	a.mu.Lock()
	defer a.mu.Unlock()
	total, perPerson, memory := a.total, a.perPerson, a.memory
	all := make([]place, 0, 3)
	if who := h.x.client.principal; who != "" {
		if a.people[who] == nil {
			a.people[who] = semaphore.NewWeighted(perPerson)
		}
		all = append(all, place{a.people[who], 1, func() string {
			return fmt.Sprintf("%d of your scripts run already (limits.runsPerPrincipal)", perPerson)
		}})
	}
	return append(all, place{a.runs, 1, func() string {
		return fmt.Sprintf("%d scripts run already (limits.runs)", total)
	}}, place{a.bytes, min(h.tool.limits.Or(script.DefaultLimits()).Memory, memory), func() string {
		return fmt.Sprintf("the scripts that run may use all of %s together (limits.totalMemory)", script.Bytes(memory))
	}})
}

// enter waits for a run's places. A script that another script calls shares its
// caller's: waiting for more would be waiting for itself.
func (a *admission) enter(ctx context.Context, h *host) (release func(), err error) {
	if len(h.chain) > 1 {
		return func() {}, nil
	}
	all := a.places(h)
	held := 0
	release = func() {
		for _, p := range all[:held] {
			p.of.Release(p.weight)
		}
	}
	for held < len(all) && all[held].of.TryAcquire(all[held].weight) {
		held++
	}
	if held == len(all) {
		return release, nil
	}
	waiting, cancel := context.WithTimeout(ctx, admitWithin)
	defer cancel()
	for ; held < len(all); held++ {
		if p := all[held]; p.of.Acquire(waiting, p.weight) != nil {
			release()
			return nil, fmt.Errorf("%s was not started: %s, and none ended within %v; try again in a moment", h.tool.name, p.full(), admitWithin)
		}
	}
	return release, nil
}
