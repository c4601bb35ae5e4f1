package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/ledger"
)

// Journal remembers what the effects of a run returned, so that the run can stop and
// go on later without repeating any of them. Memory is one in
// memory, and folder journaltest has the test that every implementation passes.
//
// A journal belongs to one run at a time: Open waits until no other run has it. Two
// requests that bring the same state therefore go one after the other, and the second
// finds everything answered that the first has done. A run that is called by another
// one writes into the journal of its caller, under keys such as "3/0".
//
// The run calls no two methods at once. Begin, Record and Release are called while all
// branches of the run wait, so none of them may wait for long. An error of any of them stops
// the run: it calls nothing more but Close. What an error means for the journal is
// up to its implementation; an owner that has lost its run gets one from Begin and from Record.
//
// # What one effect writes
//
//	instant, or a call that only reads    Record
//	any other call                        Begin, Record     Release instead: it surely did not happen
//	a call whose outcome is not known     Begin             and no more, when the run waits in doubt
//	a sleep, a question                   Begin with Until, Record
//	a call whose peer asks first          Begin, Begin with Held, Begin, Record
//
// A call that is made once more (it is repeatable, or somebody has allowed it, see Entry.Again)
// is begun again with a higher Attempt; such a Begin replaces the entry.
//
// # What others write
//
// While no run has the journal, its owner may answer what was begun: a question with the answer
// that came for it need not be recorded (the host has it), a doubt is resolved by Record of the
// entry with Done and a Result or Failure, last in the order, or by setting Again.
type Journal interface {
	// Open takes the journal for a run of h and returns its entries in the order in
	// which they were recorded, begun ones without a result last. It waits while
	// another run has the journal, until ctx ends. A journal that was written by
	// another program, or for other arguments, is refused with the error of Header.Admit.
	Open(ctx context.Context, h Header) ([]Entry, error)
	// Begin notes that the effect is about to be performed. On return this is durable, with all
	// that was recorded before. A key that has an answer is refused, and one that is begun
	// unless e.Attempt is higher.
	Begin(ctx context.Context, e Entry) error
	// Record stores the answer to an effect. Calls are in the order in which the run goes on,
	// which the journal keeps; they are durable within 2 ms, or with the next Begin or Close.
	// The first answer to a key stays: a second one is refused.
	Record(e Entry) error
	// Release takes back Begin: the effect surely did not happen. A key that is not begun is no error.
	Release(key string) error
	// Close gives the journal back, however the run ended. All that was recorded is durable on
	// return. The journal may be opened again, to go on or to replay it.
	Close() error
}

// ErrOtherRun is returned by Open for a journal that another program wrote, or the
// same one for other arguments.
var ErrOtherRun = errors.New("belongs to another run: the script or its arguments have changed")

// Header names the run that a journal belongs to, and what it goes on with.
type Header struct {
	Program string     // hash of the source of all its files
	Args    string     // digest of its arguments
	Engine  int        // that it began with
	Limits  limits.Run // that it began with, in full
}

// Admit returns why a run of now cannot go on over a journal that was begun with h; every
// Journal asks it in Open. The program and its arguments are those of one run, and whoever keeps runs
// has to bring their limits, too: all are pinned.
func (h Header) Admit(now Header) error {
	switch {
	case h.Program != now.Program, h.Args != now.Args:
		return ErrOtherRun
	case h.Engine != now.Engine:
		return fmt.Errorf("was begun by version %d of the script engine, and this is version %d: it goes on only with the program that it began with", h.Engine, now.Engine)
	case h.Limits != now.Limits:
		return fmt.Errorf("%w: its limits are others", ErrOtherRun)
	}
	return nil
}

// Entry is one effect in a journal. A journal gives every field back as it was.
type Entry struct {
	// Key is the effect's position in the run, such as "4.b1.0": the first effect of
	// the second branch of the parallel that is the run's fifth effect. That of a run which
	// the effect at 3 has called is "3/0".
	Key string `json:"key"`
	// Kind and Digest must be those of the effect at this position when the run is resumed.
	// Kinds are "call" of a tool, "elicit" (a question), "sleep", "retry" (a pause of it), "now", "caller",
	// "log", "progress", "workflow", and "join", the end of a parallel() that failed.
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Name and Args are what the digest is made of, for a reader: of a call, the tool and its
	// arguments; of a question, the params of its request.
	Name string          `json:"name,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
	// Done tells an answer from an effect that was only begun.
	Done bool `json:"done,omitempty"`
	// Switch marks effects during which other branches go on; the order of these is the order of the run.
	Switch bool `json:"switch,omitempty"`
	// Repeatable effects may be performed again when it is not known whether they were. It is
	// decided when the effect is first begun, and holds from then on.
	Repeatable bool `json:"repeatable,omitempty"`
	// Again says of an effect that was begun and is not repeatable that it may be attempted once
	// more: somebody has resolved the doubt. The run never sets it; its next Begin clears it.
	Again bool `json:"again,omitempty"`
	// Held is what an effect that was begun goes on with: its peer has answered with questions, and nothing of it is
	// under way. See script.Hold.
	Held json.RawMessage `json:"held,omitempty"`
	// Attempt counts how often the effect was begun, from 1; 0 for effects that are not begun.
	Attempt int `json:"attempt,omitempty"`
	// Until is when a sleep ends, or a question is no longer open. It is decided when the effect is
	// first begun, and never moves.
	Until time.Time `json:"until,omitzero"`
	// Began and Ended are when, by the clock of the run; Began of the last attempt. All times of a
	// journal are UTC and whole microseconds.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Awake is how long the run that has no caller had been awake when the entry was recorded, which limits.time
	// bounds. Only entries that are Done and Switch have it.
	Awake time.Duration `json:"awake,omitempty"`
	// Result or Failure is the answer. The result of a call is a CallToolResult, that of a
	// question the result of its request.
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
	// Read is how many bytes were read for a Failure.
	Read int64 `json:"read,omitempty"`
	// Used is what other runs have used that the effect has started.
	Used ledger.Usage `json:"used,omitzero"`
	// Unsure says that the outcome of the effect, or of one of a run that it has started, is not
	// known, and that it may not be repeated: retry() does not try again.
	Unsure bool `json:"unsure,omitempty"`
}

// Failure is an effect that was answered with "no": an answer like any other, so it
// is recorded, and the same run sees it again when it is resumed.
type Failure struct {
	// Kind classifies the failure for the script, such as "tool" or "timeout".
	Kind string `json:"kind"`
	// Message is the text for the reader.
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Message }
