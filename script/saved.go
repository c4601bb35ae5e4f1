package script

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// A call in several rounds, as the journal records it. A peer may answer a call with questions and a state, which ends
// that request; the call continues when it is sent again with the answers and the state. In between nothing is in
// progress, so the run can be suspended. Three functions are called inside the effect, in this order:
//
//	SaveState    the peer has asked. The effect then returns a *Suspended; its entry is begun again in the journal, with
//	             the state as Entry.SavedState.
//	SavedState   the resumed run performs the effect again: returns the saved state, nil for an effect that begins.
//	GoOn         the answers are about to be sent. The entry is begun again without a state: from here on the effect may
//	             have happened, and a run that is interrupted is in doubt about it. An effect that may be repeated keeps
//	             its state, and the round is repeated.

// A multiRound is the state of the present effect of a branch.
type multiRound struct {
	entry   *Entry
	state   json.RawMessage // to continue from; nil: the effect is performed from its beginning
	written json.RawMessage // the state that the journal has
	waits   bool            // SaveState was called, and GoOn was not called since
	lost    bool            // its answer was lost: its entry stays begun, and the resumed run performs it again

	undecided bool // its Repeat is Undecided, and Decide was not called since
}

// SavedState returns the state from which the effect that ctx belongs to continues; nil: it is performed from its
// beginning.
func SavedState(ctx context.Context) json.RawMessage {
	if b := callerOf(ctx); b != nil {
		return b.rounds.state
	}
	return nil
}

// SaveState sets the state from which the effect that ctx belongs to continues when the run is resumed. Its request
// has been answered, and nothing is in progress.
func SaveState(ctx context.Context, state json.RawMessage) {
	if b := callerOf(ctx); b != nil {
		b.rounds.state, b.rounds.waits = state, true
	}
}

// GoOn records that the effect that ctx belongs to is about to send the answers to its peer. An error ends the run.
func GoOn(ctx context.Context) error {
	b := callerOf(ctx)
	if b == nil {
		return nil
	}
	h := &b.rounds
	h.waits = false
	if h.written == nil || h.entry.Repeatable {
		return nil
	}
	h.written = nil
	h.entry.Attempt++
	return b.run.turns.begin(ctx, *h.entry)
}

// outcomeOf returns what is written to the journal after an effect that may have saved a state.
func (h *multiRound) outcomeOf(e *Entry, res json.RawMessage, err error) outcome {
	began := *e
	o := outcomeOf(e, res, err)
	switch {
	case h.lost:
		return outcome{}
	case !o.undo, h.state == nil:
		return o
	case bytes.Equal(h.state, h.written), isSuspended(err) && !h.waits:
		return outcome{}
	}
	began.SavedState, began.Attempt = h.state, began.Attempt+1
	began.Ended, began.Used, began.Unsure, began.Read = time.Time{}, Usage{}, false, 0
	return outcome{entry: began, saved: true}
}

// saveWithin bounds how long recording a saved state may take.
const saveWithin = 10 * time.Second

// recordSaved records a saved state. The caller holds t.mu.
func (t *turns) recordSaved(e Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	return t.run.log.Begin(ctx, e)
}
