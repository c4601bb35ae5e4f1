package script

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/clock"
)

// This is what happens to an effect that the journal has no answer to.
//
//	it was never begun           decide whether it may be repeated, note that it is begun, perform it
//	it was begun, and may be     perform it again, as another attempt; a sleep or a question has the time
//	repeated                     that is left of it
//	it was begun, and its peer   perform it from there, see Hold
//	has answered with questions
//	it was begun, and may not    wait until nothing else goes on; then tell the script (Effect.Tells), or wait
//	                             in doubt, or perform it again where somebody has allowed that (Entry.Again)
//
// An attempt whose answer is lost while the run lives (an UnknownOutcome) ends in the same ways; an effect that may
// be repeated is then attempted once more.

// Unknown is the kind of the Failure that a script gets of an effect that may have happened.
const Unknown = "unknown"

// ErrOver is the cause of the context of an effect that has lasted as long as it may (Effect.Lasts).
var ErrOver = errors.New("the time for it is over")

var errPaused, errDrained = errors.New("paused"), errors.New("drained")

// UnknownOutcome is the error of an effect that was sent off and whose answer was lost: it may have happened.
type UnknownOutcome struct{ Err error }

func (u *UnknownOutcome) Error() string { return u.Err.Error() }

// Unwrap returns how the answer was lost.
func (u *UnknownOutcome) Unwrap() error { return u.Err }

// attempt gets the answer to an effect that has none. old is what the journal knows of it, if it was begun.
func (r *Run) attempt(b *branch, e Effect, entry, old *Entry, perform performer) (json.RawMessage, error) {
	if entry.Switch {
		if err := r.turns.delay(b); err != nil {
			return nil, err
		}
	}
	var held json.RawMessage
	if old != nil {
		entry.Attempt, entry.Until = old.Attempt, old.Until
		held = old.Held
		entry.Repeatable = old.Repeatable || e.Repeatable
		if !old.Until.IsZero() || !entry.Repeatable {
			entry.Began = old.Began
		}
	}
	unknown := old != nil && !entry.Repeatable && held == nil
	if unknown && b.ctx.Err() == nil {
		r.turns.strand(b)
	}
	switch {
	case b.ctx.Err() != nil:
		return nil, ended(b.ctx)
	case unknown && !old.Again:
		return r.unanswered(b, e, entry)
	case entry.Switch && r.paused():
		return nil, &Suspended{Paused: true}
	}
	b.hold = holding{entry: entry, state: held, written: held}
	return r.perform(b, e, entry, perform)
}

// unanswered ends an effect that was begun by a run which did not learn its outcome.
func (r *Run) unanswered(b *branch, e Effect, entry *Entry) (json.RawMessage, error) {
	err := r.unknown(e, entry, "no answer came: whether it happened is not known")
	if isSuspended(err) {
		return nil, err
	}
	entry.Ended = clock.Stamp(r.clock.Now())
	o := outcomeOf(entry, nil, err)
	if over := r.turns.recordNow(o); over != nil {
		return nil, over
	}
	b.noteAnswer(*entry)
	return nil, err
}

// unknown makes the error of an effect that may have happened: what the script is told, or a doubt.
func (r *Run) unknown(e Effect, entry *Entry, why string) error {
	if !entry.Repeatable && !e.Tells {
		return &Suspended{Doubts: []Doubt{{Key: entry.Key, Kind: e.Kind, Name: e.Name, Args: e.Args, Began: entry.Began}}}
	}
	entry.Unsure = entry.Unsure || !entry.Repeatable
	return &Failure{Kind: Unknown, Message: why}
}

// paused reports whether nothing may begin any more.
func (r *Run) paused() bool {
	if r.log == nil {
		return false
	}
	select {
	case <-r.pause:
		return true
	default:
		return false
	}
}

// perform gets the answer and records it.
func (r *Run) perform(b *branch, e Effect, entry *Entry, perform performer) (res json.RawMessage, err error) {
	if b.hold.state == nil {
		if err := r.intend(b, e, entry); err != nil {
			return nil, err
		}
	}
	if !e.Instant {
		r.request().Tenant.Touched()
	}
	b.at, b.began, b.until = entry.Key, entry.Began, entry.Until
	failed := r.turns.perform(b, entry.Switch, e.Sleep, func() outcome {
		if err = b.enter(e); err == nil {
			res, err = r.performFor(b, e, perform)
		}
		b.leave()
		entry.Used, entry.Unsure = r.request().Noted(&b.effect)
		entry.Read = b.read
		err = r.settle(b, e, entry, err)
		entry.Ended = clock.Stamp(r.clock.Now())
		return b.hold.outcomeOf(entry, res, err)
	})
	switch {
	case b.ctx.Err() != nil:
		b.lose(entry.Used)
		return nil, ended(b.ctx)
	case failed != nil:
		return nil, failed
	}
	b.noteAnswer(*entry)
	return res, err
}

// intend notes that an effect is about to be performed. Whether it may be performed twice, and when it is over, is
// decided here, when it is first attempted.
func (r *Run) intend(b *branch, e Effect, entry *Entry) error {
	switch {
	case e.Lasts > 0 && !entry.Until.IsZero():
		return nil
	case e.Lasts > 0:
		entry.Until, entry.Repeatable = clock.Stamp(entry.Began.Add(e.Lasts)), true
	case e.Repeatable:
		entry.Repeatable = true
		return nil
	case r.log == nil:
		return nil
	case entry.Attempt == 0 && r.repeat != nil:
		how := r.repeat(e)
		entry.Repeatable = how != Once
		if how == ReadOnly {
			return nil
		}
	}
	entry.Attempt++
	return r.turns.begin(b.ctx, *entry)
}

// performFor performs an effect for as long as it may last.
func (r *Run) performFor(b *branch, e Effect, perform performer) (json.RawMessage, error) {
	ctx := b.ctx
	if e.Lasts > 0 && !e.Sleep {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.left(), ErrOver)
		defer cancel()
	}
	return called(ctx, perform)
}

// left is what is left of the present effect. A clock that is set back makes it no longer than it was.
func (b *branch) left() time.Duration {
	return min(b.until.Sub(b.run.clock.Now()), b.until.Sub(b.began))
}

// called runs perform; a panic in it is an error of the run, not of the process.
func called(ctx context.Context, perform performer) (res json.RawMessage, err error) {
	defer recovered(&err)
	return perform(ctx)
}

// repeating is perform, attempted once more where its answer was lost, it may be repeated, and the script would not get to
// know. Both attempts have the same key. An attempt that did not get to the world does not undo the one before.
func (r *Run) repeating(b *branch, e Effect, entry *Entry, perform performer) performer {
	return func(ctx context.Context) (json.RawMessage, error) {
		res, err := perform(ctx)
		var lost *UnknownOutcome
		if !errors.As(err, &lost) || Final(err) || ctx.Err() != nil || e.Tells || b.catch > 0 || !r.mayRepeat(e, entry) || r.paused() {
			return res, err
		}
		res, err = perform(ctx)
		if IsNotDone(err) {
			return nil, lost
		}
		return res, err
	}
}

// mayRepeat reports whether an effect may be performed again. It asks where nobody has done so yet.
func (r *Run) mayRepeat(e Effect, entry *Entry) bool {
	if r.log == nil && r.repeat != nil {
		entry.Repeatable = r.repeat(e) != Once
	}
	return entry.Repeatable
}

// settle makes of the error of a performed effect what the run goes on with.
func (r *Run) settle(b *branch, e Effect, entry *Entry, err error) error {
	if err == nil {
		return nil
	}
	if s, ok := suspended(err); ok {
		return waits(entry, s)
	}
	var lost *UnknownOutcome
	var failure *Failure
	switch {
	case Final(err), b.ctx.Err() != nil, errors.As(err, &failure):
		return err
	case !errors.As(err, &lost) && b.catch > 0 && !IsNotDone(err): // the script goes on with it
		return &Failure{Kind: "error", Message: err.Error()}
	case lost == nil:
		return err
	}
	if r.mayRepeat(e, entry) && !e.Tells && b.catch == 0 {
		return lost.Err
	}
	return r.unknown(e, entry, lost.Error())
}

// waits completes what an effect waits for by the time that it has.
func waits(e *Entry, s *Suspended) *Suspended {
	if e.Until.IsZero() {
		return s
	}
	all := &Suspended{Wake: e.Until}
	all.Join(s)
	for i := range all.Questions {
		if q := &all.Questions[i]; q.Key == e.Key && q.Deadline.IsZero() {
			q.Deadline = e.Until
		}
	}
	return all
}

// noteAnswer counts the answers that b gets and that leave open whether something happened.
func (b *branch) noteAnswer(e Entry) {
	if e.Done && e.Unsure {
		b.unsure++
	}
}

// outcome is what the journal learns of an effect that was performed.
type outcome struct {
	entry Entry // recorded when Done
	undo  bool  // it surely did not happen
	held  bool  // begun again with Held
}

// outcomeOf notes in e what became of its effect.
func outcomeOf(e *Entry, res json.RawMessage, err error) outcome {
	if err == nil {
		e.Done, e.Result, e.Read = true, res, 0
		return outcome{entry: *e}
	}
	var failure *Failure
	if errors.As(err, &failure) {
		failure.Message = Clip(failure.Message)
		e.Done, e.Failure = true, failure
	}
	return outcome{entry: *e, undo: IsNotDone(err) || untouched(e, err)}
}

// untouched reports whether err suspends the run before the effect has begun.
func untouched(e *Entry, err error) bool {
	s, ok := suspended(err)
	return ok && e.Until.IsZero() && !slices.ContainsFunc(s.Doubts, func(d Doubt) bool { return d.Key == e.Key })
}

// rest is what a sleep does: it waits here, or suspends the run.
func (r *Run) rest(b *branch) performer {
	return func(ctx context.Context) (json.RawMessage, error) {
		left := b.left()
		wake := r.clock.Now().Add(left)
		switch {
		case left <= 0:
			return nil, nil
		case r.log != nil && r.hold > 0 && left > r.hold:
			return nil, &Suspended{Wake: clock.Stamp(wake)}
		}
		ctx, cancel := context.WithCancelCause(ctx)
		watched := make(chan struct{})
		go r.watchPause(ctx, cancel, watched)
		err := r.clock.Wait(ctx, wake)
		cancel(nil)
		<-watched
		if why := context.Cause(ctx); err != nil && (why == errPaused || why == errDrained) {
			return nil, &Suspended{Wake: clock.Stamp(wake), Paused: why == errPaused}
		}
		return nil, err
	}
}

// watchPause ends a sleep when the run is paused, or may not sleep here any more.
func (r *Run) watchPause(ctx context.Context, cancel context.CancelCauseFunc, done chan<- struct{}) {
	defer close(done)
	pause, drain := r.pause, r.drain
	if r.log == nil {
		pause, drain = nil, nil
	}
	select {
	case <-pause:
		cancel(errPaused)
	case <-drain:
		cancel(errDrained)
	case <-ctx.Done():
	}
}

// Until is when the effect is over that ctx belongs to; zero where it has no such time.
func Until(ctx context.Context) time.Time {
	if b := callerOf(ctx); b != nil {
		return b.until
	}
	return time.Time{}
}

// Now is the time of the run whose effect ctx belongs to.
func Now(ctx context.Context) time.Time {
	b := callerOf(ctx)
	switch {
	case b == nil:
		return time.Now()
	case b.near != nil:
		return b.near.now
	}
	return b.run.clock.Now()
}

// Unsure is how many of the answers that t has got so far leave open whether something has happened that may not be
// repeated.
func (r *Run) Unsure(t *starlark.Thread) int { return branchOf(t).unsure }
