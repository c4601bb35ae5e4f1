package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Journal stores what the effects of a run returned, so that the run can stop and be resumed later without repeating
// any of them. Memory is an implementation in memory; package journaltest has the test that every implementation
// passes.
//
// A journal belongs to one run at a time: Open waits until no other run has it. Two requests with the same state are
// therefore executed one after the other, and the second finds the answers to everything that the first has done. A
// run that is called by another one writes into the journal of its caller, under keys such as "3/0".
//
// The run never calls two methods concurrently. Begin, Record and Release are called while all branches of the run
// wait, so they must not block for long. An error of any of them stops the run: it calls only Close after that. The
// meaning of an error for the journal is up to the implementation; if the run has lost its lease, Begin and Record
// return an error.
//
// # What one effect writes
//
//	instant, or a call that only reads    Record
//	any other call                        Begin, Record     or Release instead: it was certainly not performed
//	a call whose outcome is unknown       Begin             and nothing else, when the run is suspended in doubt
//	a sleep, a question                   Begin with Until, Record
//	a call whose peer asks first          Begin, Begin with SavedState, Begin, Record
//
// A call that is attempted again (it is repeatable, or that was allowed, see Entry.Again) is begun again with a higher
// Attempt; such a Begin replaces the entry.
//
// # What others write
//
// While no run has the journal, its owner may change begun entries. A doubt is resolved by Record of the entry with
// Done and a Result or Failure, last in the order, or by setting Again. The answer to a question need not be recorded:
// the host has it.
type Journal interface {
	// Open acquires the journal for a run of h and returns its entries in the order in which they were recorded, then
	// the begun ones without a result. It waits while another run has the journal, until ctx ends. For a journal that
	// was written by another program, or for other arguments, it returns the error of Header.Admit.
	Open(ctx context.Context, h Header) ([]Entry, error)
	// Begin records that the effect is about to be performed. On return this is durable, with all that was recorded
	// before. A key that has an answer is refused, and one that is begun unless e.Attempt is higher.
	Begin(ctx context.Context, e Entry) error
	// Record stores the answer to an effect. The journal keeps the order of the calls; they are durable within 2 ms,
	// or with the next Begin or Close. The first answer to a key stays: a second one is refused.
	Record(e Entry) error
	// Release undoes Begin: the effect was certainly not performed. A key that is not begun is not an error.
	Release(key string) error
	// Close releases the journal, however the run ended. All that was recorded is durable on return. The journal may
	// be opened again, to resume the run or to replay it.
	Close() error
}

// ErrOtherRun is returned by Open for a journal that another program wrote, or the same program for other arguments or
// limits.
var ErrOtherRun = errors.New("belongs to another run: the script or its arguments have changed")

// Header identifies the run that a journal belongs to, and has what it is pinned to.
type Header struct {
	Program string     // hash of the source of all its files
	Args    string     // digest of its arguments
	Engine  int        // version at its beginning
	Limits  limits.Run // at its beginning, in full
}

// Admit returns why a run with the header now cannot use a journal that was begun with h, or nil; every Journal calls
// it in Open. Programs, arguments, engine and limits must be equal: a store of runs has to provide all of them.
func (h Header) Admit(now Header) error {
	switch {
	case h.Program != now.Program, h.Args != now.Args:
		return ErrOtherRun
	case h.Engine != now.Engine:
		return fmt.Errorf("was begun by version %d of the script engine, and this is version %d: it can be resumed only by the version that began it", h.Engine, now.Engine)
	case h.Limits.Or(now.Limits) != now.Limits: // the version that began it may not have had all of them
		return fmt.Errorf("%w: its limits have changed", ErrOtherRun)
	}
	return nil
}

// Entry is one effect in a journal. A journal returns every field unchanged.
type Entry struct {
	// Key is the effect's position in the run, such as "4.b1.0": the first effect of the second branch of the
	// parallel() that is the run's fifth effect. "3/0" is the first effect of the run that the effect at 3 called.
	Key string `json:"key"`
	// Kind and Digest must be those of the effect at this position when the run is resumed. Kinds are "call" of a
	// tool, "elicit" (a question), "sleep", "retry" (a pause of retry()), "now", "caller", "log", "progress",
	// "workflow", and "join", the end of a parallel() that failed.
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Name and Args are the effect for readers: of a call, the tool and its arguments; of a question, the params of its
	// request. The digest is made of them as the script gave them, before RunOptions.Adapt.
	Name string          `json:"name,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
	// Done distinguishes an answer from an effect that was only begun.
	Done bool `json:"done,omitempty"`
	// Switch marks effects during which other branches continue; their order is the order of the run.
	Switch bool `json:"switch,omitempty"`
	// Repeatable effects may be performed again when it is not known whether they were. It is decided when the effect
	// is first begun, and does not change.
	Repeatable bool `json:"repeatable,omitempty"`
	// Again allows one more attempt of an effect that was begun and is not repeatable: its doubt was resolved that
	// way. The run never sets it; its next Begin clears it.
	Again bool `json:"again,omitempty"`
	// SavedState is the state from which a begun effect continues: its peer has asked questions, and nothing is in
	// progress. See script.SaveState.
	SavedState json.RawMessage `json:"held,omitempty"`
	// Attempt counts how often the effect was begun, from 1; 0 for effects that are not begun.
	Attempt int `json:"attempt,omitempty"`
	// Until is when a sleep ends, or a question expires. It is decided when the effect is first begun, and does not
	// change.
	Until time.Time `json:"until,omitzero"`
	// Began and Ended are times by the clock of the run; Began that of the last attempt. All times of a journal are
	// UTC and whole microseconds.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Awake is how long the outermost run had been awake when the entry was recorded, which limits.time bounds. Only
	// entries that are Done and Switch have it.
	Awake time.Duration `json:"awake,omitempty"`
	// Result or Failure is the answer. The result of a call is a CallToolResult, that of a question the result of its
	// request.
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
	// Read is how many bytes were read for a Failure.
	Read int64 `json:"read,omitempty"`
	// Used is the usage of the runs that the effect started.
	Used Usage `json:"used,omitzero"`
	// Unsure says that the outcome of the effect, or of one in a run that it started, is unknown, and that it may not
	// be repeated: retry() does not try again.
	Unsure bool `json:"unsure,omitempty"`
}

// Failure is an effect that was answered with "no". It is recorded like any answer, so a resumed run gets it again.
type Failure struct {
	// Kind classifies the failure for the script, such as "tool" or "timeout".
	Kind string `json:"kind"`
	// Message is the text for the reader.
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Message }
