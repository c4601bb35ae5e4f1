package script

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/clock"
	"github.com/vmcp-dev/vmcp/script/internal/ledger"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// The order of a run, and why a resumed run has the same.
//
// The branches of a run are goroutines, and one logical interpreter: of all of them only
// the one that has the turn computes. It alone touches Starlark values, the fields of Run
// below "The branch that has the turn owns these", the budget, and the results of its
// group; none of these has a lock.
//
// The turn changes hands in six places, and nowhere else: when a branch performs an effect
// that takes time (perform), waits for a recorded answer (await), for the end of the replay (delay) or for
// an answer that nobody knows (strand), waits for its own parallel() (group.wait), or ends (group.end). An instant
// effect, such as a look at the clock, keeps the turn.
//
// # States of a branch
//
//	lined up    in fresh: it has not started, or what it waited for is no effect
//	computing   it has the turn: now, while busy
//	performing  its effect is under way, and counted in flying; others compute
//	done        the effect is recorded; in done, in the order of the records
//	awaiting    the journal has the answer to its effect; in awaiting, by key, until the replay is there
//	late        the journal has no answer to its effect, but some that are to be replayed; in late, until those are
//	lost        an earlier run began its effect, and nobody knows how that ended; in lost
//	ended       its goroutine is over
//
// # Who is next
//
// pass gives the free turn to the first of these, or to nobody:
//
//  1. the first that is lined up;
//  2. while there is something to replay, the branch that awaits the key at the head of
//     replay. Keys of branches that were cancelled and have ended are skipped. Where nobody awaits
//     the head yet, a cancelled branch that is done goes first, for its end may be what
//     lines up the one that will; and while effects are under way everybody waits. If there
//     are none either, the first that is late goes; and if nobody is, the program did not write this
//     journal, and all who await end with Diverged;
//  3. the first that is late: nothing is left to replay that could cancel it;
//  4. the first that is done;
//  5. when nothing is under way any more, the first that is lost: it is told so, attempts its effect once
//     more where somebody has allowed it, or is suspended in doubt.
//
// # Why it is the same order
//
// Between two changes of the turn, one branch computes, and what it does depends on values
// alone. So it is enough that the turn goes the same way. In a first run it goes to lined up
// branches in an order that computing has decided, and else to done ones in the order of
// their records: recording an answer and appending the branch to done are one step under mu
// (perform, record). That order is the journal's, hence that of replay, by which rule 2
// gives the turn in a resumed run. Three things would break it and are kept in order apart:
//
//   - Errors that a script sees are answers, and recorded (see Run.Do). Those that it does not see end
//     the run.
//   - A parallel() that failed waits for effects that were cancelled, and how long they take is
//     in no journal. So its end is recorded as an effect of its own, a join (group.resume).
//   - Places, which bound how many branches go on at once, are given back only at points that
//     the journal fixes (group.end, group.yield).
//
// # Locks
//
// mu guards the fields below it, and the places and counts of the groups. The journal's Begin, Record
// and Release are called with mu held. Of other mutexes only the request's is taken below
// mu, when a new branch is granted its first steps; nothing that can wait for memory or a slot
// may happen there. The whole order is in the comment of package ledger.

// turns decides which branch of a run computes.
type turns struct {
	run *Run

	mu     sync.Mutex
	busy   bool      // a branch has the turn
	now    *branch   // the branch that has the turn, or had it last
	fresh  []*branch // go next, in this order: they start, or what they waited for is no effect
	done   []*branch // their effects are recorded, in this order
	replay []string  // keys of the recorded effects that are still to be delivered, in this order
	// awaiting are the branches that wait until the replay comes to their key.
	awaiting map[string]*branch
	late     []*branch // wait for the end of the replay
	lost     []*branch // wait for effects with an unknown outcome
	flying   int       // effects that are being performed
	sleeping int       // of these
	watch    *clock.Watch
	dead     []string // paths of cancelled branches
	fatal    error    // ends every branch
}

// branch is one line of execution of a run: its main one, or one of a parallel.
type branch struct {
	run     *Run
	path    string // "" or "4.b1."
	counter int    // effects so far
	ctx     context.Context
	thread  *starlark.Thread
	meter   *meter.Thread
	group   *group        // that it is part of; nil for the main branch
	catch   int           // how many builtins around would catch an error
	room    int64         // of answers that it has under way
	read    int64         // bytes that the present effect has read
	unsure  int           // answers so far whose Entry is Unsure, those of its parallel() included
	at      string        // key of the present effect
	began   time.Time     // of the present effect, when it was first begun
	until   time.Time     // when it is over; zero: it has no such time
	effect  ledger.Effect // the present one, as its request counts it
	hold    holding       // how far it has come

	far  *farBranch  // computes it; nil: it computes here
	near *nearBranch // of a run in a worker

	wake  chan struct{}
	start func() // not nil: has not started yet
}

// nesting is how many parallel() are around b.
func (b *branch) nesting() (n int) {
	for g := b.group; g != nil; g = g.parent.group {
		n++
	}
	return n
}

// pass gives the turn to the next branch that can go on, if there is one.
// The caller holds t.mu, and the turn is free.
func (t *turns) pass() {
	b := t.next()
	if b == nil {
		t.look()
		t.run.pool.Rest(&t.run.seat)
		if t.run.idle != nil {
			t.run.idle(t.flying)
		}
		return
	}
	t.run.pool.Activate(&t.run.seat)
	t.busy, t.now = true, b
	t.look()
	if start := b.start; start != nil {
		b.start = nil
		go start()
		return
	}
	b.wake <- struct{}{}
}

// look has the time measured that the run is awake. The caller holds t.mu.
func (t *turns) look() {
	t.watch.Set(clock.State{Computes: t.busy, Replays: len(t.replay) > 0, Flying: t.flying, Sleeping: t.sleeping})
}

// next takes the branch whose turn it is out of its queue.
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
		// What comes next may wait for branches that are cancelled to end.
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

// takeCancelled takes a cancelled branch out of those whose effects are recorded.
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

// wait gives up the turn of b and returns when b has it again. The caller holds t.mu
// and has put b where pass will find it.
func (t *turns) wait(b *branch) {
	t.busy = false
	t.pass()
	t.mu.Unlock()
	<-b.wake
	b.compute()
}

// perform runs f and tells the journal. With others, other branches go on meanwhile; one that sleeps does not keep the run
// awake.
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

// begin tells the journal that an effect is about to be performed.
func (t *turns) begin(ctx context.Context, e Entry) error {
	if t.run.log == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run.log.Begin(ctx, e)
}

// record tells the journal what became of an effect. The caller holds t.mu, so that
// the order of the journal is the order in which branches go on.
func (t *turns) record(o outcome) error {
	switch {
	case t.run.log == nil:
		return nil
	case o.entry.Done:
		if o.entry.Switch {
			o.entry.Awake = t.watch.SoFar()
		}
		return t.run.log.Record(o.entry)
	case o.held:
		return t.held(o.entry)
	case o.undo:
		return t.run.log.Release(o.entry.Key)
	}
	return nil
}

// recordNow records an effect that needed no time. The caller has the turn.
func (t *turns) recordNow(o outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record(o)
}

// await waits until the replay comes to key.
func (t *turns) await(b *branch, key string) error {
	t.mu.Lock()
	t.awaiting[key] = b
	t.wait(b)
	return t.fatal
}

// delay waits with an effect that the journal has no answer to until there is nothing left to replay: what is
// replayed may cancel it, as it did in the run that wrote the journal.
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

// strand waits for an effect whose outcome nobody knows: until b is cancelled, or
// until nothing else in the run can go on.
func (t *turns) strand(b *branch) {
	t.mu.Lock()
	t.lost = append(t.lost, b)
	t.wait(b)
}

// wakeCancelled lines up the branches that were cancelled while they waited for an answer
// that is not coming. The caller has the turn.
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

// lineUpCancelled lines up those of all that were cancelled, and returns the others.
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
