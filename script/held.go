package script

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// A peer may answer a call with questions and a state, and ends the call there: it goes on when it is made again with the
// answers and that state. In between nothing is under way, so that the run can be suspended.
//
//	Hold    the peer has asked: begun again in the journal, as Entry.Held; then the effect returns a *Suspended
//	Held    the run goes on, and performs the effect: this is what it goes on with
//	GoOn    the answers have come, and are about to be sent: begun again, without Held. From here on the effect may have
//	        happened, and a run that is cut off is in doubt about it, unless it may be repeated: then Held stays

// holding is how far the present effect of a branch has come.
type holding struct {
	entry   *Entry
	state   json.RawMessage // what it goes on with; nil: it is performed from its beginning
	written json.RawMessage // the same as the journal has it
	waits   bool            // Hold was called, and GoOn was not since
}

// Held returns what the effect that ctx belongs to goes on with; nil for one that is performed from its beginning.
func Held(ctx context.Context) json.RawMessage {
	if b := callerOf(ctx); b != nil {
		return b.hold.state
	}
	return nil
}

// Hold says what the effect that ctx belongs to goes on with, when it has been suspended: it has been answered, and
// nothing of it is under way.
func Hold(ctx context.Context, state json.RawMessage) {
	if b := callerOf(ctx); b != nil {
		b.hold.state, b.hold.waits = state, true
	}
}

// GoOn notes that the effect that ctx belongs to is about to go on from what it was held with. An error is the run's.
func GoOn(ctx context.Context) error {
	b := callerOf(ctx)
	if b == nil {
		return nil
	}
	h := &b.hold
	h.waits = false
	if h.written == nil || h.entry.Repeatable {
		return nil
	}
	h.written = nil
	h.entry.Attempt++
	return b.run.turns.begin(ctx, *h.entry)
}

// outcomeOf is what the journal learns of an effect that may have been held.
func (h *holding) outcomeOf(e *Entry, res json.RawMessage, err error) outcome {
	began := *e
	o := outcomeOf(e, res, err)
	switch {
	case !o.undo, h.state == nil:
		return o
	case bytes.Equal(h.state, h.written), isSuspended(err) && !h.waits:
		return outcome{}
	}
	began.Held, began.Attempt = h.state, began.Attempt+1
	began.Ended, began.Used, began.Unsure, began.Read = time.Time{}, Usage{}, false, 0
	return outcome{entry: began, held: true}
}

// holdWithin is how long a journal has to note what an effect goes on with.
const holdWithin = 10 * time.Second

// held notes what an effect goes on with. The caller holds t.mu.
func (t *turns) held(e Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), holdWithin)
	defer cancel()
	return t.run.log.Begin(ctx, e)
}
