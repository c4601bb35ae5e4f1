// Package admission says which runs of scripts may begin, and when.
package admission

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

const (
	// admitWithin is how long a run waits for its turn before it is refused.
	admitWithin = 30 * time.Second
	// maxWaiting and maxWaitingBytes bound the runs that wait, and their arguments.
	maxWaiting      = 1000
	maxWaitingBytes = 32 << 20
)

// An Admission bounds the runs that are in memory at one time, in all and for one
// principal: those that compute and those that wait for a tool or for an answer alike,
// but not those that are suspended. Runs beyond it wait, in order, before their arguments
// are read; so many of them that waiting costs little, the rest is refused at once. A run
// that another one calls is part of that one: waiting for more would be waiting for itself.
//
// What runs use once they are in, memory and processors, is shared out by their pool.
//
// The limits are those of all replicas together: each of them takes its share, rounded up. While one comes or goes there
// may be more by a share for as long as the others take to notice.
type Admission struct {
	*room
	perPrincipal int // of all replicas; guarded by room.mu
}

// room is what the Admissions of one process share.
type room struct {
	Pool *script.Pool // what runs share once they are in

	mu          sync.Mutex
	replicas    int               // guarded by mu, like all below
	total       int               // of all replicas
	memory      int64             //
	running     int               //
	byPrincipal map[principal]int // runs by principal
	waiting     []*entrant        // in the order in which they came
	bytes       int64             // of arguments that wait
}

// principal is somebody of one of the Admissions.
type principal struct {
	of  *Admission
	who string // "" is nobody
}

// entrant is a run that waits for admission.
type entrant struct {
	principal
	size int64
	in   chan struct{}
}

// hasEnough reports whether as many runs of a principal have begun as may. The caller holds the mutex.
func (a *room) hasEnough(p principal) bool {
	return p.who != "" && a.byPrincipal[p] >= a.share(p.of.perPrincipal)
}

// share is what this replica may have of a limit. The caller holds the mutex.
func (a *room) share(limit int) int { return (limit + a.replicas - 1) / a.replicas }

// New makes one with the default limits; charged is called with what runs have been charged,
// when it has changed by a step.
func New(charged func(int64)) *Admission {
	a := &Admission{room: &room{Pool: script.NewPool(0, computing(), charged), replicas: 1, byPrincipal: map[principal]int{}}}
	a.Set(config.Limits{})
	return a
}

// Beside makes another one, which shares all room with a but for that of principals: these are others.
func (a *Admission) Beside() *Admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Admission{room: a.room, perPrincipal: a.perPrincipal}
}

// computing is how many runs compute at one time: the relay keeps a processor of its own.
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

// Share says among how many replicas limits.runs and limits.runsPerPrincipal are divided.
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

// Waiting is how many runs wait for their turn; those of all Admissions that share room with a.
func (a *Admission) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// Enter waits until a run of a tool may begin, for somebody and with arguments of size bytes. The
// error is that of a busy endpoint.
func (a *Admission) Enter(ctx context.Context, who, tool string, size int) (leave func(), err error) {
	e := &entrant{principal: principal{a, who}, size: int64(size), in: make(chan struct{})}
	if why := a.queue(e); why != "" {
		return nil, Busy("%s was not started: %s", tool, why)
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
		return nil, Busy("%s was not started: %s, and none ended within %v", tool, why, admitWithin)
	}
}

// Busy is the error of an endpoint that has no room now.
func Busy(format string, args ...any) error {
	return wire.Errorf(wire.Busy, "busy: %s; try again in a moment", fmt.Sprintf(format, args...))
}

// queue lets e in or puts it behind those who wait, or says why it does neither.
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
		return fmt.Sprintf("%d runs wait already", maxWaiting)
	}
	return fmt.Sprintf("the arguments of runs that wait have %s already", script.Bytes(maxWaitingBytes))
}

// admit lets in who may begin. The caller holds the mutex.
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

// drop takes e out of those who wait. The caller holds the mutex.
func (a *room) drop(e *entrant) {
	if i := slices.Index(a.waiting, e); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.bytes -= e.size
	}
}

// forget takes e out of those who wait, or ends what it has begun meanwhile.
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

// gone makes room for the next one. The caller holds the mutex.
func (a *room) gone(e *entrant) {
	a.running--
	if e.who != "" {
		if a.byPrincipal[e.principal]--; a.byPrincipal[e.principal] == 0 {
			delete(a.byPrincipal, e.principal)
		}
	}
	a.admit()
}

// full says why e waits.
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
