//go:build suites

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// newTrial is a server that is not started yet, over SQLite, with scripts besides those of all trials.
func newTrial(t *testing.T, more string) *trial {
	testmode.NeedThorough(t)
	t.Parallel()
	bin, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, url := backend(t)
	tr := &trial{
		t: t, bin: bin, dir: t.TempDir(), addr: freeAddress(t), ledger: l, url: url, runs: map[string]*client{},
		storage: "{provider: sqlite, path: runs.db, sync: process}",
	}
	tr.configure(scripts + more)
	return tr
}

// newAskingTrial is a trial with backends that ask.
func newAskingTrial(t *testing.T, more string) *trial {
	tr := newTrial(t, "")
	tr.also = fmt.Sprintf(", {name: desk, url: %q}, {name: kiosk, url: %q}", tr.ledger.desk(t), tr.ledger.kiosk(t))
	tr.configure(scripts + more)
	return tr
}

// onPostgres lets the server keep its runs in PostgreSQL, once it is configured.
func (tr *trial) onPostgres(pg *runstest.Server) {
	if err := os.WriteFile(filepath.Join(tr.dir, "key"), []byte("MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="), 0o600); err != nil {
		tr.t.Fatal(err)
	}
	tr.storage = fmt.Sprintf("{provider: postgres, url: %q, keys: [{id: a, file: key}]}\nruns: {lease: 1s}", pg.URL())
}

// configure writes the configuration.
func (tr *trial) configure(tools string) {
	config := fmt.Sprintf("listen: %s\noperational: {shutdown: {drainTime: 300ms}}\nbackends: [{name: bank, url: %q}%s]\naggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [bank]}}\nsessionStorage: %s\n%s",
		tr.addr, tr.url, tr.also, tr.storage, tools)
	if err := os.WriteFile(filepath.Join(tr.dir, "vmcp.yaml"), []byte(config), 0o600); err != nil {
		tr.t.Fatal(err)
	}
}

// tool is a scripted tool of a few lines.
func tool(name, settings string, lines ...string) string {
	return fmt.Sprintf("  - name: %s\n    description: d\n    parameters: {type: object, properties: {id: {type: string}}}\n%s    script: |\n      def run(params):\n          %s\n", name, settings, strings.Join(lines, "\n          "))
}

// until waits for the only run of a tool to be in one of some states, and returns it. A waiting one has an open question, so
// it is not about to be resumed.
func (tr *trial) until(tool string, states ...string) (run struct {
	ID, State string
	Wake      time.Time
}) {
	tr.t.Helper()
	var list struct {
		Runs []struct {
			ID, State string
			Wake      time.Time
			Questions int
		}
	}
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		list.Runs = nil
		if err := json.Unmarshal(tr.command("runs", "list", "--tool", tool, "-o", "json"), &list); err != nil {
			tr.t.Fatal(err)
		}
		if len(list.Runs) == 1 && slices.Contains(states, list.Runs[0].State) && (list.Runs[0].State != "waiting" || list.Runs[0].Questions > 0) {
			run.ID, run.State, run.Wake = list.Runs[0].ID, list.Runs[0].State, list.Runs[0].Wake
			return run
		}
	}
	tr.t.Fatalf("the runs of %s are %+v, want one that is %s", tool, list.Runs, states)
	return run
}

// called begins a call, and disconnects after a while.
func (tr *trial) called(kind, id string, d time.Duration) {
	ctx, cancel := context.WithTimeout(tr.t.Context(), d)
	defer cancel()
	_, _ = tr.callIn(ctx, &client{kind: kind, id: id}, "")
}

// TestASleepAcrossAKill: a run that slept when the process was killed wakes up at its time.
func TestASleepAcrossAKill(t *testing.T) {
	tr := newTrial(t, tool("naps", "", `call_tool("pay", {"what": params["id"] + "/0"})`, `sleep("20s")`, `return params["id"]`))
	s := tr.serve()
	tr.called("look", "warm", 10*time.Millisecond)
	began := time.Now()
	tr.called("naps", "n", time.Second)
	tr.asleep("naps")
	before := tr.until("naps", "running", "paused", "sleeping")
	s.kill()
	s = tr.serve()
	defer s.kill()
	if after := tr.until("naps", "running", "paused", "sleeping"); !after.Wake.Equal(before.Wake) {
		t.Errorf("it was to wake at %v, and after the kill at %v", before.Wake, after.Wake)
	}
	c := newClient("naps", "n")
	tr.drive(c)
	if took := time.Since(began); c.result != `"n"` || took < 19900*time.Millisecond || tr.ledger.did("n/0") != 1 {
		t.Errorf("%s after %v, the call was made %d times", c.result, took, tr.ledger.did("n/0"))
	}
}

// asleep waits until the only run of a tool has begun to sleep, and returns its id.
func (tr *trial) asleep(tool string) string {
	tr.t.Helper()
	run := tr.until(tool, "running", "paused", "sleeping")
	for late := time.Now().Add(90 * time.Second); !strings.Contains(string(tr.command("runs", "show", run.ID)), "sleep"); <-time.After(20 * time.Millisecond) {
		if time.Now().After(late) {
			tr.t.Fatalf("the run of %s does not sleep", tool)
		}
	}
	return run.ID
}

// TestSleepsWithoutAClient: after a restart one run wakes up and ends without a client, another one sleeps for days.
func TestSleepsWithoutAClient(t *testing.T) {
	tr := newTrial(t, tool("naps", "", `sleep("3s")`, `call_tool("pay", {"what": params["id"] + "/0"})`, `return 1`)+
		tool("rests", "", `sleep("2d")`, `return 1`))
	s := tr.serve()
	tr.called("naps", "n", time.Second)
	tr.called("rests", "r", time.Second)
	s.kill()
	s = tr.serve()
	defer s.kill()
	tr.until("naps", "done")
	if n := tr.ledger.did("n/0"); n != 1 {
		t.Errorf("the call behind the sleep was made %d times", n)
	}
	if wake := time.Until(tr.until("rests", "sleeping").Wake); wake < 47*time.Hour || wake > 48*time.Hour {
		t.Errorf("wakes in %v, want in two days", wake)
	}
}

// TestASessionThatIsAsked: its process is killed, and the run waits for an answer of the command line.
func TestASessionThatIsAsked(t *testing.T) {
	tr := newTrial(t, "")
	s := tr.serve()
	asked := make(chan struct{})
	var once sync.Once
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		once.Do(func() { close(asked) })
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + tr.addr + "/mcp"}, &mcp.ClientSessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "asks", Arguments: map[string]any{"id": "a"}})
	}()
	<-asked
	s.kill()
	cancel()
	run := tr.until("asks", "waiting") // with no server running
	tr.command("runs", "answer", run.ID, "--action", "accept", "--content", "{}")
	s = tr.serve()
	defer s.kill()
	tr.until("asks", "waiting")
	tr.command("runs", "answer", run.ID, "--action", "accept", "--content", "{}") // beside one
	tr.until("asks", "done")
	for i := range 4 {
		if n := tr.ledger.did(fmt.Sprintf("a/%d", i)); n != 1 {
			t.Errorf("a/%d was done %d times", i, n)
		}
	}
}

// TestSixEqualRequests: with one idempotency key, the effects are made once, and all requests get the result.
func TestSixEqualRequests(t *testing.T) {
	tr := newTrial(t, "")
	s := tr.serve()
	defer s.kill()
	var all sync.WaitGroup
	results := make([]string, 6)
	for i := range results {
		all.Go(func() {
			c := newClient("seq", "six")
			tr.drive(c)
			results[i] = c.result
		})
	}
	all.Wait()
	for _, r := range results {
		if r != `"six"` {
			t.Errorf("results %s", results)
			break
		}
	}
	for i := range 4 {
		if n := tr.ledger.did(fmt.Sprintf("six/%d", i)); n != 1 {
			t.Errorf("six/%d was done %d times", i, n)
		}
	}
	for _, other := range []*client{{kind: "seq", id: "six", args: `{"id":"seven"}`}, {kind: "puts", id: "six"}} {
		r, err := tr.call(other, "")
		if err != nil || r.Error == nil || r.Error.Code != -32602 || r.Error.Message != "the idempotency key belongs to another request" {
			t.Errorf("%s with the same key: %+v, %v", other.kind, r, err)
		}
	}
}

// TestDurableAlways: no effect is made before the first response.
func TestDurableAlways(t *testing.T) {
	tr := newTrial(t, tool("ever", "    durable: always\n", `call_tool("pay", {"what": params["id"] + "/0"})`, `return params["id"]`))
	s := tr.serve()
	r, err := tr.callIn(t.Context(), &client{kind: "ever", id: "e", noKey: true}, "")
	if err != nil || r.Result.ResultType != "input_required" || len(r.Result.InputRequests) != 0 || tr.ledger.did("e/0") != 0 {
		t.Fatalf("%+v, %v; the call was made %d times", r, err, tr.ledger.did("e/0"))
	}
	s.kill()
	s = tr.serve()
	defer s.kill()
	r, err = tr.callIn(t.Context(), &client{kind: "ever", id: "e", noKey: true}, fmt.Sprintf(`,"requestState":%q`, r.Result.RequestState))
	if err != nil || string(r.Result.StructuredContent) != `"e"` || tr.ledger.did("e/0") != 1 {
		t.Errorf("%+v, %v; the call was made %d times", r, err, tr.ledger.did("e/0"))
	}
}

// TestEditedOverARestart: a run keeps its program and limits when its script was edited, its limits were lowered, or its tool
// was removed; new runs have the new script.
func TestEditedOverARestart(t *testing.T) {
	asks := tool("edits", "", `call_tool("pay", {"what": params["id"] + "/0"})`, `elicit("one?")`, `elicit("two?")`, `call_tool("pay", {"what": params["id"] + "/1"})`, `return params["id"]`)
	tr := newTrial(t, asks)
	c := newClient("edits", "x")
	more := ""
	for _, next := range []string{
		scripts + tool("edits", "    limits: {calls: 1}\n", `return "new"`),
		scripts,
	} {
		s := tr.serve()
		r, err := tr.call(c, more)
		if err != nil || len(r.Result.InputRequests) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		more = r.answers()
		s.kill()
		tr.configure(next)
	}
	s := tr.serve()
	defer s.kill()
	r, err := tr.call(c, more)
	if err != nil || string(r.Result.StructuredContent) != `"x"` || tr.ledger.did("x/0") != 1 || tr.ledger.did("x/1") != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSecondServer: a second server with the same file is refused.
func TestSecondServer(t *testing.T) {
	tr := newTrial(t, "")
	s := tr.serve()
	defer s.kill()
	out, err := exec.Command(tr.bin, "serve", "--config", filepath.Join(tr.dir, "vmcp.yaml"), "--listen", "127.0.0.1:0").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "runs.db") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestStopAndGo: waiting and sleeping runs survive SIGTERM; the next process resumes them.
func TestStopAndGo(t *testing.T) {
	tr := newTrial(t, tool("naps", "", `call_tool("pay", {"what": params["id"] + "/0"})`, `sleep("10m")`, `return 1`))
	s := tr.serve()
	tr.called("naps", "n", time.Second)
	tr.called("asks", "a", time.Second)
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	tr.until("naps", "sleeping")
	tr.until("asks", "waiting")
	s = tr.serve()
	defer s.kill()
	tr.until("asks", "waiting")
	tr.until("naps", "sleeping")
}

// TestStopInASession: SIGTERM while the request of a session waits for a sleep of its run. The request is answered with the
// id of the run, and the next process ends the run.
func TestStopInASession(t *testing.T) {
	tr := newTrial(t, tool("naps", "", `call_tool("pay", {"what": params["id"] + "/0"})`, `sleep("9s")`, `call_tool("pay", {"what": params["id"] + "/1"})`, `return 1`))
	s := tr.serve()
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + tr.addr + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "naps", Arguments: map[string]any{"id": "n"}})
		answered <- err
	}()
	run := tr.asleep("naps")
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil || !strings.Contains(err.Error(), "the run will be resumed: "+run) {
		t.Errorf("the request has %v, want the id of the run", err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	tr.until("naps", "sleeping")
	s = tr.serve()
	defer s.kill()
	tr.until("naps", "done")
	if tr.ledger.did("n/0") != 1 || tr.ledger.did("n/1") != 1 {
		t.Errorf("the calls were made %d and %d times", tr.ledger.did("n/0"), tr.ledger.did("n/1"))
	}
}

// TestAStoreThatIsAway: while PostgreSQL does not answer, runs are refused with the reason and calls of backends' tools succeed; when it
// answers again, the repeated request continues the run.
func TestAStoreThatIsAway(t *testing.T) {
	tr := newTrial(t, "")
	pg := runstest.Start(t)
	tr.onPostgres(pg)
	tr.configure(scripts)
	s := tr.serve()
	defer s.kill()
	c := &client{kind: "asks", id: "away"}
	r, err := tr.call(c, "")
	if err != nil || len(r.Result.InputRequests) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	pg.Down(t)
	if refused, err := tr.call(c, r.answers()); err != nil || refused.Error == nil || refused.Error.Code != -32603 || !strings.Contains(string(refused.Error.Data), `"reason":"store"`) {
		t.Errorf("without the store: %+v, %v", refused, err)
	}
	if plain, err := tr.call(&client{kind: "look", id: "p", args: `{"what":"x"}`}, ""); err != nil || plain.Error != nil || plain.Result.IsError {
		t.Errorf("a plain tool: %+v, %v", plain, err)
	}
	pg.Up(t)
	for deadline := time.Now().Add(90 * time.Second); ; <-time.After(50 * time.Millisecond) {
		next, err := tr.call(c, r.answers())
		if err == nil && next.Error == nil && len(next.Result.InputRequests) == 0 {
			if string(next.Result.StructuredContent) != `"away"` {
				t.Errorf("%+v", next)
			}
			break
		}
		if err == nil && next.Error == nil {
			r = next
		}
		if time.Now().After(deadline) {
			t.Fatalf("no end: %+v, %v", next, err)
		}
	}
	for i := range 4 {
		if n := tr.ledger.did(fmt.Sprintf("away/%d", i)); n != 1 {
			t.Errorf("the effect away/%d was made %d times", i, n)
		}
	}
}
