// Package journaltest has the test that every implementation of [script.Journal] has to pass.
package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/script"
)

// Test checks that a journal fulfils the contract of [script.Journal]. open returns an empty journal.
func Test(t *testing.T, open func(t *testing.T) script.Journal) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, j script.Journal)
	}{
		{"answers come back in the order of the record", testOrder},
		{"what was begun comes back until it is recorded", testBegun},
		{"what was released may be begun again", testRelease},
		{"a key is recorded once", testOnce},
		{"another attempt replaces what was begun", testAttempt},
		{"every field comes back", testFields},
		{"what was recorded is there after every end", testEnds},
		{"large answers and any bytes in them", testLarge},
		{"another run is refused", testOtherRun},
		{"one run at a time", testExclusive},
		{"waiting ends with the context", testWait},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, open(t)) })
	}
}

var header = script.Header{Program: "p", Args: "a", Engine: script.Engine, Limits: script.DefaultLimits()}

func mustOpen(t *testing.T, j script.Journal) []script.Entry {
	t.Helper()
	entries, err := j.Open(t.Context(), header)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return entries
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func answer(key, result string) script.Entry {
	return script.Entry{Key: key, Kind: "call", Digest: "d" + key, Done: true, Switch: true, Attempt: 1, Result: json.RawMessage(result)}
}

func begun(e script.Entry) script.Entry {
	e.Done, e.Result, e.Ended = false, nil, time.Time{}
	return e
}

func testOrder(t *testing.T, j script.Journal) {
	if got := mustOpen(t, j); len(got) != 0 {
		t.Fatalf("a new journal has %v", got)
	}
	no := script.Entry{Key: "2", Kind: "call", Digest: "d2", Done: true, Failure: &script.Failure{Kind: "tool", Message: "no"}}
	want := []script.Entry{answer("1.b1.0", `{"b":1,"a":9007199254740993}`), answer("1.b0.0", `2`), no}
	for _, e := range want {
		must(t, j.Begin(t.Context(), begun(e)))
	}
	for _, e := range want {
		must(t, j.Record(e))
	}
	must(t, j.Close())
	if diff := cmp.Diff(want, mustOpen(t, j)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	must(t, j.Close())
}

func testBegun(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Begin(t.Context(), begun(answer("0", ""))))
	must(t, j.Begin(t.Context(), begun(answer("1", ""))))
	must(t, j.Record(answer("1", "1")))
	must(t, j.Close())
	want := []script.Entry{answer("1", "1"), begun(answer("0", ""))}
	if diff := cmp.Diff(want, mustOpen(t, j)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	must(t, j.Close())
}

func testRelease(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Begin(t.Context(), begun(answer("0", ""))))
	must(t, j.Release("0"))
	must(t, j.Release("never begun"))
	must(t, j.Close())
	if got := mustOpen(t, j); len(got) != 0 {
		t.Errorf("after Release the journal has %v", got)
	}
	must(t, j.Begin(t.Context(), begun(answer("0", ""))))
	must(t, j.Close())
}

func testOnce(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Record(answer("0", "1")))
	if err := j.Record(answer("0", "2")); err == nil {
		t.Error("Record took a second answer for the same key")
	}
	if err := j.Begin(t.Context(), begun(answer("0", ""))); err == nil {
		t.Error("Begin took a key that has an answer")
	}
	must(t, j.Close())
}

func testAttempt(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	first, second := begun(answer("0", "")), begun(answer("0", ""))
	second.Attempt, second.Began = 2, moment.Add(time.Hour)
	must(t, j.Begin(t.Context(), first))
	must(t, j.Begin(t.Context(), begun(answer("1", ""))))
	must(t, j.Close())
	mustOpen(t, j)
	if err := j.Begin(t.Context(), first); err == nil {
		t.Error("Begin took an attempt that was begun already")
	}
	must(t, j.Begin(t.Context(), second))
	must(t, j.Close())
	compare(t, mustOpen(t, j), second, begun(answer("1", "")))
	must(t, j.Close())
}

var moment = time.Date(2026, 11, 22, 19, 4, 5, 123456000, time.UTC)

func testFields(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	asked := script.Entry{
		Key: "3/4.b1.0", Kind: "elicit", Digest: "d", Name: "n", Args: json.RawMessage(`{"a": 1}`), Switch: true, Repeatable: true,
		Attempt: 1, Until: moment.Add(72 * time.Hour), Began: moment,
	}
	said := asked
	said.Key, said.Done, said.Ended, said.Unsure, said.Read = "3/5", true, moment.Add(time.Second), true, 1<<40
	said.Failure = &script.Failure{Kind: "tool", Message: "no\x00\n\u2028"}
	said.Used = script.Usage{Steps: 1, Memory: 2, Calls: 3, Branches: 4, LogBytes: 5}
	must(t, j.Begin(t.Context(), asked))
	must(t, j.Record(said))
	must(t, j.Close())
	compare(t, mustOpen(t, j), said, asked)
	must(t, j.Close())
}

func compare(t *testing.T, got []script.Entry, want ...script.Entry) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// sameBytes compares large results quickly.
var sameBytes = cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

func testEnds(t *testing.T, j script.Journal) {
	var want []script.Entry
	for i := range 5 {
		compare(t, mustOpen(t, j), want...)
		e := answer(fmt.Sprint(i), "1")
		must(t, j.Record(e))
		want = append(want, e)
		must(t, j.Close())
	}
}

func testLarge(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	text, err := json.Marshal(strings.Repeat("\x00\u00e9", 1<<20/8))
	must(t, err)
	e := answer("0", string(text))
	must(t, j.Begin(t.Context(), begun(e)))
	must(t, j.Record(e))
	must(t, j.Close())
	compare(t, mustOpen(t, j), e)
	must(t, j.Close())
}

func testOtherRun(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Close())
	program, args, limits, engine := header, header, header, header
	program.Program, args.Args, limits.Limits.Calls = "other", "other", 1
	engine.Engine++
	for _, h := range []script.Header{program, args, limits} {
		if _, err := j.Open(t.Context(), h); !errors.Is(err, script.ErrOtherRun) {
			t.Errorf("Open(%v): %v, want ErrOtherRun", h, err)
		}
	}
	if _, err := j.Open(t.Context(), engine); err == nil || err.Error() != header.Admit(engine).Error() {
		t.Errorf("Open with another engine: %v, want %v", err, header.Admit(engine))
	}
	mustOpen(t, j)
	must(t, j.Close())
}

func testExclusive(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	second := make(chan []script.Entry)
	go func() {
		entries, err := j.Open(t.Context(), header)
		if err != nil {
			t.Error(err)
		}
		second <- entries
	}()
	must(t, j.Record(answer("0", "1")))
	select {
	case <-second:
		t.Fatal("two runs have the journal at once")
	default:
	}
	must(t, j.Close())
	if got := <-second; len(got) != 1 {
		t.Errorf("the second run finds %v, want what the first has recorded", got)
	}
	must(t, j.Close())
}

func testWait(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	if _, err := j.Open(ctx, header); !errors.Is(err, gone) {
		t.Errorf("Open: %v, want the cause of the context", err)
	}
	must(t, j.Close())
}
