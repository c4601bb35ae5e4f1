package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

func TestChangedListIsFetchedAgain(t *testing.T) {
	testmode.Parallel(t)
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, changes := ready(t, backends.Options{}, tt.config(t))
			listening(t, b)
			text(t, b, tool("grow", `{}`, nil))
			waitFor(t, changes, "the new tool", func() bool {
				return slices.ContainsFunc(b.Offer().Tools, func(i backends.Item) bool { return i.Name == "grown" })
			})
		})
	}
}

// TestChangesBeforeTheStreamAreFound: changes before the event stream is open are not announced, so the
// lists are read again when it is.
func TestChangesBeforeTheStreamAreFound(t *testing.T) {
	var tools atomic.Value
	tools.Store(`{"name":"old"}`)
	open := make(chan struct{})
	raw := &backendtest.Raw{Session: "s", First: func(x *backendtest.Exchange) bool {
		switch {
		case x.Request.Method == http.MethodGet:
			select {
			case <-open:
				x.Header().Set("Content-Type", "text/event-stream")
				x.WriteHeader(http.StatusOK)
				x.ResponseWriter.(http.Flusher).Flush()
				<-x.Request.Context().Done()
			case <-x.Request.Context().Done():
			}
		case x.Message.Method == wire.ToolsList:
			x.JSON(`{"tools":[` + tools.Load().(string) + `]}`)
		default:
			return false
		}
		return true
	}}
	b, changes := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	if name := b.Offer().Tools[0].Name; name != "old" {
		t.Fatalf("the first tool is %q", name)
	}
	tools.Store(`{"name":"new"}`)
	close(open)
	waitFor(t, changes, "the new tool", func() bool { return b.Offer().Tools[0].Name == "new" })
}

// TestStreamThatAnotherProcessReads: a backend that allows one reader of a session's stream responds 409 while another
// process reads it. The request is retried, and succeeds when that has closed the stream.
func TestStreamThatAnotherProcessReads(t *testing.T) {
	var asked atomic.Int32
	raw := &backendtest.Raw{Session: "s", First: func(x *backendtest.Exchange) bool {
		switch {
		case x.Request.Method == http.MethodGet && asked.Add(1) < 3:
			http.Error(x, "somebody reads it", http.StatusConflict)
		case x.Request.Method == http.MethodGet:
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			<-x.Request.Context().Done()
		case x.Message.Method == wire.ToolsList:
			x.JSON(fmt.Sprintf(`{"tools":[{"name":"asked-%d"}]}`, min(asked.Load(), 3)))
		default:
			return false
		}
		return true
	}}
	b, changes := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	waitFor(t, changes, "what is announced on the stream", func() bool { return b.Offer().Tools[0].Name == "asked-3" })
}

// listening waits until a modern backend has acknowledged its listen stream: earlier
// changes are not announced.
func listening(t testing.TB, b *backends.Backend) {
	testkit.Eventually(t, "the listen stream", func() bool { return b.State().Revision != wire.Rev2607 || b.State().Listening })
}

func TestUpdatesOfSubscribedResourcesArrive(t *testing.T) {
	testmode.Parallel(t)
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			updates := make(chan string, 10)
			b, _ := ready(t, backends.Options{Updated: func(_ *backends.Backend, _, uri string, _ json.RawMessage) {
				select {
				case updates <- uri:
				default:
				}
			}}, tt.config(t))
			if err := b.Subscribe(t.Context(), "test://static"); err != nil {
				t.Fatal(err)
			}
			b.Subscribed(t.Context())
			text(t, b, tool("touch", `{}`, nil))
			if uri := <-updates; uri != "test://static" {
				t.Errorf("updated %q", uri)
			}
		})
	}
}

func TestApplyKeepsWhatDidNotChange(t *testing.T) {
	at := func(name string, header string) config.Backend {
		raw := &backendtest.Raw{Modern: true, Tools: `{"name":"t"}`, Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[{"text":"hi"}]}`) }}
		return config.Backend{Name: name, URL: raw.Start(t), Headers: map[string]string{"X": header}}
	}
	kept, edited, removed, added := at("kept", "1"), at("edited", "1"), at("removed", "1"), at("added", "1")
	s, changes := newSet(t, backends.Options{}, kept, edited, removed)
	allReady := func() bool {
		return !slices.ContainsFunc(s.All(), func(b *backends.Backend) bool { return b.State().Status != backends.Ready })
	}
	waitFor(t, changes, "the first configuration", allReady)
	before := s.All()
	edited.IdempotencyHeader = "Idempotency-Key"
	if err := s.Apply(&config.Config{Backends: []config.Backend{added, edited, kept}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, changes, "the second configuration", func() bool { return allReady() && !s.Replacing() })
	after := s.All()
	if after[2] != before[0] {
		t.Error("the unchanged backend was replaced")
	}
	if after[1] == before[1] {
		t.Error("the changed backend was kept")
	}
	var names []string
	for _, b := range after {
		names = append(names, b.Name())
		text(t, b, tool("t", `{}`, nil))
	}
	if got := strings.Join(names, " "); got != "added edited kept" {
		t.Errorf("order is %s", got)
	}
	testkit.Eventually(t, "the removed one to be closed", func() bool { return before[2].Stats().Connections == 0 })
	if _, err := before[2].Call(t.Context(), tool("t", `{}`, nil)); kind(err) != backends.Unavailable {
		t.Errorf("call of a removed backend: %v", err)
	}
}

func TestRemovedBackendFinishesItsCalls(t *testing.T) {
	testmode.Parallel(t)
	s, changes := newSet(t, backends.Options{}, config.Backend{Name: "b", URL: backendtest.HTTP(t, backendtest.New(), false)})
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	running := make(started, 1)
	r := tool("wait", `{"ms":300,"steps":1}`, &backends.Caller{Sink: running})
	r.Params = jsonscan.Set(r.Params, "_meta", []byte(`{"progressToken":1}`))
	answer := make(chan string)
	go func() { answer <- text(t, b, r) }()
	<-running
	if err := s.Apply(&config.Config{}); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "waited" {
		t.Errorf("answer %q", got)
	}
}

func TestApplyRefusesTwoOfOneName(t *testing.T) {
	s, _ := newSet(t, backends.Options{})
	if err := s.Apply(&config.Config{Backends: []config.Backend{{Name: "a"}, {Name: "a"}}}); err == nil {
		t.Error("two backends of one name were accepted")
	}
}

// TestDisabled: a backend that is disabled by the configuration is closed at once, and one with an
// unusable configuration is not dialled.
func TestDisabled(t *testing.T) {
	cfg := backendtest.Stdio("b", "sdk")
	s, changes := newSet(t, backends.Options{}, cfg)
	state := func() backends.State { return s.All()[0].State() }
	waitFor(t, changes, "ready", func() bool { return state().Status == backends.Ready })
	for _, tt := range []struct {
		disabled             bool
		unusable, want, call string
	}{
		{true, "", "disabled", "backend b is disabled in the configuration"},
		{false, "its type is ws", "down", "backend b is down: its type is ws"},
	} {
		off := cfg
		off.Disabled, off.Unusable = tt.disabled, tt.unusable
		if err := s.Apply(&config.Config{Backends: []config.Backend{off}}); err != nil {
			t.Fatal(err)
		}
		if have := state().Status.String(); have != tt.want {
			t.Errorf("state %s, want %s", have, tt.want)
		}
		if _, err := s.All()[0].Call(t.Context(), &backends.Request{Method: "tools/list"}); err == nil || err.Error() != tt.call {
			t.Errorf("a call: %v, want %s", err, tt.call)
		}
		if n := s.All()[0].Stats().Children; n != 0 {
			t.Errorf("%d children", n)
		}
		if err := s.Apply(&config.Config{Backends: []config.Backend{cfg}}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, changes, "ready again", func() bool { return state().Status == backends.Ready })
	}
}

func TestReleaseClosesWhatIsExclusiveToASession(t *testing.T) {
	s, changes := newSet(t, backends.Options{}, backendtest.Stdio("b", "legacy"))
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	for _, name := range []string{"ann", "bob"} {
		text(t, b, tool("ask", `{}`, caller(&client{name: name})))
	}
	if n := b.Stats().Children; n != 3 {
		t.Errorf("%d processes, want one for all and one for each", n)
	}
	s.Release("session of ann")
	testkit.Eventually(t, "ann's process to end", func() bool { return b.Stats().Children == 2 })
	text(t, b, tool("ask", `{}`, caller(&client{name: "ann"})))
}

// TestACallOutlastsItsSession: the call of a run continues when its client session has ended or moved to another
// process. Then the backend session is ended once, or, for a session that has moved, left to the other process.
func TestACallOutlastsItsSession(t *testing.T) {
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprint("moved ", moved), func(t *testing.T) {
			underWay, end := make(chan struct{}), make(chan struct{})
			server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{wire.Rev2511}})
			mcp.AddTool(server, &mcp.Tool{Name: "act"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, map[string]string, error) {
				close(underWay)
				<-end
				return nil, map[string]string{"did": "it"}, nil
			})
			s, changes := newSet(t, backends.Options{}, config.Backend{Name: "b", URL: backendtest.HTTP(t, server, true)})
			b := s.All()[0]
			waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
			before := len(slices.Collect(server.Sessions()))
			answered := make(chan error, 1)
			go func() {
				resp, err := b.Call(t.Context(), tool("act", `{}`, caller(&client{name: "ann"})))
				if err == nil {
					resp.Close()
				}
				answered <- err
			}()
			<-underWay
			if moved {
				s.DetachSession("session of ann")
			} else {
				s.Release("session of ann")
			}
			if n := b.Stats().Sessions; n != 1 {
				t.Errorf("%d sessions of clients while the call is under way, want one", n)
			}
			close(end)
			if err := <-answered; err != nil {
				t.Errorf("the call: %v", err)
			}
			left := map[bool]int{true: 1}[moved]
			testkit.Eventually(t, "the session to end", func() bool { return b.Stats().Sessions == 0 && len(slices.Collect(server.Sessions())) == before+left })
		})
	}
}

// TestSessionsThatDoNotEnd: a backend that does not respond to DELETE delays the shutdown once, and not for each
// session.
func TestSessionsThatDoNotEnd(t *testing.T) {
	testmode.Parallel(t)
	const sessions = 20
	for try := 1; ; try++ { // a slow machine does not send all requests before they are given up
		n := endedAtOnce(t, sessions)
		if n >= sessions {
			return
		}
		if try == 5 {
			t.Fatalf("%d sessions were ended, want %d", n, sessions)
		}
	}
}

// endedAtOnce opens sessions with a backend that does not answer when they end, closes the set of backends, and returns how
// many it ended.
func endedAtOnce(t *testing.T, sessions int32) int32 {
	t.Helper()
	inner, err := url.Parse(backendtest.HTTP(t, backendtest.New(wire.Rev2511), true))
	if err != nil {
		t.Fatal(err)
	}
	var ending atomic.Int32
	many := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			httputil.NewSingleHostReverseProxy(inner).ServeHTTP(w, r)
			return
		}
		if ending.Add(1) == sessions/2 {
			close(many)
		}
		select {
		case <-many:
			<-r.Context().Done()
		case <-r.Context().Done(): // given up before half of them came
			t.Error("sessions end one after the other")
		}
	}))
	t.Cleanup(front.Close)
	s, changes := newSet(t, backends.Options{}, config.Backend{Name: "b", URL: front.URL + inner.Path})
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	for i := range sessions {
		text(t, b, tool("echo", `{}`, caller(&client{name: fmt.Sprint("c", i)})))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return ending.Load()
}

func TestConnectionsAreCappedAndReused(t *testing.T) {
	cfg := config.Backend{Name: "b", URL: backendtest.HTTP(t, backendtest.New(), true), MaxConnections: 3}
	b, _ := ready(t, backends.Options{}, cfg)
	var all sync.WaitGroup
	for i := range 12 {
		of := caller(&client{name: fmt.Sprint("c", i)})
		if i%3 == 0 {
			of.Session = ""
		}
		all.Go(func() {
			text(t, b, tool("ask", `{}`, of))
			if n := b.Stats().Connections; n > 3 {
				t.Errorf("%d connections, want at most 3", n)
			}
		})
	}
	all.Wait()
}

func TestSharedSessionsTakeTurns(t *testing.T) {
	server := backendtest.New()
	cfg := config.Backend{Name: "b", URL: backendtest.HTTP(t, server, true), Sessions: "shared"}
	b, _ := ready(t, backends.Options{}, cfg)
	var all sync.WaitGroup
	for i := range 8 {
		c := &client{name: fmt.Sprint("c", i)}
		all.Go(func() { talk(t, b, c, caller(c), wire.Rev2511) })
	}
	all.Wait()
	if n := len(slices.Collect(server.Sessions())); n != 1 {
		t.Errorf("%d sessions, want one", n)
	}
}

// TestSubscribedWaitsForTheAcknowledgement: a client whose subscription is confirmed receives each later update, and a
// backend without a stream, or that never acknowledges one, blocks no client.
func TestSubscribedWaitsForTheAcknowledgement(t *testing.T) {
	var order testkit.Buffer
	raw := &backendtest.Raw{Modern: true, First: func(x *backendtest.Exchange) bool {
		if x.Message.Method != wire.Listen || !strings.Contains(string(x.Message.Params), "test://r") {
			return false
		}
		fmt.Fprint(&order, "acknowledged ")
		x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["test://r"]}}}`)
		<-x.Request.Context().Done()
		return true
	}}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	if err := b.Subscribe(t.Context(), "test://r"); err != nil {
		t.Fatal(err)
	}
	b.Subscribed(t.Context())
	fmt.Fprint(&order, "answered")
	if got := order.String(); got != "acknowledged answered" {
		t.Errorf("%s", got)
	}
	b.Subscribed(t.Context()) // of somebody else

	none := &backendtest.Raw{Modern: true, First: func(x *backendtest.Exchange) bool {
		if x.Message.Method == wire.Listen {
			x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, x.Message.ID))
		}
		return x.Message.Method == wire.Listen
	}}
	b, _ = ready(t, backends.Options{}, config.Backend{Name: "b", URL: none.Start(t)})
	if err := b.Subscribe(t.Context(), "test://r"); err != nil {
		t.Fatal(err)
	}
	b.Subscribed(t.Context())
	if b.State().Listening {
		t.Error("the backend has acknowledged what it does not know")
	}
}

// TestFollowedResourcesAreFollowedWhileAnotherIsAdded: the stream with the updates of one resource stays open until the
// backend has acknowledged the stream for both.
func TestFollowedResourcesAreFollowedWhileAnotherIsAdded(t *testing.T) {
	const first, second = "test://first", "test://second"
	update, ended := make(chan struct{}), make(chan struct{})
	updates := make(chan string, 1)
	raw := &backendtest.Raw{Modern: true, First: func(x *backendtest.Exchange) bool {
		params := string(x.Message.Params)
		if x.Message.Method != wire.Listen || !strings.Contains(params, first) {
			return false
		}
		over := x.Request.Context().Done()
		if strings.Contains(params, second) {
			select {
			case update <- struct{}{}:
				if got := <-updates; got != first {
					t.Errorf("updated %q", got)
				}
			case <-ended:
				t.Error("nothing is announced until the backend acknowledges the second resource")
			}
		}
		x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`)
		if !strings.Contains(params, second) {
			select {
			case <-update:
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`+first+`"}}`)
			case <-over:
			}
			<-over
			close(ended)
		}
		<-over
		return true
	}}
	b, _ := ready(t, backends.Options{Updated: func(_ *backends.Backend, _, uri string, _ json.RawMessage) { updates <- uri }}, config.Backend{Name: "b", URL: raw.Start(t)})
	for _, uri := range []string{first, second} {
		if err := b.Subscribe(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
		b.Subscribed(t.Context())
	}
	<-ended // one stream is enough
	if !b.State().Listening {
		t.Error("the backend counts as one that announces nothing")
	}
}
