package sqlstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// world is a store with the leases of its runs, on which an operation is run.
type world struct {
	store  durable.Store
	leases map[string]durable.Lease
}

// TestStoresAgree runs the same random operations on a store in memory and one in SQLite: both return the
// same errors, and have the same runs afterwards.
func TestStoresAgree(t *testing.T) {
	testmode.Parallel(t)
	o := durable.Options{MaxEntries: 6, MaxBytes: 3000}
	for seed := range testmode.Count(10, 300) {
		file := openSQLite(t, filepath.Join(t.TempDir(), "runs.db"), nil, seed%2 == 0, o)
		worlds := []world{{durable.NewMemory(o, nil), map[string]durable.Lease{}}, {file, map[string]durable.Lease{}}}
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		var log []string
		for range 60 {
			what, do := act(t, rnd)
			first, second := do(worlds[0]), do(worlds[1])
			log = append(log, what+": "+first)
			if first != second {
				t.Fatalf("seed %d: memory and SQLite disagree: %q\n%q", seed, second, log)
			}
		}
		for _, w := range worlds { // so that all entries are written
			for _, l := range w.leases {
				_ = l.End(t.Context(), durable.Outcome{State: durable.Paused})
			}
		}
		for id := range 3 {
			if a, b := state(t, worlds[0], fmt.Sprint(id)), state(t, worlds[1], fmt.Sprint(id)); a != b {
				t.Fatalf("seed %d: run %d is in memory\n%s\nin SQLite\n%s\n%q", seed, id, a, b, log)
			}
		}
		must(t, file.Close())
	}
}

// act chooses an operation, and returns its name and a function that runs it on a world and returns its result as text.
func act(t *testing.T, rnd *rand.Rand) (string, func(world) string) {
	ctx := t.Context()
	id, key := fmt.Sprint(rnd.IntN(3)), fmt.Sprint(rnd.IntN(5))
	e := script.Entry{Key: key, Kind: "call", Attempt: 1 + rnd.IntN(2), Args: json.RawMessage(`"` + fmt.Sprint(rnd.IntN(9)) + `"`)}
	size := rnd.IntN(900)
	end := durable.Outcome{State: durable.States[1+rnd.IntN(7)], Error: key, Questions: []durable.Question{{Key: key, Method: "m"}}, Doubts: []string{key}}
	to := []durable.Resolution{{Done: json.RawMessage(`1`)}, {Failed: "x"}, {Repeat: true}}[rnd.IntN(3)]
	owned := func(f func(durable.Lease) error) func(world) string {
		return func(w world) string {
			if w.leases[id] == nil {
				return "no lease"
			}
			return result(f(w.leases[id]))
		}
	}
	switch n := rnd.IntN(12); n {
	case 0:
		return "start " + id, func(w world) string {
			_, created, err := w.store.Start(ctx, durable.Run{ID: id, Tool: "x", Dedupe: "k" + id})
			return fmt.Sprint(created, result(err))
		}
	case 1, 2:
		return "take " + id, func(w world) string {
			l, err := w.store.Acquire(ctx, id, "me")
			if err == nil {
				w.leases[id] = l
			}
			return result(err)
		}
	case 3, 4:
		return "begin " + id + " " + key, owned(func(l durable.Lease) error { return l.Begin(ctx, e) })
	case 5, 6:
		e.Result = json.RawMessage(fmt.Sprintf("%*d", size, 1))
		return "record " + id + " " + key, owned(func(l durable.Lease) error { return l.Record(e) })
	case 7:
		return "release " + id + " " + key, owned(func(l durable.Lease) error { return l.Release(key) })
	case 8:
		return "end " + id + " " + string(end.State), func(w world) string {
			l := w.leases[id]
			if l == nil {
				return "no lease"
			}
			delete(w.leases, id)
			return result(l.End(ctx, end))
		}
	case 9:
		return "answer " + id + " " + key, func(w world) string { return result(w.store.Answer(ctx, id, key, json.RawMessage(`{}`))) }
	case 10:
		return "resolve " + id + " " + key, func(w world) string { return result(w.store.Resolve(ctx, id, key, to)) }
	}
	if rnd.IntN(4) > 0 {
		return "resume " + id, func(w world) string { return result(w.store.Resume(ctx, id)) }
	}
	return "cancel " + id, func(w world) string { return result(w.store.Cancel(ctx, id, "why")) }
}

// result is the text of an error that both stores have to return.
func result(err error) string {
	for _, known := range []error{durable.ErrUnknown, durable.ErrEnded, durable.ErrBusy, durable.ErrTaken, durable.ErrCancelled, durable.ErrNoQuestion, durable.ErrAnswered, durable.ErrNoDoubt} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// state is a run as text, and whether it is due.
func state(t *testing.T, w world, id string) string {
	r, entries, err := w.store.Get(t.Context(), id)
	due, _, wrong := w.store.Due(t.Context(), 10)
	must(t, wrong)
	for i := range entries {
		entries[i].Ended = time.Time{} // of what was resolved
	}
	text, jsonErr := json.Marshal([]any{r.State, r.Error, r.Entries, fmt.Sprintf("%+v", r.Questions), strings.Join(r.Doubts, " "), r.Owner, entries, slices.Contains(due, id)})
	must(t, jsonErr)
	return fmt.Sprint(string(text), err)
}
