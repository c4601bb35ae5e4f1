package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.starlark.net/starlark"
)

// group is one call of parallel(), with its branches.
type group struct {
	run    *Run
	parent *branch
	ctx    context.Context
	cancel context.CancelCauseFunc
	prefix string // the path of branch i is prefix + i + "."
	key    string
	call   func(t *starlark.Thread, i int) (starlark.Value, error)

	size, started, live int
	width, places       int // see share
	results             []starlark.Value
	waiting             map[int]*Suspended // branches that are suspended
	failed              error
	lost                Usage // used by effects whose branch was cancelled
}

// branchError is the error of one branch.
type branchError struct {
	index int
	err   error
}

func (e *branchError) Error() string { return fmt.Sprintf("parallel[%d]: %v", e.index, e.err) }
func (e *branchError) Unwrap() error { return e.err }

// Parallel calls call(thread, i) for every i below n, at most width at a time, and returns the results in order. Each
// call is a branch with its own thread. The branches never compute at the same time, only their effects overlap, so
// they may share and change any value.
//
// The first error cancels the other branches and is returned when all have ended. A branch that is suspended keeps its
// place and lets the others continue; the error is then a *Suspended with everything that they wait for.
func (r *Run) Parallel(t *starlark.Thread, n, width int, call func(t *starlark.Thread, i int) (starlark.Value, error)) ([]starlark.Value, error) {
	parent := branchOf(t)
	if r.worker != nil {
		return r.nearParallel(parent, n, width, call)
	}
	key := parent.key()
	parent.counter++
	if err := r.admitGroup(parent, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(parent.ctx)
	defer cancel(nil)
	g := &group{
		run: r, parent: parent, ctx: ctx, cancel: cancel, prefix: key + ".b", key: key, waiting: map[int]*Suspended{},
		call: call, size: n, results: make([]starlark.Value, n),
	}
	g.wait(min(width, n))
	return g.outcome()
}

// admitGroup checks the limits before a parallel().
func (r *Run) admitGroup(parent *branch, n int) error {
	if parent.ctx.Err() != nil {
		return ended(parent.ctx)
	}
	if limit := r.limits.Nesting; parent.nesting() >= limit {
		return reached("nesting", limit)
	}
	if err := r.ledger.Reserve(Usage{Branches: int64(n)}); err != nil {
		return err
	}
	if err := parent.meter.ChargeStack(); err != nil {
		return err
	}
	return r.Charge(int64(n) * branchBytes)
}

// branchBytes is what one branch is charged besides its stack, for goroutine, thread and result.
const branchBytes = 8 << 10

// At most limits.parallel branches of a run are started at once, however calls of parallel() are nested: each has a
// place. A branch that waits for its own parallel() does nothing meanwhile, so the first branch of that uses its
// place, which returns to it at the end: a parallel() can always make progress, one branch after the other. A place
// that becomes free goes to the next branch of the same parallel(), otherwise to the oldest parallel() that has
// branches left.

// wait starts the first branches and waits until all have ended. The first has the place of the parent.
func (g *group) wait(width int) {
	r := g.run
	t := &r.turns
	t.mu.Lock()
	g.width, g.places = width, 1
	g.spawn()
	r.groups = append(r.groups, g)
	r.share()
	t.wait(g.parent)
	g.leave()
}

// share starts branches on free places, those of the oldest group first. The caller holds turns.mu.
func (r *Run) share() {
	for _, g := range r.groups {
		for r.free > 0 && g.failed == nil && g.started < g.size && g.places < g.width {
			r.free--
			g.places++
			g.spawn()
		}
	}
}

// yield returns n places. The caller holds turns.mu.
//
// The journal does not have the moment at which cancelled branches end. So their places stay with the parallel() that
// failed until its end, which is recorded.
func (g *group) yield(n int) {
	g.places -= n
	if above := g.parent.group; above != nil && g.parent.ctx.Err() != nil {
		above.places += n
		return
	}
	g.run.free += n
	g.run.share()
}

// leave returns all places but the parent's. The caller has the turn.
func (g *group) leave() {
	t := &g.run.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	g.run.groups = slices.DeleteFunc(g.run.groups, func(o *group) bool { return o == g })
	g.yield(g.places - 1)
}

// spawn queues the next branch. The caller holds turns.mu.
func (g *group) spawn() {
	i := g.started
	g.started++
	g.live++
	b := g.run.newBranch(g.ctx, g.prefix+strconv.Itoa(i)+".", g)
	g.run.wg.Add(1)
	b.start = func() { g.main(b, i) }
	g.run.turns.fresh = append(g.run.turns.fresh, b)
}

// main is the goroutine of branch i.
func (g *group) main(b *branch, i int) {
	defer g.run.wg.Done()
	b.compute()
	v, err := g.compute(b, i)
	g.end(b, i, v, err)
}

// compute runs call for branch i.
func (g *group) compute(b *branch, i int) (v starlark.Value, err error) {
	defer recovered(&err)
	if b.ctx.Err() != nil {
		return nil, ended(b.ctx)
	}
	return g.call(b.thread, i)
}

// end stores how a branch ended and gives up the turn.
func (g *group) end(b *branch, i int, v starlark.Value, err error) {
	t := &g.run.turns
	b.meter.CountSteps()
	g.parent.unsure += b.unsure
	s, waits := suspended(err)
	switch {
	case waits:
		g.waiting[i] = s
	case err != nil:
		g.fail(i, err)
	default:
		g.results[i] = v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.ctx.Err() != nil {
		t.dead = append(t.dead, b.path)
	}
	g.live--
	b.meter.End()
	// A suspended branch keeps its place, as a branch does that waits for its answer in this process: otherwise the
	// resumed run would take another order.
	switch {
	case waits, g.failed != nil:
	case g.started < g.size:
		g.spawn()
	case g.places > 1:
		g.yield(1)
	}
	if g.live == 0 {
		g.resume()
	}
	t.busy = false
	t.pass()
}

// fail cancels the other branches at the first error.
func (g *group) fail(i int, err error) {
	if g.failed != nil {
		return
	}
	g.failed = &branchError{index: i, err: err}
	g.cancel(errSibling)
	g.run.turns.wakeCancelled()
}

// resume makes the parent continue. The caller holds turns.mu.
//
// After a failure the parent has waited for cancelled effects, whose duration is in no journal; so the end is an
// effect itself. A failure that no builtin catches ends the run, and may be an accident that a resumed run does not
// meet: it is not recorded.
func (g *group) resume() {
	t := &g.run.turns
	if g.failed == nil || g.parent.ctx.Err() != nil || g.run.log == nil {
		t.fresh = append([]*branch{g.parent}, t.fresh...)
		return
	}
	if _, ok := g.run.known[g.key]; ok {
		t.awaiting[g.key] = g.parent
		return
	}
	if g.parent.catch == 0 {
		t.fresh = append([]*branch{g.parent}, t.fresh...)
		return
	}
	join := Entry{Key: g.key, Kind: "join", Done: true, Switch: true, Used: g.lost}
	if err := t.record(outcome{entry: join}); err != nil {
		g.failed = errors.Join(g.failed, err)
	}
	t.done = append(t.done, g.parent)
}

// wants returns what the branches wait for, in the order of the branches.
func (g *group) wants() *Suspended {
	all := &Suspended{}
	for _, i := range slices.Sorted(maps.Keys(g.waiting)) {
		all.Join(g.waiting[i])
	}
	return all
}

// outcome returns the results of parallel().
func (g *group) outcome() ([]starlark.Value, error) {
	if g.failed != nil {
		if join := g.run.known[g.key]; join != nil {
			if err := g.run.reserve(join.Used); err != nil {
				return nil, err
			}
		}
		return nil, g.failed
	}
	if len(g.waiting) > 0 {
		return nil, g.wants()
	}
	return g.results, nil
}
