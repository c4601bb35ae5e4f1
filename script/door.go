package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Effect is one thing that a script does to the world, or learns from it.
type Effect struct {
	// Kind and Name say what it is: "call" of a tool by name, "elicit", "now".
	Kind, Name string
	// Args complete the effect: at the same position, with another kind, name or
	// args, it is not the same effect.
	Args json.RawMessage
	// Instant effects take no time to speak of: other branches do not go on meanwhile.
	Instant bool
	// Free effects do not count as calls, nor do instant ones.
	Free bool
	// Repeatable effects may be performed again when it is not known whether an
	// interrupted run has performed them.
	Repeatable bool
}

// Question is what a run asks of somebody.
type Question struct {
	// Key is the question's position in the run: the same question has the same key when the run is resumed.
	Key string
	// Method and Params are the request, such as elicitation/create.
	Method string
	Params json.RawMessage
	// Deadline is until when an answer counts: written with the question when it is first asked, it does
	// not move when it is asked again. Zero where it is not known.
	Deadline time.Time
}

// NotDone marks an error of an effect that surely did not happen, so that a later run
// over the same journal may perform it.
func NotDone(err error) error { return &notDone{err} }

// IsNotDone reports whether NotDone has marked err, or what it was made of.
func IsNotDone(err error) bool { return errors.As(err, new(*notDone)) }

type notDone struct{ error }

func (n *notDone) Unwrap() error { return n.error }

// Key returns the position of the effect that t performs next.
func (r *Run) Key(t *starlark.Thread) string { return branchOf(t).key() }

func (b *branch) key() string { return b.path + strconv.Itoa(b.counter) }

// Catching says that errors of t are caught until the returned function is called.
// An error that a script can see has to be in the journal, else the run could not be
// resumed past it.
func (r *Run) Catching(t *starlark.Thread) (done func()) {
	b := branchOf(t)
	b.catch++
	return func() { b.catch-- }
}

// Do performs an effect, or returns what it returned last time.
//
// An effect that failed to get an answer is not recorded, unless the script goes on
// with the failure (see Catching); one that got the answer "no", a *Failure, always
// is. While perform runs, other branches go on; it must return soon after its context
// has ended.
func (r *Run) Do(t *starlark.Thread, e Effect, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	b := branchOf(t)
	if r.worker != nil {
		return r.nearDo(b, e, perform)
	}
	key := b.key()
	b.counter++
	r.effects++
	if err := r.admit(b, e); err != nil {
		return nil, err
	}
	start := time.Now()
	perform = r.surround(t, key, e, perform)
	entry := Entry{Key: key, Kind: e.Kind, Digest: digest([]byte(e.Name), e.Args), Switch: !e.Instant}
	res, replayed, err := r.answer(b, e, entry, perform)
	b.keepRoom(0)
	if replayed {
		r.stats.Replayed++
	}
	r.observe(Event{
		Key: key, Kind: e.Kind, Name: e.Name, Start: start, Duration: time.Since(start),
		Replayed: replayed, Bytes: len(res), Err: err, Args: e.Args, Result: res, Pos: r.place(t),
	})
	return res, err
}

// surround puts RunOptions.Around around perform.
func (r *Run) surround(t *starlark.Thread, key string, e Effect, perform func(context.Context) (json.RawMessage, error)) func(context.Context) (json.RawMessage, error) {
	if r.around == nil {
		return perform
	}
	a := Attempt{Effect: e, Key: key, Pos: innermost(t)}
	return func(ctx context.Context) (json.RawMessage, error) { return r.around(ctx, a, perform) }
}

// place is where an effect of t comes from, if somebody wants to know.
func (r *Run) place(t *starlark.Thread) (at syntax.Position) {
	if !r.places {
		return at
	}
	return innermost(t)
}

// innermost is the innermost place in a script that t is at.
func innermost(t *starlark.Thread) (at syntax.Position) {
	for i := range t.CallStackDepth() {
		if f := t.CallFrame(i); inScript(f) {
			return f.Pos
		}
	}
	return at
}

// admit checks the limits before an effect.
func (r *Run) admit(b *branch, e Effect) error {
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	if !e.Instant && !e.Free {
		if err := r.ledger.take(Usage{Calls: 1}); err != nil {
			return err
		}
	}
	if n := int64(len(e.Args)); n > int64(r.limits.Output) {
		return reached("output", r.limits.Output)
	}
	if err := b.meter.ChargeStack(); err != nil {
		return err
	}
	return r.Charge(effectBytes)
}

// effectBytes is what one entry in journal and trace costs at least.
const effectBytes = 512

// answer takes the answer from the journal, or gets it.
func (r *Run) answer(b *branch, e Effect, entry Entry, perform func(context.Context) (json.RawMessage, error)) (res json.RawMessage, replayed bool, err error) {
	old, ok := r.known[entry.Key]
	if ok && (old.Kind != entry.Kind || old.Digest != entry.Digest) {
		return nil, false, &Diverged{Key: entry.Key, Have: e.String(), Want: "another " + old.Kind}
	}
	if ok && old.Done {
		res, err = r.replay(b, old)
		return res, true, err
	}
	if entry.Switch {
		if err := r.turns.delay(b); err != nil {
			return nil, false, err
		}
		if b.ctx.Err() != nil {
			return nil, false, ended(b.ctx)
		}
	}
	switch {
	case ok && old.Repeatable:
		entry.Attempt, entry.Repeatable = old.Attempt, true
	case ok && !e.Repeatable:
		r.turns.strand(b)
		if b.ctx.Err() != nil {
			return nil, false, ended(b.ctx)
		}
		return nil, false, &Interrupted{[]Doubt{{Key: entry.Key, Kind: e.Kind, Name: e.Name, Args: e.Args, Began: old.Began}}}
	}
	res, err = r.perform(b, e, entry, perform)
	return r.deliver(res, b.takeRead(), err)
}

// deliver charges for an answer that a branch gets, whatever it is: for what was read,
// and for the text of a failure.
func (r *Run) deliver(res json.RawMessage, read int64, err error) (json.RawMessage, bool, error) {
	if err == nil {
		return res, false, r.Charge(int64(len(res)))
	}
	if Final(err) {
		return nil, false, err
	}
	var failure *Failure
	if errors.As(err, &failure) {
		read += int64(len(failure.Message))
	}
	if over := r.Charge(read); over != nil {
		return nil, false, over
	}
	if over := r.budget.Read(read); over != nil {
		return nil, false, over
	}
	return nil, false, err
}

// String names the effect for a reader: call "deploy".
func (e Effect) String() string {
	if e.Name == "" {
		return e.Kind
	}
	return fmt.Sprintf("%s %q", e.Kind, e.Name)
}

// replay delivers a recorded answer when its turn comes.
func (r *Run) replay(b *branch, e Entry) (json.RawMessage, error) {
	if e.Switch {
		if err := r.turns.await(b, e.Key); err != nil {
			return nil, err
		}
	}
	if b.ctx.Err() != nil {
		return nil, ended(b.ctx)
	}
	if err := r.take(e.Used); err != nil {
		return nil, err
	}
	var failure error
	if e.Failure != nil {
		failure = e.Failure
	}
	res, _, err := r.deliver(e.Result, e.Read, failure)
	return res, err
}

// perform gets the answer and records it.
func (r *Run) perform(b *branch, e Effect, entry Entry, perform func(context.Context) (json.RawMessage, error)) (res json.RawMessage, err error) {
	if !e.Repeatable && r.turns.journal != nil {
		if err := r.intend(b, e, &entry); err != nil {
			return nil, err
		}
	}
	if !e.Instant {
		r.ledger.request.tenant.Touched()
	}
	failed := r.turns.perform(b, entry.Switch, func() outcome {
		if err = b.enter(e); err == nil {
			res, err = b.called(perform)
		}
		b.leave()
		entry.Used, entry.Read = b.takeUsed(), b.read
		return outcomeOf(entry, res, err)
	})
	switch {
	case b.ctx.Err() != nil:
		b.lose(entry.Used)
		return nil, ended(b.ctx)
	case failed != nil:
		return nil, failed
	}
	return res, err
}

// intend notes that an effect is about to be performed. Whether it may be performed twice is decided
// here, when it is first attempted.
func (r *Run) intend(b *branch, e Effect, entry *Entry) error {
	if entry.Attempt == 0 && r.repeat != nil {
		how := r.repeat(e)
		entry.Repeatable = how != Once
		if how == ReadOnly {
			return nil
		}
	}
	entry.Attempt++
	entry.Name, entry.Args, entry.Began = e.Name, e.Args, stamp(time.Now())
	return r.turns.begin(b.ctx, *entry)
}

// called runs perform; a panic in it is an error of the run, not of the process.
func (b *branch) called(perform func(context.Context) (json.RawMessage, error)) (res json.RawMessage, err error) {
	defer recovered(&err)
	return perform(b.ctx)
}

// outcome is what the journal learns of an effect that was performed.
type outcome struct {
	entry Entry // recorded when Done
	undo  bool  // it surely did not happen
}

func outcomeOf(entry Entry, res json.RawMessage, err error) outcome {
	var (
		failure *Failure
		fresh   *notDone
	)
	switch {
	case err == nil:
		entry.Done, entry.Result, entry.Read = true, res, 0
	case errors.As(err, &failure):
		failure.Message = Clip(failure.Message)
		entry.Done, entry.Failure = true, failure
	}
	return outcome{entry, errors.As(err, &fresh) || isSuspended(err)}
}

func (r *Run) observe(e Event) {
	if r.trace != nil {
		r.trace(e)
	}
}

func suspended(err error) (*Suspended, bool) {
	var s *Suspended
	ok := errors.As(err, &s)
	return s, ok
}

func isSuspended(err error) bool {
	_, ok := suspended(err)
	return ok
}

// Caught reports whether a builtin around would catch an error of t.
func (r *Run) Caught(t *starlark.Thread) bool { return branchOf(t).catch > 0 }
