package script

import (
	"sync"
	"sync/atomic"
	"time"
)

// This part of the package has the system clock, and measures how long a run is awake.

// A watch measures how long a run is awake, over all its parts, and ends the run after limits.time.
//
// A run is awake while one of its branches computes or an effect is in progress. It is at rest while all effects in
// progress are sleeps, questions to people, or called runs that are at rest, and while it is not being executed. While
// the journal answers it is at rest, too: that time was counted when the effects were performed. Every entry of an
// effect that is not instant has the time that the run had been awake by then, and a resumed run begins with the
// latest of these. What was computed after that entry is computed and counted again; the time of an interrupted
// attempt is not counted.
//
// A run that another one called has a separate watch, and its caller is awake while it is. Entries have the time of
// the outermost run. The methods of a nil Watch do nothing. The mutex of a Watch is acquired before that of its
// caller's.
type watch struct {
	above *watch
	limit time.Duration
	over  func()
	rest  atomic.Bool // it is at rest

	mu      sync.Mutex
	state   state // guarded by mu, as all below
	rests   int   // effects in progress that are at rest, beside State.Sleeping
	counted bool  // the watch above counts this one as at rest
	ended   bool
	spent   time.Duration
	since   time.Time // since when the run is awake; zero: it is at rest
	timer   *time.Timer
}

// state is what a run does at the moment.
type state struct {
	Computes bool // a branch computes
	Replays  bool // effects are answered by the journal
	Flying   int  // effects in progress,
	Sleeping int  // and how many of these are sleeps
}

// newClock makes the watch of a run that was awake for spent before. over is called once it was awake for limit. above is
// the watch of the run that called it, or nil.
func newClock(above *watch, limit, spent time.Duration, over func()) *watch {
	w := &watch{above: above, limit: limit, over: over, spent: spent}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reportRest(true) // until Set
	return w
}

// Set sets what the run does.
func (w *watch) Set(s state) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	w.measure()
}

// Rest adds n to the effects in progress that are at rest; n may be negative.
func (w *watch) Rest(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests += n
	w.measure()
}

// Asleep reports whether the run is at rest. It acquires no mutex.
func (w *watch) Asleep() bool { return w != nil && w.rest.Load() }

// SoFar returns how long the outermost run has been awake.
func (w *watch) SoFar() time.Duration {
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

// End stops the measuring.
func (w *watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.measure()
	w.reportRest(false) // the effect that called the run continues
}

// measure starts or stops the timer. mu is held.
func (w *watch) measure() {
	awake := (w.state.Computes || w.state.Flying > w.state.Sleeping+w.rests) && !w.state.Replays && !w.ended
	w.rest.Store(!awake)
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
	w.reportRest(!awake)
}

// reportRest reports to the watch above whether this one is at rest. mu is held.
func (w *watch) reportRest(rests bool) {
	if w.above == nil || rests == w.counted {
		return
	}
	if w.counted = rests; rests {
		w.above.Rest(1)
	} else {
		w.above.Rest(-1)
	}
}

// total returns how long the run has been awake. mu is held.
func (w *watch) total() time.Duration {
	if w.since.IsZero() {
		return w.spent
	}
	return w.spent + time.Since(w.since)
}
