package durable_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

func TestStore(t *testing.T) {
	runstest.Test(t, func(*testing.T) runstest.Open {
		stores := map[string]*durable.MemoryStore{}
		return func(_ *testing.T, o durable.Options) durable.Store {
			name := fmt.Sprint(o)
			if stores[name] == nil {
				stores[name] = durable.NewMemory(o, nil)
			}
			return stores[name]
		}
	})
}

// kept is a store in memory with 64 MB for the runs that nobody executes.
type kept struct {
	*durable.MemoryStore
	t    *testing.T
	pool *script.Pool
}

func newKept(t *testing.T) kept {
	pool := script.NewPool(512<<20, 1, nil)
	return kept{durable.NewMemory(durable.Options{MaxBytes: 32 << 20}, pool), t, pool}
}

// holds is what is counted for runs, in MB.
func (k kept) holds() int64 { return k.pool.Usage().Charged >> 20 }

// begin begins a run with a journal of so many MB.
func (k kept) begin(id, principal string, size int) durable.Lease {
	k.t.Helper()
	l, err := k.Create(k.t.Context(), durable.Run{ID: id, Tool: "t", Principal: principal, Dedupe: id}, "owner", nil)
	if err != nil {
		k.t.Fatal(err)
	}
	result, _ := json.Marshal(strings.Repeat("x", size<<20))
	if err := l.Record(script.Entry{Key: "0", Kind: "call", Result: result}); err != nil {
		k.t.Fatal(err)
	}
	return l
}

// ends ends a part of a run.
func (k kept) ends(l durable.Lease, state durable.State) {
	k.t.Helper()
	if err := l.End(k.t.Context(), durable.Outcome{State: state}); err != nil {
		k.t.Fatal(err)
	}
}

// states are the states of runs; "" is a run that is forgotten.
func (k kept) states(ids ...string) (states []durable.State) {
	for _, id := range ids {
		r, _, _ := k.Get(k.t.Context(), id)
		states = append(states, r.State)
	}
	return states
}

// TestRunsThatNobodyExecutesWeigh: runs that wait or have ended are counted as memory of scripts until they are removed; those
// that are executed are not.
func TestRunsThatNobodyExecutesWeigh(t *testing.T) {
	k := newKept(t)
	var ids []string
	for i := range int64(5) {
		l := k.begin(fmt.Sprint(i), "", 8)
		if n := k.holds(); n != 8*i {
			t.Errorf("while one is executed the others weigh %d MB, want %d", n, 8*i)
		}
		k.ends(l, durable.Waiting)
		ids = append(ids, fmt.Sprint(i))
	}
	if _, err := k.Acquire(t.Context(), "0", "owner"); err != nil {
		t.Fatal(err)
	}
	if n := k.holds(); n != 32 {
		t.Errorf("when one is executed again the others weigh %d MB, want 32", n)
	}
	for _, id := range ids {
		if err := k.Cancel(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Prune(t.Context(), durable.Old{Before: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if n := k.pool.Usage().Charged; n != 0 {
		t.Errorf("when they are removed they weigh %d bytes", n)
	}
}

// TestRoomForRuns: no run is refused for want of room to keep it. What has ended is forgotten first; then the runs of the
// principal that holds most are given up, those that only an operator can continue first, and a repeated request is told so.
func TestRoomForRuns(t *testing.T) {
	k := newKept(t)
	k.ends(k.begin("alice", "alice", 8), durable.Waiting)
	k.ends(k.begin("done", "mallory", 8), durable.Done)
	executed := k.begin("executed", "mallory", 8)
	for id, state := range map[string]durable.State{"question": durable.Waiting, "doubt": durable.Doubt, "asleep": durable.Sleeping} {
		k.ends(k.begin(id, "mallory", 8), state)
	}
	ids := []string{"alice", "done", "executed", "question", "doubt", "asleep", "more", "again"}
	for _, then := range []struct {
		begins string
		want   []durable.State
	}{
		{"", []durable.State{durable.Waiting, "", durable.Running, durable.Waiting, durable.Doubt, durable.Sleeping, "", ""}}, // half of the room is full
		{"more", []durable.State{durable.Waiting, "", durable.Running, durable.Waiting, durable.Failed, durable.Sleeping, durable.Waiting, ""}},
		{"again", []durable.State{durable.Waiting, "", durable.Running, durable.Failed, durable.Failed, durable.Sleeping, durable.Waiting, durable.Waiting}},
	} {
		if then.begins != "" {
			k.ends(k.begin(then.begins, "mallory", 8), durable.Waiting)
		}
		if have := k.states(ids...); !slices.Equal(have, then.want) {
			t.Fatalf("after %q: %q, want %q", then.begins, have, then.want)
		}
	}
	r, isNew, err := k.Start(t.Context(), durable.Run{Tool: "t", Principal: "mallory", Dedupe: "doubt"})
	if err != nil || isNew || !strings.Contains(r.Error, "limits.totalMemory") {
		t.Errorf("the request of a run that was given up: %q, new: %v, %v", r.Error, isNew, err)
	}
	if ended, err := k.Uncounted(t.Context(), 10); err != nil || len(ended) != 2 {
		t.Errorf("%d runs are counted as ended, %v", len(ended), err)
	}
	k.ends(executed, durable.Waiting)
	for i := range 20 {
		k.ends(k.begin(fmt.Sprint(i), fmt.Sprint("many", i), 8), durable.Paused)
	}
	if n := k.holds(); n > 65 {
		t.Errorf("runs of many principals weigh %d MB, want 64", n)
	}
	k.ends(k.begin("huge", "alice", 31), durable.Waiting)
	k.ends(k.begin("larger", "bob", 31), durable.Waiting)
	k.ends(k.begin("third", "carol", 31), durable.Waiting)
	if have := k.states("third"); have[0] != durable.Waiting {
		t.Errorf("the last run to wait is %s", have)
	}
}

// TestEndedRunsAreForgotten: of small runs that have ended the last thousand are kept.
func TestEndedRunsAreForgotten(t *testing.T) {
	k := newKept(t)
	for i := range 1100 {
		k.ends(k.begin(fmt.Sprint(i), "", 0), durable.Done)
	}
	if have, want := k.states("99", "100", "1099"), []durable.State{"", durable.Done, durable.Done}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}

// TestWeightsAreTrue: many small runs use about as much memory as is counted for them.
func TestWeightsAreTrue(t *testing.T) {
	k := newKept(t)
	heap := func() int64 {
		for range 3 { // what earlier tests have pooled is freed by the second
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 5000 {
		l, err := k.Create(t.Context(), durable.Run{Tool: "t", Dedupe: fmt.Sprint(i), Limits: make([]byte, 400), Args: make([]byte, 100)}, "owner", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"0", "1", "2"} {
			if err := l.Record(script.Entry{Key: key, Kind: "call", Name: "tool", Result: make([]byte, 50)}); err != nil {
				t.Fatal(err)
			}
		}
		k.ends(l, durable.Waiting)
	}
	used, counted := heap()-before, k.pool.Usage().Charged
	t.Logf("a run uses %d bytes, and %d are counted", used/5000, counted/5000)
	if used > 2*counted || counted > 4*used {
		t.Errorf("5000 runs use %d bytes, and %d are counted", used, counted)
	}
	runtime.KeepAlive(k.MemoryStore)
}
