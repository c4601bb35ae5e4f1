package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.starlark.net/starlark"
)

// How an effect is performed that the journal has no answer to.
//
//	it was never begun          decide whether it may be repeated, record that it begins, perform it; where that is
//	                            Undecided, Decide does both, once the peer is known
//	it was begun, and may be    perform it again as another attempt; a sleep or a question has the time that is
//	repeated                    left of it
//	it was begun, and its peer  continue from the saved state, see SaveState
//	asked questions
//	it was begun, and may not   wait until nothing else in the run can continue; then report it to the script
//	be repeated                 (Effect.Tells), or suspend in doubt, or perform it again if that was allowed (Entry.Again)
//
// An attempt whose answer is lost while the run continues (UnknownOutcome) ends in the same ways; an effect that may
// be repeated is then attempted once more. In a run that is paused or drained, such an effect is left for the resumed
// run, and so is one that was not performed: its peer may be shutting down, too.

// Unknown is the kind of the Failure of an effect that may have happened.
const Unknown = "unknown"

// ErrOver is the cause of the context of an effect that has lasted for Effect.Lasts.
var ErrOver = errors.New("the time allowed for the effect is over")

var errPaused, errDrained = errors.New("paused"), errors.New("drained")

// UnknownOutcome is the error of an effect that was sent and whose answer was lost: it may have happened.
type UnknownOutcome struct {
	// Err is what lost the answer.
	Err error
	// Harmless is what the script gets if the effect may be repeated, so that it does not matter whether it happened; it is not
	// attempted once more then. nil: it is, or the script gets a failure of the kind Unknown.
	Harmless *Failure
}

func (u *UnknownOutcome) Error() string { return u.Err.Error() }

// Unwrap returns the error that lost the answer.
func (u *UnknownOutcome) Unwrap() error { return u.Err }

// attempt performs an effect that has no answer. old is its entry in the journal, nil if it was never begun.
func (r *Run) attempt(b *branch, e Effect, entry, old *Entry, perform performer) (json.RawMessage, error) {
	if entry.Switch {
		if err := r.turns.delay(b); err != nil {
			return nil, err
		}
	}
	var saved json.RawMessage
	if old != nil {
		entry.Attempt, entry.Until = old.Attempt, old.Until
		saved = old.SavedState
		entry.Repeatable = old.Repeatable || e.Repeatable
		if !old.Until.IsZero() || !entry.Repeatable {
			entry.Began = old.Began
		}
	}
	unknown := old != nil && !entry.Repeatable && saved == nil
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
	b.rounds = multiRound{entry: entry, state: saved, written: saved}
	return r.perform(b, e, entry, perform)
}

// unanswered ends an effect that an earlier part of the run began, and whose outcome is unknown.
func (r *Run) unanswered(b *branch, e Effect, entry *Entry) (json.RawMessage, error) {
	err := r.unknown(b, e, entry, "no answer was received")
	if isSuspended(err) {
		return nil, err
	}
	entry.Ended = stamp(r.clock.Now())
	o := outcomeOf(entry, nil, err)
	if over := r.turns.recordNow(o); over != nil {
		return nil, over
	}
	b.noteAnswer(*entry)
	return nil, err
}

// unknown returns the error of an effect that may have happened: a *Failure for the script, or a *Suspended with a
// Doubt. why is what lost the answer.
func (r *Run) unknown(b *branch, e Effect, entry *Entry, why string) error {
	if !entry.Repeatable && !e.Tells {
		return &Suspended{Doubts: []Doubt{{Key: entry.Key, Kind: e.Kind, Name: e.Name, Args: e.Args, Began: entry.Began, Why: why, Pos: b.position()}}}
	}
	entry.Unsure = entry.Unsure || !entry.Repeatable
	return &Failure{Kind: Unknown, Message: why + ": whether it happened is not known"}
}

// paused reports whether RunOptions.Pause is closed, so that no effect may begin.
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

// leaving reports whether the run is paused or drained.
func (r *Run) leaving() bool {
	if r.log == nil {
		return false
	}
	select {
	case <-r.pause:
		return true
	case <-r.drain:
		return true
	default:
		return false
	}
}

// perform performs the effect and records the answer.
func (r *Run) perform(b *branch, e Effect, entry *Entry, perform performer) (res json.RawMessage, err error) {
	if b.rounds.state == nil {
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
		err = r.classify(b, e, entry, err)
		entry.Ended = stamp(r.clock.Now())
		return b.rounds.outcomeOf(entry, res, err)
	})
	switch {
	case b.ctx.Err() != nil:
		if entry.Unsure || !entry.Done && e.Lasts == 0 && !e.Repeatable && !IsNotDone(err) && !r.mayRepeat(e, entry) {
			r.interrupted.Store(true)
		}
		b.lose(entry.Used)
		return nil, ended(b.ctx)
	case failed != nil:
		return nil, failed
	}
	b.noteAnswer(*entry)
	return res, err
}

// intend records that an effect is about to be performed. At the first attempt it decides whether the effect may be
// repeated, and when it is over.
func (r *Run) intend(b *branch, e Effect, entry *Entry) error {
	switch {
	case e.Lasts > 0 && !entry.Until.IsZero():
		return nil
	case e.Lasts > 0:
		entry.Until, entry.Repeatable = stamp(entry.Began.Add(e.Lasts)), true
	case e.Repeatable:
		entry.Repeatable = true
		return nil
	case r.log == nil:
		return nil
	case entry.Attempt == 0 && r.repeat != nil:
		how := r.repeat(e)
		entry.Repeatable, b.rounds.undecided = how.allowed(), how == Undecided
		if how == ReadOnly || how == Undecided {
			return nil
		}
	}
	entry.Attempt++
	return r.turns.begin(b.ctx, *entry)
}

// Decide records that the effect that ctx belongs to begins, if it was Undecided whether it may be repeated. It is called
// once the peer is known, before the request is sent; repeat tells then. An error ends the run.
func Decide(ctx context.Context, repeat func() Repeat) error {
	b := callerOf(ctx)
	if b == nil || !b.rounds.undecided {
		return nil
	}
	how, entry := repeat(), b.rounds.entry
	b.rounds.undecided, entry.Repeatable = false, how.allowed()
	if how == ReadOnly {
		return nil
	}
	entry.Attempt++
	return b.run.turns.begin(ctx, *entry)
}

// performFor performs an effect within Effect.Lasts.
func (r *Run) performFor(b *branch, e Effect, perform performer) (json.RawMessage, error) {
	ctx := b.ctx
	if e.Lasts > 0 && !e.Sleep {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.left(), ErrOver)
		defer cancel()
	}
	return called(ctx, perform)
}

// left returns how long the present effect may still last. Setting the clock back does not prolong it.
func (b *branch) left() time.Duration {
	return min(b.until.Sub(b.run.clock.Now()), b.until.Sub(b.began))
}

// called runs perform; a panic in it becomes an error of the run.
func called(ctx context.Context, perform performer) (res json.RawMessage, err error) {
	defer recovered(&err)
	return perform(ctx)
}

// repeating wraps perform: when the answer is lost, the effect may be repeated, and the script would not see the
// failure, it is attempted once more with the same key. If the second attempt was not performed, the first is what
// counts.
func (r *Run) repeating(b *branch, e Effect, entry *Entry, perform performer) performer {
	return func(ctx context.Context) (json.RawMessage, error) {
		res, err := perform(ctx)
		var lost *UnknownOutcome
		if !errors.As(err, &lost) || lost.Harmless != nil || Final(err) || ctx.Err() != nil || e.Tells || b.catch > 0 || !r.mayRepeat(e, entry) || r.paused() {
			return res, err
		}
		res, err = perform(ctx)
		if IsNotDone(err) {
			return nil, lost
		}
		return res, err
	}
}

// mayRepeat reports whether an effect may be performed again. Without a journal it asks RunOptions.Repeat here.
func (r *Run) mayRepeat(e Effect, entry *Entry) bool {
	if r.log == nil && r.repeat != nil {
		entry.Repeatable = r.repeat(e).allowed()
	}
	return entry.Repeatable
}

// classify returns what the run continues with after an effect that ended with err.
func (r *Run) classify(b *branch, e Effect, entry *Entry, err error) error {
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
	case !errors.As(err, &lost) && b.catch > 0 && !IsNotDone(err): // the script catches it
		return &Failure{Kind: "error", Message: err.Error()}
	case lost == nil && IsNotDone(err) && r.leaving():
		b.rounds.waits = true // its saved state stays
		return &Suspended{Paused: true}
	case lost == nil:
		return err
	}
	if r.leaving() && r.mayRepeat(e, entry) {
		b.rounds.lost = true
		return &Suspended{Paused: true}
	}
	switch repeats := r.mayRepeat(e, entry); {
	case repeats && lost.Harmless != nil && !entry.Unsure && (e.Tells || b.catch > 0):
		return lost.Harmless
	case repeats && lost.Harmless != nil && !e.Tells && b.catch == 0:
		return lost.Err
	case repeats && !e.Tells && b.catch == 0:
		return fmt.Errorf("%w: whether it happened is not known", lost.Err)
	}
	return r.unknown(b, e, entry, lost.Error())
}

// waits adds to a suspension the time at which the effect that waits is over.
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

// noteAnswer counts an answer of b that is Unsure.
func (b *branch) noteAnswer(e Entry) {
	if e.Done && e.Unsure {
		b.unsure++
	}
}

// outcome is what is written to the journal after an effect.
type outcome struct {
	entry Entry // recorded when Done
	undo  bool  // it was certainly not performed: release it
	saved bool  // begin it again, with its SavedState
}

// outcomeOf fills in how the effect of e ended.
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

// rest performs a sleep: it waits in this process, or suspends the run.
func (r *Run) rest(b *branch) performer {
	return func(ctx context.Context) (json.RawMessage, error) {
		left := b.left()
		wake := r.clock.Now().Add(left)
		switch {
		case left <= 0:
			return nil, nil
		case r.log != nil && r.hold != nil && left > r.hold():
			return nil, &Suspended{Wake: stamp(wake)}
		}
		ctx, cancel := context.WithCancelCause(ctx)
		watched := make(chan struct{})
		go r.watchPause(ctx, cancel, watched)
		err := r.clock.Wait(ctx, wake)
		cancel(nil)
		<-watched
		if why := context.Cause(ctx); err != nil && (why == errPaused || why == errDrained) {
			return nil, &Suspended{Wake: stamp(wake), Paused: why == errPaused}
		}
		return nil, err
	}
}

// watchPause ends a sleep when the run is paused or drained, until ctx ends.
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

// Until returns when the effect is over that ctx belongs to; zero if it has no such time.
func Until(ctx context.Context) time.Time {
	if b := callerOf(ctx); b != nil {
		return b.until
	}
	return time.Time{}
}

// Now returns the time by the clock of the run that ctx belongs to.
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

// Since returns for how long the effect that ctx belongs to has been performed already when perform is called: another
// worker may have begun it.
func Since(ctx context.Context) time.Duration {
	if b := callerOf(ctx); b != nil && b.near != nil {
		return b.near.since
	}
	return 0
}

// Unsure returns how many answers that t has received so far leave open whether an effect that may not be repeated has
// happened.
func (r *Run) Unsure(t *starlark.Thread) int { return branchOf(t).unsure }
