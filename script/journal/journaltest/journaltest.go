// Package journaltest has the test that every implementation of [script.Journal] has to pass.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/script"
)

// Test checks that a journal keeps the promises of [script.Journal]. Every
// implementation runs it in a test of its own; open returns an empty journal.
func Test(t *testing.T, open func(t *testing.T) script.Journal) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, j script.Journal)
	}{
		{"answers come back in the order of the record", testOrder},
		{"what was begun comes back until it is recorded", testBegun},
		{"what was released may be begun again", testRelease},
		{"a key is recorded once", testOnce},
		{"another run is refused", testOtherRun},
		{"one run at a time", testExclusive},
		{"waiting ends with the context", testWait},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, open(t)) })
	}
}

var header = script.Header{Program: "p", Args: "a"}

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
	return script.Entry{Key: key, Kind: "call", Digest: "d" + key, Done: true, Switch: true, Result: json.RawMessage(result)}
}

func begun(e script.Entry) script.Entry {
	e.Done, e.Result = false, nil
	return e
}

func testOrder(t *testing.T, j script.Journal) {
	if got := mustOpen(t, j); len(got) != 0 {
		t.Fatalf("a new journal has %v", got)
	}
	no := script.Entry{Key: "2", Kind: "call", Digest: "d2", Done: true, Failure: &script.Failure{Kind: "tool", Message: "no"}}
	want := []script.Entry{answer("1.b1.0", `{"b":1,"a":9007199254740993}`), answer("1.b0.0", `2`), no}
	for _, e := range want {
		must(t, j.Begin(begun(e)))
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
	must(t, j.Begin(begun(answer("0", ""))))
	must(t, j.Begin(begun(answer("1", ""))))
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
	must(t, j.Begin(begun(answer("0", ""))))
	must(t, j.Release("0"))
	must(t, j.Release("never begun"))
	must(t, j.Close())
	if got := mustOpen(t, j); len(got) != 0 {
		t.Errorf("after Release the journal has %v", got)
	}
	must(t, j.Begin(begun(answer("0", ""))))
	must(t, j.Close())
}

func testOnce(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Record(answer("0", "1")))
	if err := j.Record(answer("0", "2")); err == nil {
		t.Error("Record took a second answer for the same key")
	}
	if err := j.Begin(begun(answer("0", ""))); err == nil {
		t.Error("Begin took a key that has an answer")
	}
	must(t, j.Close())
}

func testOtherRun(t *testing.T, j script.Journal) {
	mustOpen(t, j)
	must(t, j.Close())
	for _, h := range []script.Header{{Program: "other", Args: "a"}, {Program: "p", Args: "other"}} {
		if _, err := j.Open(t.Context(), h); !errors.Is(err, script.ErrOtherRun) {
			t.Errorf("Open(%v): %v, want ErrOtherRun", h, err)
		}
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
