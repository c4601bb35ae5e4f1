package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// A slowStore calls a function after each read of a run.
type slowStore struct {
	durable.Store
	read func()
}

func (s *slowStore) Get(ctx context.Context, id string) (durable.Run, []script.Entry, error) {
	r, entries, err := s.Store.Get(ctx, id)
	s.read()
	return r, entries, err
}

// newKeeper is a keeper over a store; parts without a request are sent to alone.
func newKeeper(t *testing.T, of durable.Store, alone chan<- *runs.Part) *runs.Keeper {
	var work sync.WaitGroup
	k := runs.New(runs.Options{
		Spawn: func(f func()) bool { work.Go(f); return true }, Execute: func(p *runs.Part) { alone <- p },
		Wrote: func(time.Duration, error) {}, Over: func(string, runs.Outcome) {}, Resumed: func(runs.Cause) {},
	})
	k.Use(of, durable.NewMemory(durable.Options{}, nil), durable.Options{})
	t.Cleanup(func() {
		k.Close()
		work.Wait()
	})
	return k
}

// begun is a run with a row that was suspended with a question.
func begun(t *testing.T, s durable.Store, q durable.Question) string {
	t.Helper()
	r, _, err := s.Start(t.Context(), durable.Run{Tool: "t", Args: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(t.Context(), r.ID, "another process")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.End(t.Context(), durable.Outcome{State: durable.Waiting, Questions: []durable.Question{q}}); err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// TestJoinWhileTheRunIsTaken: of concurrent requests for a run that can be resumed, one acquires it and the others join
// its part. None gets the state of the row, which is for runs that another process has.
func TestJoinWhileTheRunIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := durable.NewMemory(durable.Options{}, nil)
		id := begun(t, kept, durable.Question{Key: "open", Method: "elicitation/create", Params: json.RawMessage(`{}`)})
		if err := kept.Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		var k *runs.Keeper
		join := func() (*runs.Part, bool) {
			p, mine, at, err := k.Join(t.Context(), id, false, false, func(script.Question) bool { return true })
			if p == nil || err != nil {
				t.Errorf("a request has %+v, %v; want the part", at, err)
			}
			return p, mine
		}
		var came atomic.Bool
		second := make(chan *runs.Part, 1)
		k = newKeeper(t, &slowStore{kept, func() { // behind the look of the first request and before its take, the second one comes
			if came.Swap(true) {
				return
			}
			go func() {
				p, mine := join()
				if mine {
					t.Error("the second request has taken the run")
				}
				second <- p
			}()
			synctest.Wait()
		}}, nil)
		p, mine := join()
		other := <-second
		if !mine || p != other {
			t.Errorf("the parts are %p, taken: %v, and %p; want one", p, mine, other)
		}
		other.End(runs.Outcome{State: durable.Done, Result: json.RawMessage(`{}`)})
	})
}

// TestWhatAStoppedPartWasToAsk: a part that stops at shutdown does not store the last question of its script. No client
// may be asked it: the answer would find no question.
func TestWhatAStoppedPartWasToAsk(t *testing.T) {
	kept := durable.NewMemory(durable.Options{}, nil)
	known := durable.Question{Key: "1", Method: "elicitation/create", Params: json.RawMessage(`{}`)}
	id := begun(t, kept, known)
	k := newKeeper(t, kept, nil)
	p, _, _, err := k.Join(t.Context(), id, false, true, func(script.Question) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	k.Stop()
	p.End(runs.Outcome{State: durable.Running, Questions: []script.Question{{Key: "1", Method: known.Method}, {Key: "2", Method: known.Method}}})
	if open := p.Unanswered(t.Context(), p.Outcome().Questions); len(open) != 1 || open[0].Key != "1" {
		t.Errorf("open are %+v, want that of the store", open)
	}
}

// TestAnswersBehindTheEndOfAPart: a question answered since a part acquired the run is not open when the part was
// suspended with it, also if another part has acquired the run since. Reading that does not change the shared Outcome.
func TestAnswersBehindTheEndOfAPart(t *testing.T) {
	kept := durable.NewMemory(durable.Options{}, nil)
	id := begun(t, kept, durable.Question{Key: "1", Method: "elicitation/create", Params: json.RawMessage(`{}`)})
	k := newKeeper(t, kept, nil)
	p, _, _, err := k.Join(t.Context(), id, false, true, func(script.Question) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	asked := []script.Question{{Key: "1", Method: "elicitation/create"}, {Key: "2", Method: "elicitation/create"}}
	answer := func(key string) {
		if err := k.Answer(t.Context(), id, key, json.RawMessage(`{"action":"accept"}`), false); err != nil {
			t.Fatal(err)
		}
	}
	open := func(want ...string) {
		t.Helper()
		got := p.Unanswered(t.Context(), asked)
		if len(got) != len(want) {
			t.Fatalf("open are %+v, want %v", got, want)
		}
		for i := range want {
			if got[i].Key != want[i] || asked[i].Key == "" {
				t.Errorf("open are %+v of %+v, want %v", got, asked, want)
			}
		}
	}
	answer("1")
	p.End(runs.Outcome{State: durable.Waiting, Questions: asked})
	open("2")
	answer("2")
	if _, err := kept.Acquire(t.Context(), id, "another process"); err != nil {
		t.Fatal(err)
	}
	open()
}

// A gatedStore lets a run be acquired when the test allows it.
type gatedStore struct {
	durable.Store
	reached, let chan struct{}
}

func (s *gatedStore) Acquire(ctx context.Context, id, owner string) (durable.Lease, error) {
	close(s.reached)
	<-s.let
	return s.Store.Acquire(ctx, id, owner)
}

// TestARunThatIsTakenWhileTheProcessEnds: Close waits for a part that begins meanwhile, which is stopped at once. The
// run is unchanged then, and later requests are refused.
func TestARunThatIsTakenWhileTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gatedStore{durable.NewMemory(durable.Options{}, nil), make(chan struct{}), make(chan struct{})}
		id := begun(t, s.Store, durable.Question{Key: "open", Method: "elicitation/create", Params: json.RawMessage(`{}`)})
		k := newKeeper(t, s, nil)
		join := func() (*runs.Part, error) {
			p, _, _, err := k.Join(t.Context(), id, false, true, func(script.Question) bool { return true })
			return p, err
		}
		taken, closed := make(chan *runs.Part, 1), make(chan struct{})
		go func() {
			p, err := join()
			if err != nil {
				t.Error(err)
			}
			taken <- p
		}()
		<-s.reached
		go func() {
			k.Close()
			close(closed)
		}()
		synctest.Wait()
		if p, err := join(); p != nil || err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("who comes later has %v, %v; want that the server is shutting down", p, err)
		}
		close(s.let)
		p := <-taken
		select {
		case <-p.Paused():
		default:
			t.Error("the part is not stopped")
		}
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close has not waited for the part")
		default:
		}
		p.End(runs.Outcome{State: durable.Running, Err: context.Canceled})
		<-closed
		if r, _, err := s.Get(t.Context(), id); err != nil || r.State.Final() {
			t.Errorf("the run is %s, %v", r.State, err)
		}
	})
}

// An awayStore is unavailable when a question is stored for the first time.
type awayStore struct{ durable.Store }

func (s *awayStore) Acquire(ctx context.Context, id, owner string) (durable.Lease, error) {
	l, err := s.Store.Acquire(ctx, id, owner)
	return &awayLease{Lease: l}, err
}

type awayLease struct {
	durable.Lease
	asked atomic.Bool
}

func (l *awayLease) Ask(ctx context.Context, all ...durable.Question) error {
	if !l.asked.Swap(true) {
		return durable.ErrUnavailable
	}
	return l.Lease.Ask(ctx, all...)
}

// TestABackendAsksWhileTheStoreIsAway: the backend waits until the store is back, and then gets its answer.
func TestABackendAsksWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{durable.NewMemory(durable.Options{}, nil)}
		id := begun(t, s.Store, durable.Question{Key: "1", Method: "elicitation/create", Params: json.RawMessage(`{}`)})
		k := newKeeper(t, s, nil)
		p, _, _, err := k.Join(t.Context(), id, false, true, func(script.Question) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		defer p.End(runs.Outcome{State: durable.Done, Result: json.RawMessage(`{}`)})
		q, err := p.Question("2", 0, "q", "elicitation/create", json.RawMessage(`{}`), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan string, 1)
		go func() {
			a, err := p.Ask(t.Context(), q)
			answered <- fmt.Sprint(string(a), err)
		}()
		for all, more := p.Asking(); len(all) == 0; all, more = p.Asking() {
			select {
			case <-more:
			case got := <-answered:
				t.Fatalf("the backend has %s before it was answered", got)
			}
		}
		if err := k.Answer(t.Context(), id, q.Key, json.RawMessage(`{"action":"accept"}`), false); err != nil {
			t.Fatal(err)
		}
		if got, want := <-answered, `{"action":"accept"}<nil>`; got != want {
			t.Errorf("the backend has %s, want %s", got, want)
		}
	})
}
