//go:build suites

package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/replicas"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// legacy is the revision of clients and backends with sessions.
const legacy = "2025-11-25"

// clustered is the part of the configuration about the cluster.
const clustered = "cluster: {listen: \"${VMCP_TEST_PEERS}\", heartbeat: 500ms, forwardTimeout: 1s}\n"

// testTimeout bounds every wait of a test.
const testTimeout = 40 * time.Second

// scripts are the kinds of runs. Each makes the effects of effects, and returns the answer to the question of each effect.
const scripts = `
scriptedTools:
  - name: seq
    description: a question and a call, twice
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          out = []
          for i in range(2):
              what = params["id"] + "/" + str(i)
              out.append(elicit(what, {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}).content["a"])
              call_tool("pay", {"what": what})
          return out
  - name: par
    description: questions and calls side by side
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def one(what):
          a = elicit(what, {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}).content["a"]
          call_tool("pay", {"what": what})
          return a
      def run(params):
          return parallel([lambda i = i: one(params["id"] + "/" + str(i)) for i in range(2)])
  - name: nested
    description: a script that calls scripts and asks
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          out = call_tool("seq", {"id": params["id"]})
          what = params["id"] + "/2"
          out = out + [elicit(what, {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}).content["a"]]
          call_tool("pay", {"what": what})
          return out
  - name: tries
    description: calls that are caught, and a question
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          a = elicit(params["id"] + "/0", {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}).content["a"]
          r = try_call_tool("pay", {"what": params["id"] + "/0"})
          if not r.ok and r.kind != "unknown" and r.kind != "unavailable":
              fail(r.kind + ": " + r.error)
          return [a]
  - name: books
    description: a backend with sessions that asks
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          return [call_tool("book", {"what": params["id"] + "/0"})["did"]]
  - name: reserves
    description: a backend of 2026-07-28 that asks
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          return [call_tool("reserve", {"what": params["id"] + "/0"})["did"]]
  - name: slow
    description: calls one after the other, without a question
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          return [call_tool("pay", {"what": params["id"] + "/" + str(i)})["did"] + "!" for i in range(6)]
  - name: puts
    description: calls that may be repeated
    parameters: {type: object, required: [id], properties: {id: {type: string}}}
    script: |
      def run(params):
          return [call_tool("put", {"what": params["id"] + "/" + str(i)})["did"] + "!" for i in range(6)]
`

// effects are the effects of a run of each kind, in order.
func effects(kind, id string) (all []string) {
	n := map[string]int{"seq": 2, "par": 2, "nested": 3, "tries": 1, "books": 1, "reserves": 1, "slow": 6, "puts": 6}[kind]
	for i := range n {
		all = append(all, fmt.Sprintf("%s/%d", id, i))
	}
	return all
}

// A world is three replicas with one configuration, their backends and their common folder.
type world struct {
	t        testing.TB
	bin, dir string
	ledger   *ledger
	backends string // as the configuration has them
	settings string // more of the configuration
	storage  string // sessionStorage without keys
	lease    string // runs.lease
	replicas []*replica
}

// newWorld is a world whose replicas are not started yet; settings are more of its configuration.
func newWorld(t testing.TB, pg *runstest.Server, settings string) *world {
	t.Helper()
	bin, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{times: map[string]int{}, keys: map[string]bool{}}
	w := &world{t: t, bin: bin, dir: t.TempDir(), ledger: l, settings: settings, lease: "2s"}
	w.storage = fmt.Sprintf("provider: postgres, url: %q, schema: %q", pg.URL(), "t_"+strings.ToLower(rand.Text()[:10]))
	w.backends = fmt.Sprintf("  - {name: bank, url: %q}\n  - {name: desk, url: %q}\n  - {name: kiosk, url: %q}\n  - {name: shelf, url: %q}\n  - {name: works, url: %q}\n  - {name: jobs, url: %q}\n",
		l.bank(t), l.desk(t), l.kiosk(t), l.shelf(t), l.works(t, true), l.works(t, false))
	for _, id := range []string{"a", "b"} {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		w.write("key-"+id, base64.StdEncoding.EncodeToString(key))
	}
	w.configure("a")
	for range 3 {
		w.replicas = append(w.replicas, &replica{w: w, addr: w.port(), peers: w.port(), config: "vmcp.yaml"})
	}
	t.Cleanup(w.end)
	return w
}

// started is a world whose replicas are ready.
func started(t testing.TB, pg *runstest.Server, settings string, flags ...string) *world {
	w := newWorld(t, pg, settings)
	w.start(flags...)
	return w
}

// start starts all replicas.
func (w *world) start(flags ...string) {
	for _, r := range w.replicas {
		r.start(flags...)
	}
	for _, r := range w.replicas {
		r.awaitReady()
	}
}

func (w *world) port() string {
	port, err := rig.Port()
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (w *world) write(name, text string) {
	w.t.Helper()
	tmp := filepath.Join(w.dir, "."+name)
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// configure writes the configuration, with these keys.
func (w *world) configure(keys ...string) { w.t.Helper(); w.configureAs("vmcp.yaml", keys...) }

// configureAs writes it to another file.
func (w *world) configureAs(file string, keys ...string) {
	w.t.Helper()
	var ring []string
	for _, id := range keys {
		ring = append(ring, fmt.Sprintf("{id: %s, file: key-%s}", id, id))
	}
	w.write(file, fmt.Sprintf("name: cluster\nbackends:\n%saggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [bank]}}\nsessionStorage: {%s, keys: [%s]}\nruns: {lease: %s}\n%s%s",
		w.backends, w.storage, strings.Join(ring, ", "), w.lease, w.settings, scripts))
}

// end stops the processes. The logs of the replicas are printed when the test has failed.
func (w *world) end() {
	for _, r := range w.replicas {
		if r.process != nil {
			_ = r.process.Cmd.Process.Signal(syscall.SIGCONT)
			r.process.Kill()
		}
		if w.t.Failed() {
			w.t.Logf("replica %s:\n%s", r.addr, r.log.tail())
		}
	}
}

// balanced is a balancer in front of all replicas.
func (w *world) balanced(kept bool, late time.Duration) *replicas.Balancer {
	w.t.Helper()
	var hosts []string
	for _, r := range w.replicas {
		hosts = append(hosts, r.addr)
	}
	return replicas.NewBalancer(w.t, kept, late, hosts...)
}

// command runs vmcp with the configuration of the replicas.
func (w *world) command(args ...string) []byte {
	w.t.Helper()
	cmd := exec.Command(w.bin, append(args, "--config", filepath.Join(w.dir, "vmcp.yaml"))...)
	cmd.Env = append(os.Environ(), "VMCP_TEST_PEERS=127.0.0.1:1")
	out, err := cmd.Output()
	if err != nil {
		w.t.Errorf("vmcp %v: %v: %s", args, err, out)
	}
	return out
}

// A replica is one process of vmcp serve, and its successors at the same address.
type replica struct {
	w       *world
	addr    string // for clients
	peers   string // for the other replicas
	config  string // the name of its configuration
	process *rig.Process
	log     tail
}

func (r *replica) url() string { return "http://" + r.addr + "/mcp" }

// start starts the process, and does not wait until it is ready.
func (r *replica) start(flags ...string) {
	r.w.t.Helper()
	cmd := exec.Command(r.w.bin, append([]string{"serve", "--config", filepath.Join(r.w.dir, r.config), "--listen", r.addr}, flags...)...)
	cmd.Env = append(os.Environ(), "VMCP_TEST_PEERS="+r.peers)
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	p, err := rig.StartCmd(cmd)
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.process = p
}

// awaitReady waits until /readyz answers 200.
func (r *replica) awaitReady() {
	r.w.t.Helper()
	r.await("200 from /readyz", func() (bool, error) {
		select {
		case <-r.process.Done():
			return false, fmt.Errorf("the replica has ended:\n%s", r.log.tail())
		default:
		}
		return replicas.StatusOf(r.w.t.Context(), "http://"+r.addr+"/readyz") == http.StatusOK, nil
	})
}

func (r *replica) await(what string, ready func() (bool, error)) {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), testTimeout)
	defer cancel()
	if err := rig.Poll(ctx, what, ready); err != nil {
		r.w.t.Fatalf("replica %s: %v", r.addr, err)
	}
}

func (r *replica) signal(s syscall.Signal) {
	r.w.t.Helper()
	if err := r.process.Cmd.Process.Signal(s); err != nil {
		r.w.t.Fatal(err)
	}
}

// readyz is the response of /readyz.
func (r *replica) readyz() (s status, err error) {
	resp, err := http.Get("http://" + r.addr + "/readyz")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		return s, fmt.Errorf("/readyz: %w: %s", err, body)
	}
	return s, nil
}

// A tail is a writer that keeps the end of its input.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() > 64<<10 {
		l.buf.Next(l.buf.Len() / 2)
	}
	return l.buf.Write(p)
}

func (l *tail) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.buf.String()
	return all[max(0, len(all)-6000):]
}

// count is the number of times that a text is in the kept log.
func (l *tail) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.buf.Bytes(), []byte(what))
}

func serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// TestCluster is the acceptance list, one line after the other, over one PostgreSQL.
func TestCluster(t *testing.T) {
	testmode.NeedThorough(t)
	pg := runstest.Start(t)
	for _, line := range []struct {
		name string
		test func(*testing.T, *runstest.Server)
	}{
		{"questions anywhere", testQuestionsAnywhere},
		{"kills under load", testKills},
		{"rolling restart", testRollingRestart},
		{"drain", testDrain},
		{"drain of forwarded calls", testDrainForwarded},
		{"health until the end", testHealthUntilTheEnd},
		{"rotation", testRotation},
		{"seen", testSeen},
		{"shares", testShares},
		{"tasks", testTasks},
		{"sessions", testSessions},
		{"hop", testHop},
		{"questions of sessions", testSessionQuestions},
		{"live calls", testLiveCalls},
		{"streams", testStreams},
		{"killed owner", testKilledOwner},
		{"stopped owner", testStoppedOwner},
		{"killed in the middle", testMiddleKilled},
		{"stopped in the middle", testMiddleStopped},
		{"hostile ids", testHostileIDs},
		{"certificates", testCertificates},
	} {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			line.test(t, pg)
		})
	}
	t.Run("store away", func(t *testing.T) {
		t.Parallel()
		testStoreAway(t, runstest.Start(t))
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		testIdle(t, runstest.Start(t))
	})
}
