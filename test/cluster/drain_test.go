//go:build suites

package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/replicas"
)

// testDrain: a run that takes longer than the drain time is stopped after the call that it is making, and its lease is
// released: another replica continues it at once, long before the lease would expire.
func testDrain(t *testing.T, pg *runstest.Server) {
	w := newWorld(t, pg, "")
	w.lease = "10m"
	w.configure("a")
	w.ledger.slow = 500 * time.Millisecond
	w.start("--shutdown-delay", "200ms", "--drain-time", "300ms")
	first := w.replicas[0]
	r := w.newRun(first.url(), "slow", "drained")
	r.repeats = true
	called := make(chan error, 1)
	go func() {
		_, err := r.call(t.Context(), "")
		called <- err
	}()
	first.await("the first call of the run", func() (bool, error) { return w.ledger.did("drained/0") == 1, nil })
	first.signal(syscall.SIGTERM)
	if err := <-called; err == nil {
		t.Error("a run that takes longer than the time to drain was answered")
	}
	<-first.process.Done()
	if code := first.process.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the replica ended with %d", code)
	}
	if n := w.ledger.did("drained/5"); n != 0 {
		t.Fatal("the run had ended before its replica: nothing was tested")
	}
	w.replicas[1].await("the end of the run, without a client", func() (bool, error) {
		var list struct{ Runs []struct{ State string } }
		err := json.Unmarshal(w.command("runs", "list", "--tool", "slow", "-o", "json"), &list)
		return err == nil && len(list.Runs) == 1 && list.Runs[0].State == "done", err
	})
	again := w.newRun(w.replicas[2].url(), "slow", "drained") // the client repeats the request at another replica
	again.repeats = true
	if err := again.drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.check(); err != nil {
		t.Error(err)
	}
}

// testHealthUntilTheEnd: while a replica drains, the admin port answers that it is alive and not ready, though
// the port for clients is closed.
func testHealthUntilTheEnd(t *testing.T, pg *runstest.Server) {
	admin := (&world{t: t}).port()
	w := newWorld(t, pg, "admin: {listen: \""+admin+"\"}\n")
	w.ledger.slow = time.Second
	first := w.replicas[0]
	first.start("--drain-time", "1m")
	first.awaitReady()
	r := w.newRun(first.url(), "slow", "health")
	ended := make(chan error, 1)
	go func() { ended <- r.drive(t.Context()) }()
	first.await("the first call of the run", func() (bool, error) { return w.ledger.did("health/0") == 1, nil })
	first.signal(syscall.SIGTERM)
	first.await("the end of the port for clients", func() (bool, error) { return replicas.StatusOf(t.Context(), "http://"+first.addr+"/healthz") == 0, nil })
	if code := replicas.StatusOf(t.Context(), "http://"+admin+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz while the replica drains: %d", code)
	}
	if code := replicas.StatusOf(t.Context(), "http://"+admin+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the replica drains: %d", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("the run that was under way: %v", err)
	} else if err := r.check(); err != nil {
		t.Error(err)
	}
	<-first.process.Done()
}

// testDrainForwarded: a call that came through another replica has the whole drain time of the session's owner, however
// short forwardTimeout is, and so has one whose way is ended. One that takes longer is answered that the replica stops.
func testDrainForwarded(t *testing.T, pg *runstest.Server) {
	for _, tt := range []struct {
		name    string
		leaves  int // the replica that ends: 0 is the owner, 1 forwards
		params  string
		drain   string
		answers bool
	}{
		{"a call in the drain time", 0, `{"name":"pay","arguments":{"what":"drain/0"}}`, "1m", true},
		{"a run in the drain time", 0, `{"name":"slow","arguments":{"id":"drain"}}`, "1m", true},
		{"a call after it", 0, `{"name":"pay","arguments":{"what":"drain/0"}}`, "3s", false},
		{"a run after it", 0, `{"name":"slow","arguments":{"id":"drain"}}`, "3s", false},
		{"through a replica that ends, in the drain time", 1, `{"name":"pay","arguments":{"what":"drain/0"}}`, "1m", true},
		{"through a replica that ends, after it", 1, `{"name":"pay","arguments":{"what":"drain/0"}}`, "3s", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := started(t, pg, clustered, "--drain-time", tt.drain)
			leaves := w.replicas[tt.leaves]
			c := session(t, w.replicas[0].url())
			c.URL = w.replicas[1].url()
			release := w.ledger.shut(t)
			type response struct {
				result json.RawMessage
				err    error
			}
			called := make(chan response, 1)
			go func() {
				result, err := c.Call(t.Context(), "tools/call", tt.params)
				called <- response{result, err}
			}()
			leaves.await("the call of the backend", func() (bool, error) { return w.ledger.inside() == 1, nil })
			leaves.signal(syscall.SIGTERM)
			if tt.answers {
				leaves.await("the end of the port for clients", func() (bool, error) {
					return replicas.StatusOf(t.Context(), "http://"+leaves.addr+"/healthz") == 0, nil
				})
				<-time.After(4 * time.Second) // longer than forwardTimeout, and several probes
				release()
			}
			got := <-called
			var refused *raw.Error
			if tt.answers && (got.err != nil || !strings.Contains(string(got.result), "drain/0")) {
				t.Errorf("the call: %s, %v", got.result, got.err)
			}
			if !tt.answers && (!errors.As(got.err, &refused) || refused.Code != -32603 || !strings.Contains(string(refused.Data), `"reason":"stopping"`)) {
				t.Errorf("the call: %s, %v, want -32603 and the reason stopping", got.result, got.err)
			}
			release()
			<-leaves.process.Done()
		})
	}
}
