package script

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// The order in which the branches of a run compute, and why a resumed run has the same order.
//
// The branches of a run are goroutines of one logical interpreter: at any time at most one of them computes, the one
// that has the turn. Only that branch touches Starlark values, the fields of Run below "The branch that has the turn
// owns these", the budget, and the results of its group; none of these has a lock.
//
// A branch gives up the turn in six places: when it performs an effect that takes time (perform), waits for a recorded
// answer (await), for the end of the replay (delay), for an effect whose outcome is unknown (strand) or for its own
// parallel() (group.wait), and when it ends (group.end). An instant effect, such as a look at the clock, keeps the
// turn. An Interlude takes the turn while no branch has it.
//
// # States of a branch
//
//	queued      in fresh: it has not started, or what it waited for is not an effect
//	computing   it has the turn: now, while busy
//	performing  its effect is in progress, counted in flying; others compute
//	done        its effect is recorded; in done, in the order of the records
//	awaiting    the journal has the answer to its effect; in awaiting, by key, until the replay reaches it
//	late        the journal has no answer to its effect, but others are still to be replayed; in late, until they are
//	lost        an earlier part of the run began its effect, with an unknown outcome; in lost
//	ended       its goroutine has returned
//
// # Which branch is next
//
// pass gives the free turn to the first of these, or to none:
//
//  1. the first that is queued;
//  2. while replay is not empty, the branch that awaits the key at its head. Keys of branches that were
//     cancelled and have ended are skipped. If no branch awaits the head yet, a cancelled branch that is
//     done is next, for its end may queue the branch that will; while effects are in progress none is.
//     If there are none either, the first that is late is next; and if none is late, the program did
//     not write this journal, and all branches that await end with Diverged;
//  3. the first that is late: nothing is left to replay that could cancel it;
//  4. the first that is done;
//  5. when no effect is in progress, the first that is lost: it reports the unknown outcome to the script,
//     attempts its effect again if that was allowed, or is suspended in doubt.
//
// # Why the order is the same
//
// Between two changes of the turn one branch computes, and what it does depends on values alone. So the runs are equal
// if the turn passes in the same order. In a first run it passes to queued branches in an order that computing has
// determined, and otherwise to done ones in the order of their records: recording an answer and appending the branch
// to done are one step under mu (perform, record). That order is the journal's, hence that of replay, by which rule 2
// passes the turn in a resumed run. Three things would break it and are handled separately:
//
//   - Errors that a script sees are recorded like answers (see Run.Do). Those that it does not see end the run.
//   - A parallel() that failed waits for effects that were cancelled, and the journal does not have their
//     duration. So its end is recorded as an effect, a join (group.resume).
//   - Places, which bound how many branches are started at once, are returned only at points that the
//     journal determines (group.end, group.yield).
//
// # Locks
//
// mu guards the fields below it, and the places and counts of the groups. The journal's Begin, Record and Release, and
// RunOptions.Idle, are called with mu held. The mutexes of the watch, the request (when a new branch is granted its
// first steps) and the pool are acquired below it; nothing that can wait for memory or a slot may happen there. The
// order of all mutexes is in the comment of package ledger.

// turns decides which branch of a run computes.
type turns struct {
	run *Run

	mu     sync.Mutex
	busy   bool      // a branch has the turn
	now    *branch   // the branch that has the turn, or had it last
	fresh  []*branch // next, in this order: they start, or waited for something that is not an effect
	done   []*branch // their effects are recorded, in this order
	replay []string  // keys of the recorded effects that are still to be delivered, in this order
	// awaiting are the branches that wait until the replay reaches their key.
	awaiting map[string]*branch
	late     []*branch // wait for the end of the replay
	lost     []*branch // wait for effects with an unknown outcome
	flying   int       // effects that are being performed
	sleeping int       // of these, how many are sleeps
	watch    *watch
	dead     []string // paths of cancelled branches
	fatal    error    // ends every branch
}

// branch is one thread of execution of a run: the main one, or one of a parallel().
type branch struct {
	run     *Run
	path    string // "" or "4.b1."
	counter int    // number of effects so far
	ctx     context.Context
	thread  *starlark.Thread
	meter   *meter.Thread
	group   *group          // the parallel() that it belongs to; nil for the main branch
	catch   int             // how many enclosing builtins catch errors
	room    int64           // bytes reserved in the pool for the answer being read
	read    int64           // bytes that the present effect has read
	unsure  int             // answers so far whose Entry is Unsure, those of its parallel() included
	at      string          // key of the present effect
	began   time.Time       // of the present effect, when it was first begun
	until   time.Time       // when it is over; zero: it has no such time
	effect  ledgerEffect    // the present one, as its request counts it
	args    json.RawMessage // adapted arguments of the present effect; nil: they are those that the script gave
	rounds  multiRound      // its state, if it takes several rounds

	far  *farBranch  // of an isolated run; nil: computed in this process
	near *nearBranch // set in a worker process

	wake  chan struct{}
	start func() // starts its goroutine; nil once it has started
}

// nesting returns how many calls of parallel() enclose b.
func (b *branch) nesting() (n int) {
	for g := b.group; g != nil; g = g.parent.group {
		n++
	}
	return n
}

// pass gives the turn to the next branch that can continue, if there is one. The caller holds t.mu, and no branch has
// the turn.
func (t *turns) pass() {
	b := t.next()
	if b == nil {
		t.measureAwake()
		t.run.pool.Rest(&t.run.seat)
		if t.run.idle != nil {
			t.run.idle(t.flying)
		}
		return
	}
	t.run.pool.Activate(&t.run.seat)
	t.busy, t.now = true, b
	t.measureAwake()
	if start := b.start; start != nil {
		b.start = nil
		go start()
		return
	}
	b.wake <- struct{}{}
}

// measureAwake updates the measuring of the time that the run is awake. The caller holds t.mu.
func (t *turns) measureAwake() {
	t.watch.Set(state{Computes: t.busy, Replays: len(t.replay) > 0, Flying: t.flying, Sleeping: t.sleeping})
}

// next removes the branch that gets the turn from its queue, and returns it; nil for none.
func (t *turns) next() *branch {
	if b := shift(&t.fresh); b != nil {
		return b
	}
	for len(t.replay) > 0 && t.fatal == nil {
		key := t.replay[0]
		if b := t.awaiting[key]; b != nil {
			t.replay = t.replay[1:]
			delete(t.awaiting, key)
			return b
		}
		if t.isDead(key) {
			t.replay = t.replay[1:]
			continue
		}
		// A cancelled branch has to end before the one that awaits key is queued.
		if b := t.takeCancelled(); b != nil || t.flying > 0 {
			return b
		}
		if b := shift(&t.late); b != nil {
			return b
		}
		t.fatal = &Diverged{Key: key, Have: "something else", Want: "an effect"}
	}
	if t.fatal != nil {
		for key, b := range t.awaiting {
			delete(t.awaiting, key)
			return b
		}
	}
	if b := shift(&t.late); b != nil {
		return b
	}
	if b := shift(&t.done); b != nil {
		return b
	}
	if t.flying == 0 {
		return shift(&t.lost)
	}
	return nil
}

// takeCancelled removes the first cancelled branch from done, and returns it; nil for none.
func (t *turns) takeCancelled() *branch {
	i := slices.IndexFunc(t.done, func(b *branch) bool { return b.ctx.Err() != nil })
	if i < 0 {
		return nil
	}
	b := t.done[i]
	t.done = slices.Delete(t.done, i, i+1)
	return b
}

func shift(queue *[]*branch) *branch {
	if len(*queue) == 0 {
		return nil
	}
	b := (*queue)[0]
	*queue = (*queue)[1:]
	return b
}

func (t *turns) isDead(key string) bool {
	for _, path := range t.dead {
		if strings.HasPrefix(key, path) {
			return true
		}
	}
	return false
}

// wait gives up the turn of b and returns when b has it again. The caller holds t.mu and has put b into a queue of
// next; wait releases t.mu.
func (t *turns) wait(b *branch) {
	t.busy = false
	t.pass()
	t.mu.Unlock()
	<-b.wake
	b.compute()
}

// perform runs f and writes its outcome to the journal. With others, other branches compute meanwhile; with sleeps,
// the effect does not keep the run awake.
func (t *turns) perform(b *branch, others, sleeps bool, f func() outcome) error {
	if !others {
		var o outcome
		b.run.pool.KeepingTurn(b.ctx, &b.run.seat, func() { o = f() })
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.record(o)
	}
	t.mu.Lock()
	t.flying++
	if sleeps {
		t.sleeping++
	}
	t.busy = false
	t.pass()
	t.mu.Unlock()

	o := f()

	t.mu.Lock()
	t.flying--
	if sleeps {
		t.sleeping--
	}
	err := t.record(o)
	t.done = append(t.done, b)
	if !t.busy {
		t.pass()
	}
	t.mu.Unlock()
	<-b.wake
	b.compute()
	if t.fatal != nil {
		return t.fatal
	}
	return err
}

// begin writes to the journal that an effect is about to be performed.
func (t *turns) begin(ctx context.Context, e Entry) error {
	if t.run.log == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run.log.Begin(ctx, e)
}

// record writes to the journal how an effect ended. The caller holds t.mu, so that the order of the journal is the
// order in which branches continue.
func (t *turns) record(o outcome) error {
	switch {
	case t.run.log == nil:
		return nil
	case o.entry.Done:
		if o.entry.Switch {
			o.entry.Awake = t.watch.SoFar()
		}
		return t.run.log.Record(o.entry)
	case o.saved:
		return t.recordSaved(o.entry)
	case o.undo:
		return t.run.log.Release(o.entry.Key)
	}
	return nil
}

// recordNow records an effect that took no time. The caller has the turn.
func (t *turns) recordNow(o outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record(o)
}

// await waits until the replay reaches key.
func (t *turns) await(b *branch, key string) error {
	t.mu.Lock()
	t.awaiting[key] = b
	t.wait(b)
	return t.fatal
}

// delay waits until nothing is left to replay, before an effect that the journal has no answer to: a replayed answer
// may cancel it, as it did in the run that wrote the journal.
func (t *turns) delay(b *branch) error {
	t.mu.Lock()
	if len(t.replay) == 0 {
		t.mu.Unlock()
		return nil
	}
	t.late = append(t.late, b)
	t.wait(b)
	return t.fatal
}

// strand waits before an effect whose outcome is unknown, until b is cancelled, or nothing else in the run can
// continue.
func (t *turns) strand(b *branch) {
	t.mu.Lock()
	t.lost = append(t.lost, b)
	t.wait(b)
}

// wakeCancelled queues the cancelled branches that wait for the replay or for an unknown outcome. The caller has the
// turn.
func (t *turns) wakeCancelled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(t.awaiting)) {
		if b := t.awaiting[key]; b.ctx.Err() != nil {
			delete(t.awaiting, key)
			t.fresh = append(t.fresh, b)
		}
	}
	t.late = t.lineUpCancelled(t.late)
	t.lost = t.lineUpCancelled(t.lost)
}

// lineUpCancelled queues the cancelled branches of all, and returns the others.
func (t *turns) lineUpCancelled(all []*branch) []*branch {
	keep := all[:0]
	for _, b := range all {
		if b.ctx.Err() == nil {
			keep = append(keep, b)
			continue
		}
		t.fresh = append(t.fresh, b)
	}
	return keep
}
