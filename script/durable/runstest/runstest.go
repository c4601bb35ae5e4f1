// Package runstest has the contract test that every store of runs passes.
package runstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script/journaltest"
)

// Open opens the store of one test. Each call opens the same data, as another process would; a store in memory is
// the same value each time.
type Open func(t *testing.T, o durable.Options) durable.Store

// Test checks that a store implements [durable.Store] and [durable.Lease] as documented. fresh returns the
// Open function of an empty store.
func Test(t *testing.T, fresh func(t *testing.T) Open) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, open Open)
	}{
		{"a run comes back as it was begun", testStart},
		{"an idempotency key belongs to one request", testDedupe},
		{"six equal requests at once begin one run", testDedupeAtOnce},
		{"a request is repeated while its run records", testRepeatBesideOwner},
		{"a run is created with its entries so far", testCreate},
		{"entries come back in order", testOrder},
		{"any bytes come back", testBytes},
		{"a key is answered once", testOnce},
		{"an entry that was begun is begun again by a higher attempt only", testAttempt},
		{"one owner at a time", testExclusive},
		{"an owner that lost its lease writes nothing", testFenced},
		{"a lease is renewed", testRenewed},
		{"questions are answered once, by whoever is first", testAnswers},
		{"a late answer is refused", testLate},
		{"an answer comes while the run has an owner", testAnswerWhileRunning},
		{"questions are open no longer than what asked them", testClosed},
		{"a doubt is resolved", testResolve},
		{"a cancelled run begins nothing and keeps what it records", testCancel},
		{"runs are due at their time", testDue},
		{"more runs are due", testManyDue},
		{"a run is resumed", testResume},
		{"runs are listed page by page", testList},
		{"runs that have ended are pruned", testPrune},
		{"limits of a journal", testLimits},
		{"runs that have ended keep the configured parts", testKeep},
		{"states are counted", testStats},
		{"changes are announced", testChanged},
		{"events wait until they were sent", testOutbox},
		{"an end that no owner has written is counted once", testUncounted},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, fresh(t)) })
	}
	t.Run("a lease is a journal", func(t *testing.T) {
		journaltest.Test(t, func(t *testing.T) script.Journal {
			s := fresh(t)(t, durable.Options{})
			return &journal{store: s, id: runstestStart(t, s, example()).ID}
		})
	})
}

// journal is the journal of a run that is acquired by Open and released by Close.
type journal struct {
	durable.Lease
	store durable.Store
	id    string
}

func (j *journal) Open(ctx context.Context, h script.Header) ([]script.Entry, error) {
	for {
		changed := j.store.Changed()
		lease, err := j.store.Acquire(ctx, j.id, "me")
		if err == nil {
			entries, err := lease.Open(ctx, h)
			if err != nil {
				return nil, errors.Join(err, lease.End(context.WithoutCancel(ctx), durable.Outcome{State: durable.Paused}))
			}
			j.Lease = lease
			return entries, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, durable.ErrBusy) {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (j *journal) Close() error {
	return j.End(context.Background(), durable.Outcome{State: durable.Paused})
}

var header = script.Header{Program: "p", Args: "a", Engine: 1}

// example is a run with all fields that Start reads.
func example() durable.Run {
	return durable.Run{
		Tool: "onboard", Principal: "anna\x00b", Trace: "00-abc-def-01",
		Program: durable.Program{Main: "onboard.star", Files: map[string]string{"onboard.star": "def run(p):\n\treturn 1\n", "lib/a.star": "x = '\x00'"}, Engine: 1, Hash: "p"},
		Limits:  json.RawMessage(`{"calls": 3}`), Args: json.RawMessage(`{"name": "Zo\u00eb <x>"}`),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func runstestStart(t *testing.T, s durable.Store, r durable.Run) durable.Run {
	t.Helper()
	got, created, err := s.Start(t.Context(), r)
	must(t, err)
	if !created {
		t.Fatalf("Start(%+v) found a run", r)
	}
	return got
}

func take(t *testing.T, s durable.Store, id string) durable.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), id, "me")
	must(t, err)
	_, err = l.Open(t.Context(), header)
	must(t, err)
	return l
}

func end(t *testing.T, l durable.Lease, o durable.Outcome) {
	t.Helper()
	must(t, l.End(t.Context(), o))
}

func get(t *testing.T, s durable.Store, id string) (durable.Run, []script.Entry) {
	t.Helper()
	r, entries, err := s.Get(t.Context(), id)
	must(t, err)
	return r, entries
}

// call is an entry that was begun.
func call(key string) script.Entry {
	return script.Entry{
		Key: key, Kind: "call", Digest: "d" + key, Name: "billing.charge", Args: json.RawMessage(`{"amount": 9007199254740993}`),
		Switch: true, Attempt: 1, Began: time.UnixMilli(1700000000123).UTC(),
	}
}

func answered(key, result string) script.Entry {
	e := call(key)
	e.Done, e.Result, e.Ended, e.Awake = true, json.RawMessage(result), time.UnixMilli(1700000000456).UTC(), 333*time.Millisecond
	return e
}

func testStart(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	r := example()
	r.Expires = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	id := runstestStart(t, s, r).ID
	if len(id) != 26 {
		t.Errorf("id %q, want 26 characters", id)
	}
	got, entries := get(t, open(t, durable.Options{}), id)
	if got.Tool != r.Tool || got.Principal != r.Principal || got.Trace != r.Trace || !bytes.Equal(got.Limits, r.Limits) || !bytes.Equal(got.Args, r.Args) || !got.Expires.Equal(r.Expires) {
		t.Errorf("Get: %+v\nwant %+v", got, r)
	}
	if diff := cmp.Diff(r.Program, got.Program); diff != "" {
		t.Errorf("program (-want +got):\n%s", diff)
	}
	if got.State != durable.Running || got.Owner != "" || len(entries) != 0 || time.Since(got.Created).Abs() > time.Minute {
		t.Errorf("a new run is %+v with %v", got, entries)
	}
	r.ID = id
	if again, created, err := s.Start(t.Context(), r); err != nil || created || again.ID != id {
		t.Errorf("Start of the same id: %v, %v, %v", again.ID, created, err)
	}
	_, _, err := s.Get(t.Context(), durable.NewID())
	wantErr(t, "Get of no run", err, durable.ErrUnknown)
	_, err = s.Acquire(t.Context(), "../../etc/passwd\x00\xff", "me")
	wantErr(t, "Take of no run", err, durable.ErrUnknown)
}

func testDedupe(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	r := example()
	r.Dedupe = "k 1"
	first := runstestStart(t, s, r)
	if again, created, err := open(t, durable.Options{}).Start(t.Context(), r); err != nil || created || again.ID != first.ID {
		t.Errorf("the same request: %v %v %v, want %v", again.ID, created, err, first.ID)
	}
	for _, change := range []func(*durable.Run){
		func(r *durable.Run) { r.Tool = "other" },
		func(r *durable.Run) { r.Args = json.RawMessage(`{}`) },
	} {
		other := r
		change(&other)
		_, _, err := s.Start(t.Context(), other)
		wantErr(t, "Start with another request's key", err, durable.ErrOtherRequest)
		_, err = s.Create(t.Context(), other, "me", nil)
		wantErr(t, "Create with another request's key", err, durable.ErrOtherRequest)
	}
	_, err := s.Create(t.Context(), r, "me", nil)
	wantErr(t, "Create of the same request", err, durable.ErrExists)
	r.Principal = "bert"
	if runstestStart(t, s, r).ID == first.ID {
		t.Error("two principals have one run")
	}
}

func testDedupeAtOnce(t *testing.T, open Open) {
	r := example()
	r.Dedupe = "k"
	var wg sync.WaitGroup
	ids := make([]string, 6)
	begun := make([]bool, 6)
	for i := range ids {
		s := open(t, durable.Options{})
		wg.Go(func() {
			got, created, err := s.Start(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			ids[i], begun[i] = got.ID, created
		})
	}
	wg.Wait()
	n := 0
	for i, id := range ids {
		if begun[i] {
			n++
		}
		if id != ids[0] {
			t.Errorf("ids %v, want one", ids)
		}
	}
	if n != 1 {
		t.Errorf("%d runs were begun, want 1", n)
	}
}

func testCreate(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	r := example()
	r.Header = &header
	l, err := s.Create(t.Context(), r, "me", []script.Entry{answered("0", `1`), call("1")})
	must(t, err)
	id := l.Run().ID
	_, err = s.Acquire(t.Context(), id, "other")
	wantErr(t, "Take of a run that was created", err, durable.ErrBusy)
	must(t, l.Record(answered("1", `2`)))
	end(t, l, durable.Outcome{State: durable.Paused})
	_, entries := get(t, s, id)
	if diff := cmp.Diff([]script.Entry{answered("0", `1`), answered("1", `2`)}, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	l, err = s.Acquire(t.Context(), id, "me")
	must(t, err)
	_, err = l.Open(t.Context(), script.Header{Program: "other", Args: "a", Engine: 1})
	wantErr(t, "Open of another program", err, script.ErrOtherRun)
	end(t, l, durable.Outcome{State: durable.Paused})
}

// testRepeatBesideOwner: whoever repeats a request gets its run, whatever the owner writes between the statements of the look-up.
func testRepeatBesideOwner(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	r := example()
	r.Dedupe = "k"
	id := runstestStart(t, s, r).ID
	l := take(t, s, id)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		other := open(t, durable.Options{})
		wg.Go(func() {
			for {
				if got, created, err := other.Start(t.Context(), r); err != nil || created || got.ID != id || got.State != durable.Running {
					t.Errorf("Start beside the owner: %s %s, created %t, %v; want %s running", got.ID, got.State, created, err, id)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 100 {
		key := fmt.Sprint(i)
		must(t, l.Begin(t.Context(), call(key)))
		must(t, l.Record(answered(key, "1")))
	}
	close(done)
	wg.Wait()
	end(t, l, durable.Outcome{State: durable.Paused})
}

func testOrder(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	no := call("2")
	no.Done, no.Failure, no.Read, no.Unsure = true, &script.Failure{Kind: "unknown", Message: "no"}, 12, true
	sleep := script.Entry{Key: "3", Kind: "sleep", Digest: "s", Until: time.UnixMilli(1800000000001).UTC(), Attempt: 1, Repeatable: true, Again: true}
	for _, key := range []string{"1.b0.0", "1.b1.0", "2"} {
		must(t, l.Begin(t.Context(), call(key)))
	}
	want := []script.Entry{answered("1.b1.0", `{"b":1,"a":9007199254740993}`), answered("1.b0.0", `2`), no, sleep}
	for _, e := range want[:3] {
		must(t, l.Record(e))
	}
	must(t, l.Begin(t.Context(), call("4")))
	must(t, l.Release("4"))
	must(t, l.Release("never begun"))
	must(t, l.Begin(t.Context(), sleep))
	if _, entries := get(t, open(t, durable.Options{}), id); cmp.Diff(want, entries) != "" {
		t.Errorf("after Begin (-want +got):\n%s", cmp.Diff(want, entries))
	}
	end(t, l, durable.Outcome{State: durable.Sleeping, Wake: time.Now().Add(time.Hour)})
	got, entries := get(t, open(t, durable.Options{}), id)
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if got.State != durable.Sleeping || got.Entries != 4 || got.Owner != "" || got.Bytes <= 0 {
		t.Errorf("the run is %+v", got)
	}
	l = take(t, s, id)
	if again, err := l.Open(t.Context(), header); err != nil || cmp.Diff(want, again) != "" {
		t.Errorf("Open: %v (-want +got):\n%s", err, cmp.Diff(want, again))
	}
	end(t, l, durable.Outcome{State: durable.Paused})
}

func testBytes(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	large := answered("0", `"`+strings.Repeat("0123456789abcdef", 1<<16)+`"`)
	odd := answered("1", " {\"a\" : \"<\\u0000>\x00\xff\"}\n")
	odd.Name = "x\x00\xff"
	must(t, l.Record(large))
	must(t, l.Record(odd))
	end(t, l, durable.Outcome{State: durable.Failed, Result: json.RawMessage("{\"x\": \"\x00<\"}"), Error: "bad \x00"})
	r, entries := get(t, open(t, durable.Options{}), id)
	if len(entries) != 2 || !bytes.Equal(entries[0].Result, large.Result) {
		t.Fatalf("%d entries, want 2 with 1 MiB in the first", len(entries))
	}
	if diff := cmp.Diff(odd, entries[1]); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if string(r.Result) != "{\"x\": \"\x00<\"}" || r.Error != "bad \x00" || r.State != durable.Failed {
		t.Errorf("the end is %q %q %v", r.Result, r.Error, r.State)
	}
	_, err := s.Acquire(t.Context(), id, "me")
	wantErr(t, "Take of a run that has ended", err, durable.ErrEnded)
}

func testOnce(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Record(answered("0", "1")))
	if err := l.Record(answered("0", "2")); err == nil {
		t.Error("Record took a second answer for the same key")
	}
	if err := l.Begin(t.Context(), call("0")); err == nil {
		t.Error("Begin took a key that has an answer")
	}
	end(t, l, durable.Outcome{State: durable.Paused})
	l = take(t, s, id)
	if err := l.Record(answered("0", "2")); err == nil {
		t.Error("Record took a second answer from another owner")
	}
	end(t, l, durable.Outcome{State: durable.Paused})
	if _, entries := get(t, s, id); len(entries) != 1 || string(entries[0].Result) != "1" {
		t.Errorf("entries %v, want the first answer", entries)
	}
}

func testAttempt(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Begin(t.Context(), call("0")))
	if err := l.Begin(t.Context(), call("0")); err == nil {
		t.Error("Begin took a key that was begun, with the same attempt")
	}
	second := call("0")
	second.Attempt, second.SavedState = 2, json.RawMessage(`{"round":1}`)
	must(t, l.Begin(t.Context(), second))
	end(t, l, durable.Outcome{State: durable.Paused})
	if _, entries := get(t, s, id); cmp.Diff([]script.Entry{second}, entries) != "" {
		t.Errorf("entries %v, want the second attempt with what it goes on with", entries)
	}
}

func testExclusive(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	var wg sync.WaitGroup
	var mu sync.Mutex
	var leases []durable.Lease
	for i := range 8 {
		other := open(t, durable.Options{})
		wg.Go(func() {
			l, err := other.Acquire(t.Context(), id, fmt.Sprint("owner", i))
			if err != nil && !errors.Is(err, durable.ErrBusy) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				leases = append(leases, l)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(leases) != 1 {
		t.Fatalf("%d owners have the run", len(leases))
	}
	if r := leases[0].Run(); r.Epoch != 1 || r.State != durable.Running || !strings.HasPrefix(r.Owner, "owner") {
		t.Errorf("the run is %+v", r)
	}
	end(t, leases[0], durable.Outcome{State: durable.Paused})
	l := take(t, s, id)
	if l.Run().Epoch != 2 {
		t.Errorf("epoch %d, want 2", l.Run().Epoch)
	}
	end(t, l, durable.Outcome{State: durable.Paused})
}

// short are options of leases that expire soon and are not renewed, as if their owner had been killed.
var short = durable.Options{Lease: 20 * time.Millisecond, Renew: -1}

// takeLater acquires the run when the lease of another owner has expired.
func takeLater(t *testing.T, s durable.Store, id string) durable.Lease {
	t.Helper()
	for {
		l, err := s.Acquire(t.Context(), id, "other")
		if err == nil {
			_, err = l.Open(t.Context(), header)
			must(t, err)
			return l
		}
		if !errors.Is(err, durable.ErrBusy) {
			t.Fatal(err)
		}
		waitDue(t, s)
	}
}

// waitDue returns when the store has a run that is due.
func waitDue(t *testing.T, s durable.Store) []string {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		ids, _, err := s.Due(t.Context(), 10)
		must(t, err)
		if len(ids) > 0 {
			return ids
		}
		<-tick.C
	}
}

func testFenced(t *testing.T, open Open) {
	s := open(t, short)
	id := runstestStart(t, s, example()).ID
	zombie := take(t, s, id)
	must(t, zombie.Begin(t.Context(), call("0")))
	if r := zombie.Run(); r.Epoch != 1 {
		t.Errorf("epoch %d", r.Epoch)
	}
	l := takeLater(t, s, id)
	if err := zombie.Begin(t.Context(), call("1")); !errors.Is(err, durable.ErrTaken) {
		t.Errorf("a zombie's Begin: %v, want ErrTaken", err)
	}
	// Record may report it later; nothing may be written.
	_ = zombie.Record(answered("0", `"zombie"`))
	if err := zombie.End(t.Context(), durable.Outcome{State: durable.Done, Result: json.RawMessage(`"zombie"`)}); !errors.Is(err, durable.ErrTaken) {
		t.Errorf("a zombie's End: %v, want ErrTaken", err)
	}
	<-zombie.Lost()
	// The new owner's lease may have expired by now: then it writes nothing either.
	for _, err := range []error{
		l.Record(answered("0", `"right"`)),
		l.End(t.Context(), durable.Outcome{State: durable.Done, Result: json.RawMessage(`1`)}),
	} {
		if err != nil && !errors.Is(err, durable.ErrTaken) {
			t.Fatal(err)
		}
	}
	r, entries := get(t, s, id)
	for _, e := range entries {
		if e.Key == "1" || string(e.Result) == `"zombie"` {
			t.Errorf("a zombie wrote %+v", e)
		}
	}
	if r.Epoch < 2 {
		t.Errorf("epoch %d, want at least 2", r.Epoch)
	}
}

// testRenewed tries longer leases where the shorter ones are lost: a machine that does much else does not renew them in time.
func testRenewed(t *testing.T, open Open) {
	for lease := 500 * time.Millisecond; ; lease *= 2 {
		err := keptFor(t, open, lease)
		if err == nil {
			return
		}
		if lease > 5*time.Second {
			t.Fatalf("a lease of %v: %v", lease, err)
		}
	}
}

// keptFor has a lease for more than twice as long as it lasts without being renewed, while another owner tries to acquire the run.
func keptFor(t *testing.T, open Open, lease time.Duration) error {
	long := durable.Options{Lease: lease}
	s, watch := open(t, long), open(t, long)
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	tick := time.NewTicker(lease / 10)
	defer tick.Stop()
	for range 25 {
		<-tick.C
		if _, err := watch.Acquire(t.Context(), id, "other"); !errors.Is(err, durable.ErrBusy) {
			return fmt.Errorf("another owner: Acquire of a run whose lease is renewed: %v", err)
		}
	}
	return l.End(t.Context(), durable.Outcome{State: durable.Paused})
}
