//go:build suites

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// scripts are the kinds of runs; wanted, below, has the effects and the result of each.
const scripts = `
scriptedTools:
  - name: seq
    description: one call behind the other
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          for i in range(4):
              call_tool("pay", {"what": params["id"] + "/" + str(i)})
          return params["id"]
  - name: par
    description: calls side by side
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def one(i, id):
          call_tool("look", {"what": id + "/l" + str(i)})
          return call_tool("pay", {"what": id + "/" + str(i)})["did"]
      def run(params):
          id = params["id"]
          parallel([lambda i = i: one(i, id) for i in range(3)])
          call_tool("pay", {"what": id + "/3"})
          return id
  - name: tries
    description: calls that are caught
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          for i in range(4):
              r = try_call_tool("pay", {"what": params["id"] + "/" + str(i)})
              if not r.ok and r.kind != "unknown" and r.kind != "unavailable":
                  fail(r.kind + ": " + r.error)
          return params["id"]
  - name: puts
    description: calls that may be repeated
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          for i in range(4):
              call_tool("put", {"what": params["id"] + "/" + str(i)})
          return params["id"]
  - name: outer
    description: a script that calls scripts
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          call_tool("seq", {"id": params["id"]})
          call_tool("puts", {"id": params["id"] + "/p"})
          return params["id"]
  - name: asks
    description: a question between calls
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          call_tool("pay", {"what": params["id"] + "/0"})
          for i in range(2):
              what = params["id"] + "/" + str(i + 1)
              answer = elicit("pay " + what, {"type": "object", "properties": {"token": {"type": "string"}}})
              call_tool("pay", {"what": what, "token": answer.content.get("token", "")})
          call_tool("put", {"what": params["id"] + "/3"})
          return params["id"]
  - name: both
    description: a question beside calls
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def ask(what):
          answer = elicit("pay " + what, {"type": "object", "properties": {"token": {"type": "string"}}})
          call_tool("pay", {"what": what, "token": answer.content.get("token", "")})
      def pay(id):
          for i in range(1, 3):
              call_tool("pay", {"what": id + "/" + str(i)})
      def run(params):
          id = params["id"]
          parallel([lambda: ask(id + "/0"), lambda: pay(id)])
          call_tool("put", {"what": id + "/3"})
          return id
`

// asked is a kind of runs whose backends ask.
const asked = `
  - name: asked
    description: backends that ask
    isolated: true
    parameters: {type: object, properties: {id: {type: string}}}
    script: |
      def run(params):
          id = params["id"]
          call_tool("reserve", {"what": id + "/0"})
          parallel([lambda: call_tool("quote", {"what": id + "/1"}), lambda: call_tool("reserve", {"what": id + "/2"})])
          call_tool("book", {"what": id + "/3"})
          return id
`

var kinds = []string{"seq", "par", "tries", "puts", "outer", "asks", "both", "asked"}

// kills is the number of times that the server is killed: CRASH_KILLS, else a few.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("CRASH_KILLS")); err == nil {
		return n
	}
	return 40
}

func TestKillsSQLite(t *testing.T) {
	newAskingTrial(t, asked).crash()
}

func TestKillsPostgres(t *testing.T) {
	tr := newAskingTrial(t, asked)
	tr.onPostgres(runstest.Start(t))
	tr.configure(scripts + asked)
	tr.crash()
}

// A trial is one server that is killed, the backend behind it and the clients in front.
type trial struct {
	t       *testing.T
	bin     string
	dir     string
	addr    string
	url     string // of the backend
	also    string // more backends, as the configuration has them
	storage string // sessionStorage
	ledger  *ledger

	mu   sync.Mutex
	runs map[string]*client
}

// crash kills the server repeatedly while clients make runs, and checks the runs.
func (tr *trial) crash() {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() { tr.clientLoop(i, stop) })
	}
	for range kills() {
		s := tr.serve()
		<-time.After(time.Duration(250+rng.IntN(350)) * time.Millisecond)
		if rng.IntN(10) == 0 {
			tr.stop(s)
		} else {
			s.kill()
		}
	}
	s := tr.serve()
	close(stop)
	clients.Wait()
	tr.judge()
	tr.repeat()
	s.kill()
	tr.audit()
}

// freeAddress is an address that no other process uses while the server is restarted.
func freeAddress(t *testing.T) string {
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// process is a running vmcp serve.
type process struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

func (tr *trial) serve() *process {
	p := &process{cmd: exec.Command(tr.bin, "serve", "--config", filepath.Join(tr.dir, "vmcp.yaml"))}
	p.cmd.Stderr, p.cmd.Dir = &p.log, tr.dir
	if err := p.cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", tr.addr); err == nil {
			c.Close()
			return p
		}
	}
	tr.t.Errorf("vmcp serve does not listen:\n%s", p.log.String())
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends the server by SIGTERM, as an operator does: its last answers are checked as well. A server that had not logged that it serves was
// still starting.
func (tr *trial) stop(p *process) {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		tr.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil && strings.Contains(p.log.String(), "vmcp: serving ") {
		tr.t.Errorf("vmcp serve, interrupted: %v\n%s", err, p.log.String())
	}
}

// A client makes one run, and repeats its requests until it has an answer.
type client struct {
	kind, id string
	args     string          // "" for the id
	noKey    bool            // its request has no idempotency key
	run      string          // id of the run, once it is known
	taken    map[string]bool // questions whose answer was taken: something that is no error was the response
	doubt    bool
	result   string

	mu      sync.Mutex
	answers map[string][]string // answers that it has given, by their subject; guarded by mu
}

func newClient(kind, id string) *client {
	return &client{kind: kind, id: id, answers: map[string][]string{}, taken: map[string]bool{}}
}

func (tr *trial) clientLoop(n int, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		kind := kinds[(i+n)%len(kinds)]
		c := newClient(kind, fmt.Sprintf("%s-%d-%d", kind, n, i))
		tr.mu.Lock()
		tr.runs[c.id] = c
		tr.mu.Unlock()
		if rand.IntN(4) == 0 {
			tr.driveSession(c)
		} else {
			tr.drive(c)
		}
	}
}

type question struct{ Params struct{ Message string } }

type response struct {
	Result struct {
		ResultType        string                     `json:"resultType"`
		RequestState      string                     `json:"requestState"`
		InputRequests     map[string]question        `json:"inputRequests"`
		IsError           bool                       `json:"isError"`
		Content           []struct{ Text string }    `json:"content"`
		StructuredContent json.RawMessage            `json:"structuredContent"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	} `json:"error"`
}

// drive repeats requests until a run has ended or is in doubt.
func (tr *trial) drive(c *client) {
	more := ""
	for began := time.Now(); ; {
		if time.Since(began) > 90*time.Second {
			tr.t.Errorf("%s: no end in 90 s, the last request had %s", c.id, more)
			return
		}
		r, err := tr.callOften(c, more)
		if err != nil || r.Error != nil {
			if r != nil && r.Error != nil && r.Error.Code == -32602 && !strings.Contains(r.Error.Message, "unknown tool") {
				tr.t.Errorf("%s: %s", c.id, r.Error.Message)
				return
			}
			<-time.After(10 * time.Millisecond)
			continue
		}
		var at struct{ ID, State string }
		_ = json.Unmarshal(r.Result.Meta["dev.vmcp/run"], &at)
		if c.run = at.ID; r.Result.ResultType != "input_required" {
			c.doubt, c.result = at.State == "doubt", string(r.Result.StructuredContent)
			if r.Result.IsError && !c.doubt {
				tr.t.Errorf("%s: %+v", c.id, r.Result.Content)
			}
			return
		}
		more = tr.answer(c, r)
	}
}

// answer is the part of the next request that answers all questions, each with a different answer. An answer is
// stored before its request is answered. So a response without an error must not have the same question again,
// nor may later ones.
func (tr *trial) answer(c *client, r *response) string {
	tokens := map[string]string{}
	for key, q := range r.Result.InputRequests {
		if c.taken[key] {
			tr.t.Errorf("%s: %s is asked again after its answer was taken", c.id, key)
		}
		tokens[key], c.taken[key] = c.token(q.Params.Message), true
	}
	return r.answersWith(tokens)
}

// token is a new answer to a question, which ends with the subject of the question.
func (c *client) token(message string) string {
	_, what, _ := strings.Cut(message, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	token := fmt.Sprintf("answer %d for %s", len(c.answers[what]), what)
	c.answers[what] = append(c.answers[what], token)
	return token
}

// given are the answers to questions with a subject.
func (c *client) given(what string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers[what])
}

// answers is the part of the next request that answers all questions.
func (r *response) answers() string { return r.answersWith(nil) }

func (r *response) answersWith(tokens map[string]string) string {
	var all []string
	for key := range r.Result.InputRequests {
		all = append(all, fmt.Sprintf(`%q:{"action":"accept","content":{"token":%q}}`, key, tokens[key]))
	}
	return fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, strings.Join(all, ","), r.Result.RequestState)
}

func (tr *trial) call(c *client, more string) (*response, error) {
	ctx, cancel := context.WithTimeout(tr.t.Context(), 20*time.Second)
	defer cancel()
	return tr.callIn(ctx, c, more)
}

// callOften makes a call. Sometimes it sends the same request before and disconnects, or sends it twice at the same time.
func (tr *trial) callOften(c *client, more string) (*response, error) {
	var other sync.WaitGroup
	defer other.Wait()
	switch rand.IntN(8) {
	case 0:
		ctx, cancel := context.WithTimeout(tr.t.Context(), time.Duration(rand.IntN(30_000))*time.Microsecond)
		defer cancel()
		_, _ = tr.callIn(ctx, c, more)
	case 1:
		other.Go(func() { _, _ = tr.call(c, more) })
	}
	return tr.call(c, more)
}

func (tr *trial) callIn(ctx context.Context, c *client, more string) (*response, error) {
	args, key := fmt.Sprintf(`{"id":%q}`, c.id), fmt.Sprintf(`"dev.vmcp/idempotencyKey":%q,`, c.id)
	if c.args != "" {
		args = c.args
	}
	if c.noKey {
		key = ""
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s,"_meta":{%s
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, c.kind, args, more, key)
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+tr.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": c.kind,
	} {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if i := bytes.LastIndex(b, []byte("data: ")); i >= 0 {
		b = b[i+len("data: "):]
	}
	var m response
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", b, err)
	}
	return &m, nil
}

// judge checks every run, resolves calls in doubt, and checks again.
func (tr *trial) judge() {
	doubts := 0
	for _, c := range tr.runs {
		for c.doubt {
			doubts++
			if c.kind == "tries" || c.kind == "puts" {
				tr.t.Errorf("%s is in doubt, and all its calls are caught or idempotent", c.id)
			}
			if !tr.resolve(c) {
				break
			}
			tr.drive(c)
		}
		tr.check(c)
	}
	tr.t.Logf("%d runs, %d kills, %d doubts", len(tr.runs), kills(), doubts)
}

// resolve resolves every call in doubt by the ledger.
func (tr *trial) resolve(c *client) bool {
	var run struct {
		Doubts []struct {
			Key       string
			Arguments thing
		}
	}
	if err := json.Unmarshal(tr.command("runs", "show", c.run, "-o", "json"), &run); err != nil || len(run.Doubts) == 0 {
		tr.t.Errorf("%s: vmcp runs show: %v, %d doubts", c.id, err, len(run.Doubts))
		return false
	}
	for _, d := range run.Doubts {
		how := []string{"--repeat"}
		if tr.ledger.did(d.Arguments.What) > 0 {
			how = []string{"--done", tr.ledger.output(d.Arguments.What)}
		}
		tr.command(append([]string{"runs", "resolve", c.run, d.Key}, how...)...)
	}
	return true
}

func (tr *trial) command(args ...string) []byte {
	cmd := exec.Command(tr.bin, append(args, "--config", filepath.Join(tr.dir, "vmcp.yaml"))...)
	out, err := cmd.Output()
	if err != nil {
		tr.t.Errorf("vmcp %v: %v: %s", args, err, out)
	}
	return out
}

// check compares the result and the effects of a run with the expected ones.
func (tr *trial) check(c *client) {
	if want := fmt.Sprintf("%q", c.id); c.result != want {
		tr.t.Errorf("%s ended with %s, want %s (run %s)", c.id, c.result, want, c.run)
	}
	for i := range 4 {
		what := c.id + "/" + strconv.Itoa(i)
		switch n := tr.ledger.did(what); {
		case n > 1:
			tr.t.Errorf("%s was done %d times", what, n)
		case n == 0 && c.kind != "tries":
			tr.t.Errorf("%s was not done", what)
		}
		used, given := tr.ledger.answersFor(what), c.given(what)
		if len(used) != min(1, len(given)) || len(used) == 1 && !slices.Contains(given, used[0]) {
			tr.t.Errorf("%s was done for the answers %q, want one of %q", what, used, given)
		}
	}
}
