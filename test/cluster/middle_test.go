//go:build suites

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// A middle is an operation of the first replica during which it is killed or stopped.
type middle struct {
	t       *testing.T
	w       *world
	owner   *replica
	others  []*replica
	stopped bool // and killed otherwise
}

// Each row begins an operation at the first replica. The functions that it returns check the outcome: elsewhere while that
// replica is dead or stopped, awake when a stopped one is continued.
var middles = map[string]func(*middle) (elsewhere, awake func()){
	"pending call":        (*middle).pendingCall,
	"question":            (*middle).question,
	"GET stream":          (*middle).getStream,
	"subscription":        (*middle).subscription,
	"beginning of a task": (*middle).beginningOfTask,
	"task":                (*middle).task,
	"task of a session":   (*middle).taskOfSession,
	"late request":        (*middle).lateRequest,
}

// testMiddleKilled: a replica is killed during each kind of operation.
func testMiddleKilled(t *testing.T, pg *runstest.Server) {
	testMiddle(t, pg, func(r *replica) { r.process.Kill() }, false)
}

// testMiddleStopped: a replica is stopped, and continued when others have replaced it: no effect is begun twice, and no request is answered for a
// session that another replica owns by then.
func testMiddleStopped(t *testing.T, pg *runstest.Server) {
	testMiddle(t, pg, func(r *replica) {
		r.signal(syscall.SIGSTOP)
		r.await("its standstill", func() (bool, error) { // some of its threads run on for a moment
			state, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(r.process.Cmd.Process.Pid)).Output()
			return strings.HasPrefix(strings.TrimSpace(string(state)), "T"), err
		})
	}, true)
}

func testMiddle(t *testing.T, pg *runstest.Server, end func(*replica), stopped bool) {
	w := started(t, pg, clustered)
	m := &middle{t, w, w.replicas[0], w.replicas[1:], stopped}
	open := w.ledger.shut(t)
	elsewhere, awake := map[string]func(){}, map[string]func(){}
	for name, begin := range middles {
		elsewhere[name], awake[name] = begin(m)
	}
	end(m.owner)
	open()
	for name, look := range elsewhere {
		t.Log("elsewhere:", name)
		look()
	}
	if !stopped {
		return
	}
	m.owner.signal(syscall.SIGCONT)
	for name, look := range awake {
		t.Log("awake:", name)
		look()
	}
}

// An outcome is the outcome of a request.
type outcome struct {
	result json.RawMessage
	err    error
}

// calling starts a request without waiting for it.
func (m *middle) calling(c *raw.Client, method, params string) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		result, err := c.Call(m.t.Context(), method, params)
		ended <- outcome{result, err}
	}()
	return ended
}

// broken waits until a request has ended without a result.
func (m *middle) broken(what string, ended <-chan outcome) {
	m.t.Helper()
	if o := m.end(what, ended); o.err == nil {
		m.t.Errorf("%s was answered: %s", what, o.result)
	}
}

// answered waits for the result of a request.
func (m *middle) answered(what string, ended <-chan outcome, want string) {
	m.t.Helper()
	if o := m.end(what, ended); o.err != nil || !strings.Contains(string(o.result), want) {
		m.t.Errorf("%s: %s, %v; want %s", what, o.result, o.err, want)
	}
}

func (m *middle) end(what string, ended <-chan outcome) outcome {
	m.t.Helper()
	select {
	case o := <-ended:
		return o
	case <-time.After(testTimeout):
		m.t.Fatalf("%s did not end", what)
		return outcome{}
	}
}

// did checks the number of times that an effect was made.
func (m *middle) did(what string, want int) {
	m.t.Helper()
	if n := m.w.ledger.did(what); n != want {
		m.t.Errorf("%s was done %d times, want %d", what, n, want)
	}
}

// await waits until an effect has been made once.
func (m *middle) await(what string) {
	m.t.Helper()
	m.owner.await(what, func() (bool, error) { return m.w.ledger.did(what) == 1, nil })
}

// served makes a request of a session at every other replica.
func (m *middle) served(id, method, params, want string) {
	m.t.Helper()
	for i, r := range m.others {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, 100+i, method, params)
		if code, text := post(m.t, r.url(), id, body); code != http.StatusOK || !strings.Contains(text, want) {
			m.t.Errorf("%s elsewhere: %d %s, want %s", method, code, text, want)
		}
	}
}

func (m *middle) pendingCall() (elsewhere, awake func()) {
	c, next := m.w.pending(m.owner, "pending")
	elsewhere = func() {
		c.URL = m.others[0].url()
		if _, err := c.Call(m.t.Context(), "tools/call", next); err == nil || !strings.Contains(err.Error(), "replica lost") {
			m.t.Errorf("the answer to a call that was pending at a killed replica: %v", err)
		}
		m.did("pending begun", 1)
		m.did("pending", 0)
	}
	return elsewhere, func() { // the client was answered that the call is lost
		m.did("pending begun", 1)
		m.did("pending", 0)
	}
}

func (m *middle) question() (elsewhere, awake func()) {
	c := session(m.t, m.owner.url())
	asked, agreed := make(chan struct{}), make(chan struct{})
	c.Asked = func(q raw.Message) string { close(asked); <-agreed; return agree(q) }
	ended := m.calling(c, "tools/call", `{"name":"book","arguments":{"what":"asked"}}`)
	<-asked
	elsewhere = func() {
		m.served(c.Session(), "tools/list", `{}`, `"pay"`)
		c.URL = m.others[1].url()
		close(agreed) // the answer arrives at a replica that has not asked
		if !m.stopped {
			m.broken("the call that asked", ended)
		}
		m.did("asked", 0)
	}
	return elsewhere, func() {
		// Its session has moved. The backend's own result says so, too, if it comes before the connection ends.
		if o := m.end("the call that asked", ended); o.err == nil && !strings.Contains(string(o.result), "the client's session ended") {
			m.t.Errorf("the call that asked was answered: %s", o.result)
		}
		m.did("asked begun", 1)
		m.did("asked", 0)
	}
}

func (m *middle) getStream() (elsewhere, awake func()) {
	const note = `{"uri":"note://one"}`
	direct, through := session(m.t, m.owner.url()), session(m.t, m.owner.url())
	for _, c := range []*raw.Client{direct, through} {
		if _, err := c.Call(m.t.Context(), "resources/subscribe", note); err != nil {
			m.t.Fatal(err)
		}
	}
	before, hop := listen(m.t, m.owner.url(), direct.Session()), listen(m.t, m.others[0].url(), through.Session())
	var after []*stream
	elsewhere = func() {
		hop.over(m.t)
		after = []*stream{listen(m.t, m.others[1].url(), through.Session()), listen(m.t, m.others[0].url(), direct.Session())}
		for _, s := range after {
			s.next(m.t, "notifications/resources/list_changed") // its subscriptions are there again
		}
		if !m.stopped {
			before.over(m.t)
			m.touched(after...)
		}
	}
	return elsewhere, func() {
		before.over(m.t) // its session is another replica's
		stop, touching := make(chan struct{}), make(chan struct{})
		go func() { // the backend has one reader at a time: the stopped replica releases it after SIGCONT, at an unknown time
			defer close(touching)
			for {
				m.w.ledger.touch(m.t.Context(), "note://one")
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		defer func() { close(stop); <-touching }()
		for _, s := range after {
			s.next(m.t, updated)
		}
	}
}

func (m *middle) subscription() (elsewhere, awake func()) {
	before := subscribe(m.t, m.owner.url(), "note://one")
	var after *stream
	elsewhere = func() {
		after = subscribe(m.t, m.others[0].url(), "note://one")
		m.touched(after)
		if !m.stopped {
			before.over(m.t)
		}
	}
	return elsewhere, func() { m.touched(before, after) } // it belongs to no session, and continues
}

// touched changes a resource, and waits until every stream has the notification.
func (m *middle) touched(all ...*stream) {
	m.t.Helper()
	m.w.ledger.touch(m.t.Context(), "note://one")
	for _, s := range all {
		s.next(m.t, updated)
	}
}

// over waits until the stream has ended.
func (s *stream) over(t testing.TB) {
	t.Helper()
	for late := time.After(testTimeout); ; {
		select {
		case _, more := <-s.events:
			if !more {
				return
			}
		case <-late:
			t.Fatal("the stream of a killed replica did not end")
		}
	}
}

func (m *middle) beginningOfTask() (elsewhere, awake func()) {
	c := &raw.Client{URL: m.owner.url(), Revision: raw.Modern}
	ended := m.calling(c, "tools/call", `{"name":"begin","arguments":{"what":"held"}}`)
	m.await("tools/call held")
	elsewhere = func() {
		if !m.stopped {
			m.broken("the call that begins a task", ended)
		}
		m.did("tools/call held", 1)
	}
	return elsewhere, func() {
		m.answered("the call that begins a task", ended, `"taskId":"held"`)
		m.did("tools/call held", 1)
		m.tasks("tasks/get", "held", "completed")
	}
}

func (m *middle) task() (elsewhere, awake func()) {
	c := &raw.Client{URL: m.owner.url(), Revision: raw.Modern}
	if _, err := c.Call(m.t.Context(), "tools/call", `{"name":"begin","arguments":{"what":"modern"}}`); err != nil {
		m.t.Fatal(err)
	}
	ended := m.calling(c, "tasks/get", `{"taskId":"modern"}`)
	m.await("tasks/get modern")
	elsewhere = func() {
		m.tasks("tasks/get", "modern", "completed")
		m.tasks("tasks/cancel", "modern", "resultType")
		if !m.stopped {
			m.broken("tasks/get", ended)
		}
	}
	return elsewhere, func() {
		m.answered("tasks/get", ended, "completed")
		m.did("tools/call modern", 1)
		m.did("tasks/get modern", 1+len(m.others))
		m.did("tasks/cancel modern", len(m.others))
	}
}

// tasks makes a request about a task at every other replica.
func (m *middle) tasks(method, id, want string) {
	m.t.Helper()
	for _, r := range m.others {
		c := &raw.Client{URL: r.url(), Revision: raw.Modern}
		if got, err := c.Call(m.t.Context(), method, fmt.Sprintf(`{"taskId":%q}`, id)); err != nil || !strings.Contains(string(got), want) {
			m.t.Errorf("%s elsewhere: %s, %v; want %s", method, got, err, want)
		}
	}
}

func (m *middle) taskOfSession() (elsewhere, awake func()) {
	c := session(m.t, m.owner.url())
	if got, err := c.Call(m.t.Context(), "tools/call", `{"name":"job","arguments":{"what":"legacy"},"task":{"ttl":60000}}`); err != nil || !strings.Contains(string(got), `"taskId":"legacy"`) {
		m.t.Fatalf("%s, %v; want a task", got, err)
	}
	ended := m.calling(c, "tasks/result", `{"taskId":"legacy"}`)
	m.await("tasks/result legacy")
	elsewhere = func() {
		const it = `{"taskId":"legacy"}`
		m.served(c.Session(), "tasks/get", it, `"completed"`)
		m.served(c.Session(), "tasks/result", it, `"done"`)
		m.served(c.Session(), "tasks/cancel", it, `"cancelled"`)
		if !m.stopped {
			m.broken("tasks/result", ended)
		}
	}
	return elsewhere, func() {
		// It was begun before the session moved: its response is right, and so is an error.
		if o := m.end("tasks/result", ended); o.err == nil && !strings.Contains(string(o.result), "done") {
			m.t.Errorf("tasks/result: %s", o.result)
		}
		m.did("tools/call legacy", 1)
		m.did("tasks/result legacy", 1+len(m.others))
		m.did("tasks/cancel legacy", len(m.others))
	}
}

// lateRequest: a request arrives while the replica is stopped, when another replica already owns its session.
func (m *middle) lateRequest() (elsewhere, awake func()) {
	c := session(m.t, m.owner.url())
	var ended <-chan outcome
	elsewhere = func() {
		m.served(c.Session(), "tools/list", `{}`, `"pay"`)
		ended = m.calling(c, "tools/call", `{"name":"pay","arguments":{"what":"late"}}`)
		if !m.stopped {
			m.broken("a call at a replica that is dead", ended)
		}
	}
	return elsewhere, func() {
		m.answered("a call at a replica that stood still", ended, `"did":"late"`)
		m.did("late", 1)
		m.served(c.Session(), "tools/list", `{}`, `"pay"`)
	}
}
