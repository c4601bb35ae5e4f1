package runs

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package decides when runs of scripts may begin: limits.runs, limits.runsPerPrincipal, and a bounded queue.

const (
	// admitWithin is how long a run waits in the queue before it is refused.
	admitWithin = 30 * time.Second
	// maxWaiting and maxWaitingBytes bound the queue: the number of runs, and the bytes of their arguments.
	maxWaiting      = 1000
	maxWaitingBytes = 32 << 20
)

// An Admission bounds the runs that are in memory at one time, in all and per principal: those that compute and those
// that wait for a tool or for an answer, but not suspended ones. Further runs wait in a queue, in order of arrival,
// before their arguments are parsed; beyond the bounds of the queue they are refused at once. A run that another run
// starts is part of that one: if it waited, the two could wait for each other.
//
// Memory and processors of admitted runs are shared out by the Pool.
//
// The limits are those of all replicas together: each replica has its share, rounded up. While a replica joins or
// leaves, there may be one share more until the others have noticed.
type Admission struct {
	*room
	perPrincipal int // of all replicas; guarded by room.mu
}

// room is the state that the Admissions of one process share.
type room struct {
	Pool *script.Pool // memory and processors of admitted runs

	mu          sync.Mutex
	replicas    int               // guarded by mu, like all below
	total       int               // limits.runs, of all replicas
	memory      int64             //
	running     int               //
	byPrincipal map[principal]int // runs by principal
	waiting     []*entrant        // the queue, in order of arrival
	bytes       int64             // of the arguments in the queue
}

// principal is a principal of one of the Admissions.
type principal struct {
	of  *Admission
	who string // the principal's key; "" is anonymous
}

// entrant is a run that waits in the queue.
type entrant struct {
	principal
	size int64
	in   chan struct{}
}

// hasEnough reports whether a principal has as many runs as it may. mu is held.
func (a *room) hasEnough(p principal) bool {
	return p.who != "" && a.byPrincipal[p] >= a.share(p.of.perPrincipal)
}

// share is this replica's share of a limit. mu is held.
func (a *room) share(limit int) int { return (limit + a.replicas - 1) / a.replicas }

// NewAdmission returns an Admission with the default limits. charged is called with the bytes that all runs have reserved
// whenever they have changed by a step; if it returns a channel, a run that reserves more waits until that is closed.
func NewAdmission(charged func(int64) (collecting <-chan struct{})) *Admission {
	a := &Admission{room: &room{Pool: script.NewPool(0, computing(), charged), replicas: 1, byPrincipal: map[principal]int{}}}
	a.Set(config.Limits{})
	return a
}

// Beside returns an Admission that shares everything with a but the principals: equal keys are different principals.
func (a *Admission) Beside() *Admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Admission{room: a.room, perPrincipal: a.perPrincipal}
}

// computing is the number of runs that may compute at one time: one processor is left to the relay.
func computing() int {
	n := runtime.GOMAXPROCS(0)
	return max(1, n-max(1, n/4))
}

// Set applies a configuration.
func (a *Admission) Set(l config.Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total, a.perPrincipal = orInt(l.Runs, 100), orInt(l.RunsPerPrincipal, 20)
	if memory := orInt(int64(l.TotalMemory), 2<<30); memory != a.memory {
		a.memory = memory
		a.Pool.SetMemory(memory)
	}
	a.admit()
}

// Share sets the number of replicas among which limits.runs and limits.runsPerPrincipal are divided.
func (a *Admission) Share(replicas int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replicas = max(1, replicas)
	a.admit()
}

func orInt[T int | int64](v, fallback T) T {
	if v > 0 {
		return v
	}
	return fallback
}

// Waiting is the number of queued runs, of all Admissions that share room with a.
func (a *Admission) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// Enter waits until a run of a tool may begin; size is the number of bytes of its arguments. The caller calls leave
// when the run ends. The error is a Busy one, or that of ctx.
func (a *Admission) Enter(ctx context.Context, who, tool string, size int) (leave func(), err error) {
	e := &entrant{principal: principal{a, who}, size: int64(size), in: make(chan struct{})}
	if why := a.queue(e); why != "" {
		return nil, busy("%s was not started: %s", tool, why)
	}
	late := time.NewTimer(admitWithin)
	defer late.Stop()
	select {
	case <-e.in:
		return func() { a.leave(e) }, nil
	case <-ctx.Done():
		a.forget(e)
		return nil, context.Cause(ctx)
	case <-late.C:
		why := a.full(e)
		a.forget(e)
		return nil, busy("%s was not started: %s, and none ended within %v", tool, why, admitWithin)
	}
}

// busy is the error of an endpoint that is at a limit (code wire.Busy).
func busy(format string, args ...any) error {
	return wire.Errorf(wire.Busy, "busy: %s; try again in a moment", fmt.Sprintf(format, args...))
}

// queue admits e, appends it to the queue, or returns why it does neither.
func (a *room) queue(e *entrant) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, e)
	a.bytes += e.size
	a.admit()
	if !slices.Contains(a.waiting, e) || len(a.waiting) <= maxWaiting && a.bytes <= maxWaitingBytes {
		return ""
	}
	a.drop(e)
	if len(a.waiting) == maxWaiting {
		return fmt.Sprintf("%d runs are queued already", maxWaiting)
	}
	return fmt.Sprintf("the arguments of queued runs have %s already", script.Bytes(maxWaitingBytes))
}

// admit admits queued runs in order, as far as the limits allow. mu is held.
func (a *room) admit() {
	for i := 0; i < len(a.waiting) && a.running < a.share(a.total); {
		e := a.waiting[i]
		if a.hasEnough(e.principal) {
			i++
			continue
		}
		a.drop(e)
		a.running++
		if e.who != "" {
			a.byPrincipal[e.principal]++
		}
		close(e.in)
	}
}

// drop removes e from the queue. mu is held.
func (a *room) drop(e *entrant) {
	if i := slices.Index(a.waiting, e); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.bytes -= e.size
	}
}

// forget removes e from the queue, or ends it if it was admitted meanwhile.
func (a *room) forget(e *entrant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-e.in:
		a.gone(e)
	default:
		a.drop(e)
	}
}

func (a *room) leave(e *entrant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone(e)
}

// gone counts a run out and admits the next. mu is held.
func (a *room) gone(e *entrant) {
	a.running--
	if e.who != "" {
		if a.byPrincipal[e.principal]--; a.byPrincipal[e.principal] == 0 {
			delete(a.byPrincipal, e.principal)
		}
	}
	a.admit()
}

// full says which limit e waits for.
func (a *Admission) full(e *entrant) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	whose, limit, name := "of your scripts", a.perPrincipal, "limits.runsPerPrincipal"
	if !a.hasEnough(e.principal) {
		whose, limit, name = "scripts", a.total, "limits.runs"
	}
	if a.replicas > 1 {
		return fmt.Sprintf("%d %s run here already (%s: %d among %d replicas)", a.share(limit), whose, name, limit, a.replicas)
	}
	return fmt.Sprintf("%d %s run already (%s)", limit, whose, name)
}
