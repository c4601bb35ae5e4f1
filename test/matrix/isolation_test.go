package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// crowd is the number of concurrent clients.
func crowd() int { return testmode.Count(8, 100) }

// callsEach is the number of concurrent calls of each of them.
const callsEach = 4

// addTalk adds a tool that logs, asks its caller, logs again and returns the answer;
// all messages have the text of the caller's argument.
func addTalk(s *mcp.Server) {
	s.AddTool(&mcp.Tool{Name: "talk", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := string(req.Params.Arguments)
			if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: text}); err != nil {
				return nil, err
			}
			answer, ok := req.Params.InputResponses["question"]
			if !ok {
				ask := *elicitation
				ask.Message = text
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"question": &ask}}, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text + " " + elicited(answer)}}}, nil
		})
}

// TestClientsSeeOnlyTheirOwn makes several concurrent calls of each of a crowd of clients of both
// eras: every message to a client must have its name.
func TestClientsSeeOnlyTheirOwn(t *testing.T) {
	for _, b := range []peer{{"2025-11-25", "http"}, {modern, "http"}, {modern, "stdio"}} {
		t.Run(b.String(), func(t *testing.T) {
			cfg, _ := b.backendConfig(t)
			cfg.MaxConnections = crowd() * callsEach // every call may need a separate connection
			runCrowd(t, cfg)
		})
	}
	// One process for all clients: calls that can send requests to the client are serialized on it.
	t.Run("2025-11-25 stdio, shared", func(t *testing.T) {
		cfg, _ := peer{"2025-11-25", "stdio"}.backendConfig(t)
		cfg.Sessions = "shared"
		runCrowd(t, cfg)
	})
}

func runCrowd(t *testing.T, b config.Backend) {
	b.Timeout = config.Duration(10 * time.Minute) // all wait for one processor, some for each other
	vmcp := newProxy(t, b)
	members := make([]*member, crowd())
	for i := range members {
		p := peer{"2025-11-25", "http"}
		if i%2 == 1 {
			p.revision = modern
		}
		members[i] = newMember(fmt.Sprintf("client-%d.", i))
		members[i].client = new(client).connectAs(t, p, p.transportTo(t, vmcp), members[i].options())
	}
	if err := checkRestart(t, members[0].client); err != nil { // it has to start, once
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, m := range members {
		for call := range callsEach {
			all.Go(func() { m.talk(t, call) })
		}
	}
	all.Wait()
	ctx, cancel := within(t)
	defer cancel()
	for _, m := range members {
		m.check(ctx, t)
	}
}

// member is one client of a crowd.
type member struct {
	*client
	name string
	logs chan string

	mu      sync.Mutex
	foreign []string // messages for other members, guarded by mu
}

func newMember(name string) *member {
	return &member{name: name, logs: make(chan string, 1000)}
}

// mine notes messages without the member's name.
func (m *member) mine(what, text string) {
	if !strings.Contains(text, m.name) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.foreign = append(m.foreign, what+" "+text)
	}
}

func (m *member) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			m.mine("elicitation", r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "answer of " + m.name}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			m.mine("log", fmt.Sprint(r.Params.Data))
			m.logs <- fmt.Sprint(r.Params.Data)
		},
	}
}

func (m *member) talk(t *testing.T, call int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	got, err := m.call(ctx, "talk", map[string]any{"text": fmt.Sprint(m.name, call)})
	want := fmt.Sprintf(`{"text":"%s%d"} accept answer of %s`, m.name, call, m.name)
	if got != want || err != nil {
		t.Errorf("talk: %q, %v, want %q", got, err, want)
	}
}

// check waits for the two messages of each call and reports others.
func (m *member) check(ctx context.Context, t *testing.T) {
	for range 2 * callsEach {
		if _, err := next(ctx, m.logs); err != nil {
			t.Errorf("%s: log messages missing: %v", m.name, err)
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.foreign) > 0 {
		t.Errorf("%s: got messages of other clients: %v", m.name, m.foreign)
	}
}
