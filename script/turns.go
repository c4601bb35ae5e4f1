package script

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
)

// turns makes the branches of a run one logical interpreter: of all its goroutines
// only the one that has the turn touches Starlark values. The turn changes hands only
// while an effect is performed, and to whom is decided by one thing alone, the order
// in which effects are recorded. That makes a run over the same journal go the same way.
type turns struct {
	journal Journal

	mu     sync.Mutex
	busy   bool               // a branch has the turn
	now    *branch            // the branch that has the turn, or had it last
	fresh  []*branch          // go next, in this order: they start, or what they waited for is no effect
	done   []*branch          // their effects are recorded, in this order
	replay []string           // keys of the recorded effects that are still to be delivered, in this order
	parked map[string]*branch // wait until the replay comes to their key
	lost   []*branch          // wait for effects with an unknown outcome
	flying int                // effects that are being performed
	dead   []string           // paths of cancelled branches
	fatal  error              // ends every branch
}

// branch is one line of execution of a run: its main one, or one of a parallel.
type branch struct {
	run     *Run
	path    string // "" or "4.b1."
	counter int    // effects so far
	ctx     context.Context
	thread  *starlark.Thread
	group   *group // that it is part of; nil for the main branch
	catch   int    // how many builtins around would catch an error
	failed  error  // stops the interpreter at its next step

	wake  chan struct{}
	start func() // not nil: has not started yet
}

// pass gives the turn to the next branch that can go on, if there is one.
// The caller holds t.mu, and the turn is free.
func (t *turns) pass() {
	b := t.next()
	if b == nil {
		return
	}
	t.busy, t.now = true, b
	if start := b.start; start != nil {
		b.start = nil
		go start()
		return
	}
	b.wake <- struct{}{}
}

// next takes the branch whose turn it is out of its queue.
func (t *turns) next() *branch {
	if b := shift(&t.fresh); b != nil {
		return b
	}
	for len(t.replay) > 0 && t.fatal == nil {
		key := t.replay[0]
		if b := t.parked[key]; b != nil {
			t.replay = t.replay[1:]
			delete(t.parked, key)
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
		t.fatal = &Diverged{Key: key, Have: "something else", Want: "an effect"}
	}
	if t.fatal != nil {
		for key, b := range t.parked {
			delete(t.parked, key)
			return b
		}
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
}

// perform runs f and tells the journal. With others, other branches go on meanwhile.
func (t *turns) perform(b *branch, others bool, f func() outcome) error {
	if !others {
		o := f()
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.settle(o)
	}
	t.mu.Lock()
	t.flying++
	t.busy = false
	t.pass()
	t.mu.Unlock()

	o := f()

	t.mu.Lock()
	t.flying--
	err := t.settle(o)
	t.done = append(t.done, b)
	if !t.busy {
		t.pass()
	}
	t.mu.Unlock()
	<-b.wake
	if t.fatal != nil {
		return t.fatal
	}
	return err
}

// begin tells the journal that an effect is about to be performed.
func (t *turns) begin(e Entry) error {
	if t.journal == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return journalError(t.journal.Begin(e))
}

// settle tells the journal what became of an effect. The caller holds t.mu, so that
// the order of the journal is the order in which branches go on.
func (t *turns) settle(o outcome) error {
	switch {
	case t.journal == nil:
		return nil
	case o.entry.Done:
		return journalError(t.journal.Record(o.entry))
	case o.undo:
		return journalError(t.journal.Release(o.entry.Key))
	}
	return nil
}

func journalError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("journal: %w", err)
}

// await waits until the replay comes to key.
func (t *turns) await(b *branch, key string) error {
	t.mu.Lock()
	t.parked[key] = b
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

// unpark wakes the branches that have been cancelled while they waited for an answer
// that is not coming. The caller has the turn.
func (t *turns) unpark() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(t.parked)) {
		if b := t.parked[key]; b.ctx.Err() != nil {
			delete(t.parked, key)
			t.fresh = append(t.fresh, b)
		}
	}
	keep := t.lost[:0]
	for _, b := range t.lost {
		if b.ctx.Err() == nil {
			keep = append(keep, b)
			continue
		}
		t.fresh = append(t.fresh, b)
	}
	t.lost = keep
}
