package backends_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

// TestChangesBeforeTheStreamAreFound: what a backend announces while the stream for that is not open yet
// goes to nobody, so its lists are read again when it is.
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

// TestStreamThatAnotherProcessReads: a backend that lets one process read the stream of a session answers 409 while another one
// does. The stream is asked for again, and open when that has let go.
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

// listening waits until a modern backend has acknowledged its listen stream: changes
// before that are announced to nobody.
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
			testkit.Eventually(t, "an update", func() bool {
				text(t, b, tool("touch", `{}`, nil))
				return len(updates) > 0
			})
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

// TestDisabled: a backend that the configuration switches off ends at once, and one that it cannot
// reach is not tried.
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
