package script

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// Journal remembers what the effects of a run returned, so that the run can stop and
// go on later without repeating any of them. Package script/journal has one in
// memory, and script/journal/journaltest the test that every implementation passes.
//
// A journal belongs to one run at a time: Open waits until no other run has it. Two
// requests that bring the same state therefore go one after the other, and the second
// finds everything answered that the first has done.
type Journal interface {
	// Open takes the journal for a run of h and returns its entries in the order in
	// which they were recorded, begun ones without a result last. It waits while
	// another run has the journal, until ctx ends. A journal that was written by
	// another program, or for other arguments, is refused with ErrOtherRun.
	Open(ctx context.Context, h Header) ([]Entry, error)
	// Begin notes that the effect is about to be performed.
	Begin(e Entry) error
	// Record stores the answer to an effect. Calls are in the order in which the run goes on.
	Record(e Entry) error
	// Release takes back Begin: the effect surely did not happen.
	Release(key string) error
	// Close gives the journal back.
	Close() error
}

// ErrOtherRun is returned by Open for a journal that another program wrote, or the
// same one for other arguments.
var ErrOtherRun = errors.New("belongs to another run: the script or its arguments have changed")

// Header names the run that a journal belongs to.
type Header struct {
	Program string // hash of the source of all its files
	Args    string // digest of its arguments
}

// Entry is one effect in a journal.
type Entry struct {
	// Key is the effect's position in the run, such as "4.b1.0": the first effect of
	// the second branch of the parallel that is the run's fifth effect.
	Key string `json:"key"`
	// Kind and Digest must be those of the effect at this position when the run is resumed.
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Done tells an answer from an effect that was only begun.
	Done bool `json:"done,omitempty"`
	// Switch marks effects during which other branches go on; the order of these is the order of the run.
	Switch bool `json:"switch,omitempty"`
	// Result or Failure is the answer.
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
	// Read is how many bytes were read for a Failure.
	Read int64 `json:"read,omitempty"`
	// Used is what other runs have used that the effect has started.
	Used Usage `json:"used,omitzero"`
}

// digest is a short fingerprint of data.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		for i, n := 0, len(p); i < 8; i++ {
			size[i] = byte(n >> (8 * i))
		}
		h.Write(size[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
