package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
)

const (
	legacy = "2025-11-25"
	asks   = `{"elicitation":{}}`
)

// TestEachClientSeesItsOwnState: by default each client session has a private session with a
// backend that issues session ids, whether the client has capabilities or not.
func TestEachClientSeesItsOwnState(t *testing.T) {
	b := newBackend(t)
	url := serve(t, one(b))
	const clients, rounds = 60, 3
	var all sync.WaitGroup
	for i := range clients {
		c := connect(t, url, legacy, []string{`{}`, asks}[i%2])
		all.Go(func() {
			for n := range rounds {
				if got, err := call(t, c, "count"); got != fmt.Sprint(n+1) {
					t.Errorf("client %d, call %d: %q, %v", i, n+1, got, err)
				}
			}
		})
	}
	all.Wait()
}

// TestSessionIsOpenedAtFirstUseAndClosedWithTheClient counts the sessions of the backend.
func TestSessionIsOpenedAtFirstUseAndClosedWithTheClient(t *testing.T) {
	b := newBackend(t)
	url := serve(t, one(b))
	before := len(b.all())
	c := connect(t, url, legacy, `{}`)
	tools(t, c)
	if n := len(b.all()); n != before {
		t.Errorf("%d sessions after a list, want %d: nothing was used", n, before)
	}
	must(t, c, "count")
	if n, streams := len(b.all()), b.streams(); n != before+1 || streams > 1 {
		t.Errorf("%d sessions and %d streams after a call, want %d and the main one", n, streams, before+1)
	}
	end(t, c)
	testkit.Eventually(t, "the session to be closed", func() bool { return len(b.all()) == before })
}

func end(t *testing.T, c *raw.Client) {
	req, _ := http.NewRequest(http.MethodDelete, c.URL, nil)
	req.Header.Set("Mcp-Session-Id", c.Session())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// TestStatelessBackendIsShared: a backend that issues no session ids has no state of sessions, so all clients share a connection.
func TestStatelessBackendIsShared(t *testing.T) {
	b := newBackend(t)
	b.stateless = true
	url := serve(t, one(b))
	for i := range 6 {
		must(t, connect(t, url, legacy, []string{`{}`, asks}[i%2]), "count")
	}
	if n := len(b.all()); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestAnonymousStatelessCallersShareOneSession: they cannot be distinguished.
func TestAnonymousStatelessCallersShareOneSession(t *testing.T) {
	for _, capabilities := range []string{`{}`, asks} {
		url := serve(t, one(newBackend(t)))
		for i := range 3 {
			if got := must(t, connect(t, url, raw.Modern, capabilities), "count"); got != fmt.Sprint(i+1) {
				t.Errorf("capabilities %s, call %d sees the counter %s", capabilities, i+1, got)
			}
		}
	}
}

// TestExclusiveIsNeverSharedSilently: a client that cannot have a private session is refused.
func TestExclusiveIsNeverSharedSilently(t *testing.T) {
	cfg := one(newBackend(t))
	cfg.Backends[0].Sessions = "exclusive"
	url := serve(t, cfg)
	for range 2 {
		if got := must(t, connect(t, url, legacy, `{}`), "count"); got != "1" {
			t.Errorf("a client with a session gets the counter %s, want its own", got)
		}
	}
	_, err := call(t, connect(t, url, raw.Modern, `{}`), "count")
	if err == nil || !strings.Contains(err.Error(), "sessions: exclusive") || !strings.Contains(err.Error(), "incomingAuth: {type: local}") {
		t.Errorf("an anonymous caller without a session: %v, want a refusal that says why, and what to do", err)
	}
	cfg.IncomingAuth.Type = "local"
	url = serve(t, cfg)
	for i := range 2 {
		if got := must(t, connect(t, url, raw.Modern, `{}`), "count"); got != fmt.Sprint(i+1) {
			t.Errorf("call %d of the user of this machine gets the counter %s, want that of one session", i+1, got)
		}
	}
}

// TestManyClientsTakeTurns: with more clients with capabilities than connections nothing is
// lost: an idle stream is closed to make room, and its session is kept.
func TestManyClientsTakeTurns(t *testing.T) {
	b := newBackend(t)
	url := serve(t, one(b))
	const clients, rounds = 80, 3
	all := make([]*raw.Client, clients)
	for i := range all {
		all[i] = connect(t, url, legacy, asks)
	}
	for n := range rounds {
		for i, c := range all {
			if got, err := call(t, c, "count"); got != fmt.Sprint(n+1) {
				t.Fatalf("client %d, call %d: %q, %v", i, n+1, got, err)
			}
		}
		// The backend's handler returns some time after the proxy closed a stream.
		testkit.Eventually(t, "at most 64 streams", func() bool { return b.streams() <= 64 })
	}
}

// TestFullBackendEndsTheLongestUnusedClientOrRefuses: a backend session is never ended without its
// client session.
func TestFullBackendEndsTheLongestUnusedClientOrRefuses(t *testing.T) {
	cfg := one(newBackend(t))
	cfg.Backends[0].MaxSessions = 2
	cfg.SessionIdle.Pressure = config.Duration(time.Hour)
	url := serve(t, cfg)
	old, young, late := connect(t, url, legacy, `{}`), connect(t, url, legacy, `{}`), connect(t, url, legacy, `{}`)
	must(t, old, "count")
	must(t, young, "count")
	_, err := call(t, late, "count")
	if err == nil || !strings.Contains(err.Error(), "maxSessions") || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("the third client: %v, want a refusal that names maxSessions", err)
	}
	for _, c := range []*raw.Client{old, young} {
		if got := must(t, c, "count"); got != "2" {
			t.Errorf("a client from before sees %s after the refusal, want 2", got)
		}
	}

	cfg = one(newBackend(t))
	cfg.Backends[0].MaxSessions = 2
	cfg.SessionIdle.Pressure = config.Duration(time.Nanosecond)
	url = serve(t, cfg)
	old, young, late = connect(t, url, legacy, `{}`), connect(t, url, legacy, `{}`), connect(t, url, legacy, `{}`)
	must(t, old, "count")
	must(t, young, "count")
	if got := must(t, late, "count"); got != "1" {
		t.Errorf("the third client gets %s, want a private session", got)
	}
	if got := must(t, young, "count"); got != "2" {
		t.Errorf("the younger client sees %s, want 2", got)
	}
	if _, err := call(t, old, "count"); err == nil || !strings.Contains(err.Error(), "session not found") {
		t.Errorf("the client that was unused longest: %v, want an unknown session", err)
	}
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if want := `vmcp_sessions_evicted_total{reason="pressure"} 1`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("metrics lack %s", want)
	}
}

// TestSubscriptionOutlivesOtherClients: no number of other clients ends a subscription.
func TestSubscriptionOutlivesOtherClients(t *testing.T) {
	b := newBackend(t)
	url := serve(t, one(b))
	c := connect(t, url, legacy, asks)
	notified := listen(t, c)
	follow(t, c)
	for range 70 {
		if got, err := call(t, connect(t, url, legacy, asks), "count"); got != "1" {
			t.Fatalf("another client: %q, %v", got, err)
		}
	}
	testkit.Eventually(t, "the update to be taken", func() bool { return b.update("test://r") == 1 })
	expect(t, notified, "notifications/resources/updated")
}

func follow(t *testing.T, c *raw.Client) {
	t.Helper()
	if _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"test://r"}`); err != nil {
		t.Fatal(err)
	}
}

// TestRestartedBackendTellsAllSubscribers: subscriptions and log levels are renewed without a
// call of the client.
func TestRestartedBackendTellsAllSubscribers(t *testing.T) {
	testmode.Parallel(t)
	b := newBackend(t)
	url := serve(t, one(b))
	var streams []<-chan string
	for i := range 10 {
		c := connect(t, url, legacy, []string{`{}`, asks}[i%2])
		streams = append(streams, listen(t, c))
		if _, err := c.Call(t.Context(), "logging/setLevel", `{"level":"notice"}`); err != nil {
			t.Fatal(err)
		}
		follow(t, c)
	}
	b.restart()
	testkit.Eventually(t, "ten sessions that follow", func() bool { return followers(b) == 10 })
	if n := b.update("test://r"); n != 10 {
		t.Errorf("%d sessions were notified, want 10", n)
	}
	for _, notified := range streams {
		expect(t, notified, "notifications/resources/updated")
	}
}

// followers counts the sessions with a stream, the subscription and the level.
func followers(b *backend) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.stream != nil && s.uris["test://r"] && s.level == "notice" {
			n++
		}
	}
	return n
}

// TestToolsOfOneSession: tools that a backend lists for one session are listed for its client, which can call them and
// is notified of changes; others do not get them.
func TestToolsOfOneSession(t *testing.T) {
	testmode.Parallel(t)
	for _, capabilities := range []string{`{}`, asks} {
		b := newBackend(t)
		cfg := one(b)
		cfg.Aggregation.Tools = []config.WorkloadTools{{Workload: "b", Overrides: map[string]config.ToolOverride{"secret": {Name: "treasure"}}}}
		url := serve(t, cfg)
		c, other := connect(t, url, legacy, capabilities), connect(t, url, legacy, capabilities)
		notified := listen(t, c)
		must(t, other, "count")
		if _, err := call(t, c, "treasure"); err == nil {
			t.Error("the tool could be called before it was enabled")
		}
		must(t, c, "enable")
		expect(t, notified, "notifications/tools/list_changed")
		if got := must(t, c, "treasure"); got != "hidden treasure" {
			t.Errorf("the new tool answers %q", got)
		}
		if got := tools(t, c); got != "count enable treasure" {
			t.Errorf("the list of the client that enabled it is %s", got)
		}
		if got := tools(t, other); got != "count enable" {
			t.Errorf("the list of another client is %s", got)
		}
		if _, err := call(t, other, "treasure"); err == nil {
			t.Error("another client can call it")
		}
	}
}

// TestChangesOfOneSessionAreAnnouncedTogether: when a backend changes its lists fifty times in a row
// for one client, the client gets a few notifications.
func TestChangesOfOneSessionAreAnnouncedTogether(t *testing.T) {
	testmode.Parallel(t)
	b := newBackend(t)
	c := connect(t, serve(t, one(b)), legacy, `{}`)
	notified := listen(t, c)
	must(t, c, "enable") // the backend's session is opened, and its stream after it
	expect(t, notified, "notifications/tools/list_changed")
	testkit.Eventually(t, "the stream of the client's session", func() bool { return b.streams() == 2 }) // beside the main one
	if _, err := c.Call(t.Context(), "tools/call", `{"name":"enable","arguments":{"times":50}}`); err != nil {
		t.Fatal(err)
	}
	expect(t, notified, "notifications/tools/list_changed")
	more := 0
	for quiet := time.After(time.Second); ; { // there is no event for no notification
		select {
		case <-notified:
			more++
			continue
		case <-quiet:
		}
		break
	}
	if more > 10 {
		t.Errorf("%d notifications for fifty changes", more+1)
	}
}

// TestToolsOfOneSessionWithoutAStream: a client without a stream gets them when it lists.
func TestToolsOfOneSessionWithoutAStream(t *testing.T) {
	url := serve(t, one(newBackend(t)))
	c := connect(t, url, legacy, `{}`)
	must(t, c, "enable")
	if got := tools(t, c); got != "count enable secret" {
		t.Errorf("shown %s", got)
	}
	must(t, c, "secret")
}
