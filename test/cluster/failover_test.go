//go:build suites

package cluster

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// elsewhere makes requests of a session at the replicas in turn, and returns the duration of the first.
func (w *world) elsewhere(c *raw.Client, requests int, at ...*replica) time.Duration {
	w.t.Helper()
	began, first := time.Now(), time.Duration(0)
	for i := range requests {
		c.URL = at[i%len(at)].url()
		if err := lists(w.t.Context(), c); err != nil {
			w.t.Errorf("request %d elsewhere: %v", i, err)
		}
		if i == 0 {
			first = time.Since(began)
		}
	}
	return first
}

// pending is a call of a backend with sessions that waits for an answer at a replica, with the next request.
func (w *world) pending(at *replica, what string) (c *raw.Client, next string) {
	w.t.Helper()
	c = &raw.Client{URL: at.url(), Revision: raw.Modern, Capabilities: `{"elicitation":{}}`}
	r := &run{w: w, kind: "book", id: what, client: c, asked: map[string]bool{}, answered: map[string]bool{}}
	result, err := c.Call(w.t.Context(), "tools/call", fmt.Sprintf(`{"name":"book","arguments":{"what":%q}}`, what))
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := read(result)
	if err != nil || a.RequestState == "" {
		w.t.Fatalf("%s: %v, want a question", result, err)
	}
	return c, fmt.Sprintf(`{"name":"book","arguments":{"what":%q}%s}`, what, r.next(a))
}

// testKilledOwner: the owner of a session is killed. The others serve the session with its subscription, a waiting run is resumed, and the client of
// a call that was lost with the owner gets an error.
func testKilledOwner(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	owner, others := w.replicas[0], w.replicas[1:]
	c := session(t, owner.url())
	w.elsewhere(c, 2, others...)
	if _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"note://one"}`); err != nil {
		t.Fatal(err)
	}
	before := listen(t, others[1].url(), c.Session())
	r := w.newRun(owner.url(), "nested", "waited")
	a, err := r.call(t.Context(), "")
	if err != nil || a.RequestState == "" {
		t.Fatalf("%+v, %v; want a question", a, err)
	}
	more := r.next(a)
	live, next := w.pending(owner, "lost")
	id := w.idOf(owner)
	owner.process.Kill()
	t.Logf("the first request after the kill took %v", w.elsewhere(c, 6, others...))
	for range before.events { // ends with its owner; earlier events are ignored
	}
	after := listen(t, others[0].url(), c.Session()) // the client opens it again, and its subscription is there
	w.ledger.touch(t.Context(), "note://one")
	after.next(t, updated)
	r.client.URL = others[1].url()
	if err := r.from(t.Context(), more); err != nil {
		t.Error(err)
	} else if err := r.check(); err != nil {
		t.Error(err)
	}
	live.URL = others[0].url()
	_, err = live.Call(t.Context(), "tools/call", next)
	if err == nil || !strings.Contains(err.Error(), "-32603") || !strings.Contains(err.Error(), "replica lost") || !strings.Contains(err.Error(), id) {
		t.Errorf("the answer to a call that was lost with its replica %s: %v", id, err)
	}
	if n := w.ledger.did("lost begun"); n != 1 {
		t.Errorf("the lost call was made %d times", n)
	}
	owner.start() // and starts again with another id
	owner.awaitReady()
	w.elsewhere(c, 3, w.replicas...)
}

// idOf is the id of a replica, from /readyz.
func (w *world) idOf(r *replica) string {
	at, err := r.readyz()
	if err != nil || at.Cluster.ID == "" {
		w.t.Errorf("/readyz: %+v, %v; want cluster.id", at, err)
	}
	return at.Cluster.ID
}

// testStoppedOwner: the owner of a session is stopped by SIGSTOP, which others cannot distinguish from a slow one. Another replica serves its
// session, another continues its run when the lease has expired, and after SIGCONT it begins no effect.
func testStoppedOwner(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	w.ledger.slow = 200 * time.Millisecond
	owner, others := w.replicas[0], w.replicas[1:]
	c := session(t, owner.url())
	r := w.newRun(owner.url(), "puts", "stopped")
	r.repeats = true
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = r.call(ctx, "") }()
	owner.await("the first call of the run", func() (bool, error) { return w.ledger.did("stopped/0") == 1, nil })
	owner.signal(syscall.SIGSTOP)
	took := w.elsewhere(c, 4, others...)
	t.Logf("the first request after the stop took %v", took)
	if took > 8*time.Second*slack {
		t.Errorf("the session was served elsewhere after %v", took)
	}
	again := w.newRun(others[0].url(), "puts", "stopped")
	again.repeats = true
	if err := again.drive(t.Context()); err != nil {
		t.Error(err)
	}
	owner.signal(syscall.SIGCONT)
	w.elsewhere(c, 3, w.replicas...)
	owner.awaitReady()
	cancel()
	<-gone
	if err := again.check(); err != nil {
		t.Error(err)
	}
	if w.ledger.did("stopped/5") != 1 {
		t.Error("the last call was not made once")
	}
}

// slack is added to time limits, for other load on the machine.
const slack = 2
