package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// client is a Sink that records notifications and responds to requests.
type client struct {
	name   string
	mu     sync.Mutex
	got    []string
	answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

func (c *client) Notify(method string, params json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, strings.TrimPrefix(method, "notifications/")+" "+string(params))
}

func (c *client) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	c.got = append(c.got, method)
	c.mu.Unlock()
	if c.answer != nil {
		return c.answer(ctx, method, params)
	}
	switch method {
	case wire.Elicit:
		return fmt.Appendf(nil, `{"action":"accept","content":{"from":%q,"asked":%s}}`, c.name, jsonscan.Get(params, "message")), nil
	case wire.CreateMessage:
		return fmt.Appendf(nil, `{"role":"assistant","model":"m","content":{"type":"text","text":%q}}`, c.name), nil
	}
	return fmt.Appendf(nil, `{"roots":[{"uri":"file:///%s"}]}`, c.name), nil
}

func (c *client) notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.got...)
}

var everything = json.RawMessage(`{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`)

// caller is a client with a session and all capabilities.
func caller(c *client) *backends.Caller {
	return &backends.Caller{Session: "session of " + c.name, Principal: c.name, Capabilities: everything, Sink: c}
}

func TestBackendAsksTheClientOfTheCall(t *testing.T) {
	for _, tt := range transports {
		if tt.revision == wire.Rev2607 {
			continue // asks by multi-round-trip results only
		}
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			ann := &client{name: "ann"}
			for _, call := range []struct{ tool, want string }{
				{"ask", `accept map[asked:{"q":1} from:ann]`},
				{"sample", "ann"},
				{"roots", "file:///ann"},
			} {
				if got := text(t, b, tool(call.tool, `{"q":1}`, caller(ann))); got != call.want {
					t.Errorf("%s answered %q, want %q", call.tool, got, call.want)
				}
			}
			if got := b.Stats().Connections; got != 2 {
				t.Errorf("%d connections, want the main one and one for the session", got)
			}
		})
	}
}

func TestBackendMayAskAsSoonAsItIsInitialized(t *testing.T) {
	b, _ := ready(t, backends.Options{}, backendtest.Stdio("b", "curious"))
	for who, want := range map[string]*backends.Caller{"file:///ann": caller(&client{name: "ann"}), `[]`: nil} {
		testkit.Eventually(t, who, func() bool { return strings.Contains(text(t, b, tool("pids", `{}`, want)), who) })
	}
}

func TestClientWithoutCapabilitiesIsNotAsked(t *testing.T) {
	for _, tt := range transports {
		if tt.revision == wire.Rev2607 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			bob := &client{name: "bob"}
			got := text(t, b, tool("ask", `{}`, &backends.Caller{Session: "s", Sink: bob}))
			if !strings.Contains(got, "elicitation") || len(bob.notes()) != 0 {
				t.Errorf("ask answered %q, client got %q", got, bob.notes())
			}
		})
	}
}

func TestProgressKeepsTheCallersTokenAndComesBeforeTheResult(t *testing.T) {
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			for range 20 {
				ann := &client{name: "ann"}
				r := tool("progress", `{"steps":3}`, &backends.Caller{Session: "s", Sink: ann})
				r.Params = jsonscan.Set(r.Params, "_meta", []byte(`{"progressToken":"mine","keep":1}`))
				text(t, b, r)
				notes := ann.notes()
				if len(notes) != 3 {
					t.Fatalf("got %q before the result, want three notifications", notes)
				}
				for i, n := range notes {
					p := json.RawMessage(strings.TrimPrefix(n, "progress "))
					if jsonscan.GetString(p, "progressToken") != "mine" || string(jsonscan.Get(p, "progress")) != fmt.Sprint(i+1) {
						t.Errorf("notification %d is %s", i, n)
					}
				}
			}
		})
	}
}

func TestLogMessagesReachTheClientThatWantsThem(t *testing.T) {
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			ann := &client{name: "ann"}
			text(t, b, tool("log", `{}`, &backends.Caller{Session: "s", LogLevel: "debug", Sink: ann}))
			if got := ann.notes(); len(got) != 2 || !strings.Contains(got[0], `"one"`) || !strings.Contains(got[1], `"two"`) {
				t.Errorf("client got %q", got)
			}
		})
	}
}

func TestInterleavedCallsOfManyClientsStayApart(t *testing.T) {
	testmode.Parallel(t)
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			var all sync.WaitGroup
			clients := make([]*client, 20)
			if strings.HasPrefix(tt.name, "stdio") {
				clients = clients[:4] // each has processes of its own
			}
			for i := range clients {
				c := &client{name: fmt.Sprint("client", i)}
				clients[i] = c
				of := caller(c)
				of.LogLevel = "info"
				if i%2 == 0 {
					of.Session = "" // stateless
				}
				for range 3 {
					all.Go(func() { talk(t, b, c, of, tt.revision) })
				}
			}
			all.Wait()
			for _, c := range clients {
				count := map[string]int{}
				for _, n := range c.notes() {
					kind, _, _ := strings.Cut(n, " ")
					count[kind]++
				}
				if count["message"] != 6 || count["progress"] != 6 {
					t.Errorf("%s got %v, want 6 log messages and 6 steps", c.name, count)
				}
			}
		})
	}
}

// TestCallersWithoutASessionAreAskedSideBySide: each receives the requests of its own call,
// while those of others are open.
func TestCallersWithoutASessionAreAskedSideBySide(t *testing.T) {
	for _, tt := range transports {
		if tt.revision == wire.Rev2607 {
			continue // asks by multi-round-trip results only
		}
		for _, principal := range []string{"", "somebody"} {
			t.Run(tt.name+" "+principal, func(t *testing.T) {
				b, _ := ready(t, backends.Options{}, tt.config(t))
				var asked, done sync.WaitGroup
				const n = 3
				asked.Add(n)
				for i := range n {
					c := &client{name: fmt.Sprint("client", i)}
					once := sync.OnceFunc(asked.Done)
					c.answer = func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
						once()
						asked.Wait()
						return fmt.Appendf(nil, `{"action":"accept","content":{"from":%q,"asked":%s}}`, c.name, jsonscan.Get(params, "message")), nil
					}
					of := &backends.Caller{Principal: principal, Capabilities: everything, Sink: c}
					done.Go(func() {
						defer once() // the others wait for it
						want := fmt.Sprintf(`accept map[asked:{"q":%d} from:%s]`, i, c.name)
						if got := text(t, b, tool("ask", fmt.Sprintf(`{"q":%d}`, i), of)); got != want {
							t.Errorf("got %q, want %q", got, want)
						}
					})
				}
				done.Wait()
			})
		}
	}
}

// slow is a client that handles notifications slowly.
type slow struct{ client }

func (s *slow) Notify(method string, params json.RawMessage) {
	time.Sleep(40 * time.Millisecond)
	s.client.Notify(method, params)
}

// TestMessageAfterAResponseReachesTheRunningCall: on a stream that calls share, a message
// after the response to one belongs to another, even while the client still handles
// messages from before the response.
func TestMessageAfterAResponseReachesTheRunningCall(t *testing.T) {
	testmode.Parallel(t)
	b, _ := ready(t, backends.Options{}, backendtest.Stdio("b", "crossed"))
	ann := &slow{client{name: "ann"}}
	of := caller(&ann.client)
	of.Sink = ann
	for range 5 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { text(t, b, tool("pids", `{}`, of)) })
		}
		both.Wait()
	}
	if got := len(ann.notes()); got != 10 {
		t.Errorf("%d of 10 messages arrived", got)
	}
}

// talk makes calls that send requests to the client, and checks that all messages belong to c.
func talk(t *testing.T, b *backends.Backend, c *client, of *backends.Caller, revision string) {
	if revision != wire.Rev2607 {
		if got, want := text(t, b, tool("ask", `{}`, of)), "accept map[asked:{} from:"+c.name+"]"; got != want {
			t.Errorf("%s: ask answered %q", c.name, got)
		}
	}
	text(t, b, tool("log", `{}`, of))
	r := tool("progress", `{"steps":2}`, of)
	r.Params = jsonscan.Set(r.Params, "_meta", fmt.Appendf(nil, `{"progressToken":%q}`, c.name))
	text(t, b, r)
	for _, n := range c.notes() {
		if strings.HasPrefix(n, "progress") && !strings.Contains(n, `"`+c.name+`"`) {
			t.Errorf("%s got %s", c.name, n)
		}
	}
}

func TestNotificationBetweenCallsReachesTheSessionItIsFor(t *testing.T) {
	b, _ := ready(t, backends.Options{}, backendtest.Stdio("b", "late"))
	ann, between := &client{name: "ann"}, &client{name: "ann between calls"}
	of := caller(ann)
	of.OutOfCall = between
	text(t, b, tool("pids", `{}`, of))
	testkit.Eventually(t, "the notification", func() bool { return len(between.notes()) > 0 })
	if got, want := between.notes()[0], `elicitation/complete {"elicitationId":"1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNotificationsWhileASessionIsDialled: a client's notifications, and its GET stream, reach the connection that is
// being opened meanwhile.
func TestNotificationsWhileASessionIsDialled(t *testing.T) {
	var opened atomic.Int32
	reached, gate, notified, listened := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}, 2)
	raw := &backendtest.Raw{Session: "one", Tools: `{"name":"t"}`, First: func(x *backendtest.Exchange) bool {
		switch {
		case x.Message.Method == wire.Initialized && opened.Add(1) == 2:
			close(reached) // nothing is to be done any more but to be answered
			<-gate
		case x.Message.Method == wire.RootsChanged:
			close(notified)
		case x.Request.Method == http.MethodGet:
			listened <- struct{}{}
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			<-x.Request.Context().Done()
			return true
		}
		return false
	}, Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[{"text":"hi"}]}`) }}
	s, changes := newSet(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	b := s.All()[0]
	waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready })
	<-listened // the connection that all share
	of := &backends.Caller{Session: "s", Capabilities: json.RawMessage(`{}`), Sink: &client{name: "ann"}}
	called := make(chan struct{})
	go func() {
		defer close(called)
		text(t, b, tool("t", `{}`, of))
	}()
	<-reached
	s.Listen("s")
	s.Notify("s", wire.RootsChanged, nil)
	close(gate)
	<-called
	<-notified
	<-listened
}
