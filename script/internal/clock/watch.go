// Package clock has the time of a run: the clock of the machine, and how long the run is awake.
package clock

import (
	"sync"
	"time"
)

// A Watch measures how long a run is awake, over all its parts, and ends it when that is too long (limits.time).
//
// A run is awake while one of its branches computes or an effect is under way, and at rest while all that is under way are
// sleeps, questions to people and runs at rest that it has called; and while nobody executes it. While the journal
// answers, it is at rest, too: that time was counted when the run was there for the first time. So every entry
// with the answer to an effect beside which others go on has the time that the run had been awake by then, and a part begins with
// the latest of these. What was computed behind it is computed again, and counted again; the time of an attempt that was
// cut off is not counted.
//
// A run that another one has called has a watch of its own, and its caller is awake while it is. Entries have the time of the run
// that has no caller. The methods of a nil Watch do nothing. The mutex of a Watch is taken before that of the one above it.
type Watch struct {
	above *Watch
	limit time.Duration
	over  func()

	mu    sync.Mutex
	state State // guarded by mu, as all below
	rests int   // what is under way that is at rest, beside State.Sleeping
	told  bool  // the one above knows that this one is at rest
	ended bool
	spent time.Duration
	since time.Time // when the run awoke; zero: it is at rest
	timer *time.Timer
}

// State is what a run does.
type State struct {
	Computes bool // a branch does
	Replays  bool // the journal answers
	Flying   int  // effects are under way,
	Sleeping int  // so many of which are sleeps
}

// New makes the watch of a run that was awake for spent before. over ends the run, once it was awake for limit.
// above is the watch of the run that has called it; nil: none has.
func New(above *Watch, limit, spent time.Duration, over func()) *Watch {
	w := &Watch{above: above, limit: limit, over: over, spent: spent}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(true) // until Set
	return w
}

// Set says what the run does.
func (w *Watch) Set(s State) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	w.look()
}

// Rest says that so many more of what is under way are at rest, or fewer.
func (w *Watch) Rest(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests += n
	w.look()
}

// SoFar is how long the run that has no caller has been awake.
func (w *Watch) SoFar() time.Duration {
	switch {
	case w == nil:
		return 0
	case w.above != nil:
		return w.above.SoFar()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total().Truncate(time.Microsecond)
}

// End ends the measuring.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.look()
	w.tell(false) // the effect that has called the run goes on
}

// look measures while the run is awake. mu is held.
func (w *Watch) look() {
	awake := (w.state.Computes || w.state.Flying > w.state.Sleeping+w.rests) && !w.state.Replays && !w.ended
	switch {
	case awake == !w.since.IsZero():
		return
	case !awake:
		w.timer.Stop()
		w.spent = w.total()
		w.since = time.Time{}
	case w.timer == nil:
		w.since = time.Now()
		w.timer = time.AfterFunc(w.limit-w.spent, w.over)
	default:
		w.since = time.Now()
		w.timer.Reset(w.limit - w.spent)
	}
	w.tell(!awake)
}

// tell has the one above know whether this one is at rest. mu is held.
func (w *Watch) tell(rests bool) {
	if w.above == nil || rests == w.told {
		return
	}
	if w.told = rests; rests {
		w.above.Rest(1)
	} else {
		w.above.Rest(-1)
	}
}

// total is how long the run has been awake. mu is held.
func (w *Watch) total() time.Duration {
	if w.since.IsZero() {
		return w.spent
	}
	return w.spent + time.Since(w.since)
}
