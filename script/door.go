package script

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Effect is one action of a script outside of the interpreter: a call, a question, a look at the clock.
type Effect struct {
	// Kind and Name identify the effect: "call" of a tool by name, "elicit", "now".
	Kind, Name string
	// Args complete the effect. At the same position with another kind, name or args, it is another effect, and the
	// run has diverged from its journal.
	Args json.RawMessage
	// Instant effects take negligible time: other branches do not continue meanwhile.
	Instant bool
	// Free effects do not count as calls; nor do instant ones.
	Free bool
	// Repeatable effects may be performed again when an interrupted run may have performed them; their beginning is
	// not recorded. For others RunOptions.Repeat decides.
	Repeatable bool
	// Lasts is how long the effect may last from when it was first begun, across resumptions; then the context of
	// perform ends with ErrOver. 0: unbounded.
	Lasts time.Duration
	// Sleep effects only wait for Lasts: perform is not called, and may be nil.
	Sleep bool
	// Tells makes the script receive a *Failure of kind Unknown when the outcome of the effect is not known. Otherwise
	// the run is suspended in doubt.
	Tells bool
	// Adaptable effects have their Args adapted by RunOptions.Adapt. The effect is still identified by the Args that the
	// script gave, so that a resumed run does not depend on how they were, or would be, adapted.
	Adaptable bool
}

type performer = func(context.Context) (json.RawMessage, error)

// Key returns the position of the next effect of t.
func (r *Run) Key(t *starlark.Thread) string { return branchOf(t).key() }

func (b *branch) key() string { return b.path + strconv.Itoa(b.counter) }

// Catching marks errors of t as caught until done is called. An error that a script can see has to be recorded, or the
// run could not be resumed past it.
func (r *Run) Catching(t *starlark.Thread) (done func()) {
	b := branchOf(t)
	b.catch++
	return func() { b.catch-- }
}

// Do performs an effect, or returns the recorded answer.
//
// A *Failure, the answer "no", is always recorded. Any other error is recorded only if the script catches it (see
// Catching). While perform runs, other branches continue; it must return soon after its context has ended.
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
	if e.Sleep {
		perform = r.rest(b)
	}
	entry := Entry{Key: key, Kind: e.Kind, Digest: digest([]byte(e.Name), e.Args), Name: e.Name, Switch: !e.Instant, Began: stamp(r.clock.Now())}
	note := r.adaptArgs(b, &e, key)
	if !e.Instant {
		entry.Args = e.Args
	}
	perform = r.surround(t, key, e, r.repeating(b, e, &entry, perform))
	res, replayed, err := r.answer(b, e, &entry, perform)
	b.keepRoom(0)
	if replayed {
		r.stats.Replayed++
	}
	if r.trace != nil {
		r.trace(Event{
			Key: key, Kind: e.Kind, Name: e.Name, Start: entry.Began, Duration: r.lasted(entry),
			Replayed: replayed, Bytes: len(res), Err: err, Args: e.Args, Note: note, Result: res, Pos: r.place(t),
		})
	}
	return res, err
}

// adaptArgs replaces the arguments of an effect by adapted ones, and returns what the trace says of it. An effect that the
// journal has keeps the arguments with which it was recorded: schemas may have changed since.
func (r *Run) adaptArgs(b *branch, e *Effect, key string) (note string) {
	b.args = nil
	if !e.Adaptable || r.adapt == nil {
		return ""
	}
	var args json.RawMessage
	if old := r.known[key]; old != nil {
		args = old.Args
	} else {
		args, note = r.adapt(b.ctx, *e)
	}
	if args != nil {
		b.args, e.Args = args, args
	}
	return note
}

// Arguments returns the adapted arguments of the effect that ctx belongs to, or given if there are none.
func Arguments(ctx context.Context, given json.RawMessage) json.RawMessage {
	if b := callerOf(ctx); b != nil && b.args != nil {
		return b.args
	}
	return given
}

// lasted returns how long an effect took, or has taken until now.
func (r *Run) lasted(e Entry) time.Duration {
	if e.Ended.IsZero() {
		e.Ended = stamp(r.clock.Now())
	}
	return e.Ended.Sub(e.Began)
}

// surround wraps perform in RunOptions.Around.
func (r *Run) surround(t *starlark.Thread, key string, e Effect, perform func(context.Context) (json.RawMessage, error)) func(context.Context) (json.RawMessage, error) {
	if r.around == nil {
		return perform
	}
	a := Attempt{Effect: e, Key: key, Pos: innermost(t)}
	return func(ctx context.Context) (json.RawMessage, error) { return r.around(ctx, a, perform) }
}

// place returns the position that an effect of t was called from, if RunOptions.Places is set.
func (r *Run) place(t *starlark.Thread) (at syntax.Position) {
	if !r.places {
		return at
	}
	return innermost(t)
}

// position is where the present effect was called from.
func (b *branch) position() string {
	if b.far != nil {
		return b.far.pos
	}
	return innermost(b.thread).String()
}

// innermost returns the innermost position of t that is in a script.
func innermost(t *starlark.Thread) (at syntax.Position) {
	for i := range t.CallStackDepth() {
		if f := t.CallFrame(i); inScript(f) {
			return f.Pos
		}
	}
	return at
}

// admit checks the limits before an effect, and charges for its entry.
func (r *Run) admit(b *branch, e Effect) error {
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	if !e.Instant && !e.Free {
		if err := r.ledger.Reserve(Usage{Calls: 1}); err != nil {
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

// effectBytes is the least that one entry in journal and trace is charged.
const effectBytes = 512

// answer returns the recorded answer, or performs the effect.
func (r *Run) answer(b *branch, e Effect, entry *Entry, perform performer) (res json.RawMessage, replayed bool, err error) {
	old := r.known[entry.Key]
	if old != nil && (old.Kind != entry.Kind || old.Digest != entry.Digest) {
		return nil, false, &Diverged{Key: entry.Key, Have: e.String(), Want: "another " + old.Kind}
	}
	if old != nil && old.Done {
		*entry = *old
		res, err = r.replay(b, old)
		return res, true, err
	}
	res, err = r.attempt(b, e, entry, old, perform)
	return r.deliver(res, b.takeRead(), err)
}

// deliver charges for an answer: for the result, or for what was read and the text of a failure.
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

// String names the effect for a reader, as in: call "deploy".
func (e Effect) String() string { return meter.What(e.Kind, e.Name) }

// replay delivers a recorded answer when the replay has reached it.
func (r *Run) replay(b *branch, e *Entry) (json.RawMessage, error) {
	if e.Switch {
		if err := r.turns.await(b, e.Key); err != nil {
			return nil, err
		}
	}
	if b.ctx.Err() != nil {
		return nil, ended(b.ctx)
	}
	if err := r.reserve(e.Used); err != nil {
		return nil, err
	}
	var failure error
	if e.Failure != nil {
		failure = e.Failure
	}
	b.noteAnswer(*e)
	res, _, err := r.deliver(e.Result, e.Read, failure)
	return res, err
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

// Caught reports whether a builtin further out would catch an error of t.
func (r *Run) Caught(t *starlark.Thread) bool { return branchOf(t).catch > 0 }
