package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// asBackend is the environment variable that makes this test binary a stdio backend of the revision in it.
const asBackend = "VMCP_MATRIX_BACKEND"

const (
	modern   = "2026-07-28"
	resource = "matrix://resource"
)

// newServer is a server of the SDK with one revision and a tool for every
// feature. A tool that asks returns input requests: for clients of older revisions
// the SDK converts them into requests to the client.
func newServer(revision string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "matrix", Version: revision}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{revision},
		Logger:                    slog.New(slog.DiscardHandler),
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler:         complete,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true},
			Prompts:   &mcp.PromptCapabilities{},
			Logging:   &mcp.LoggingCapabilities{}, Completions: &mcp.CompletionCapabilities{},
		},
	})
	add(s, "echo", func(_ context.Context, _ *mcp.CallToolRequest, a args) (string, error) { return a.Text, nil })
	add(s, "large", func(_ context.Context, _ *mcp.CallToolRequest, a args) (string, error) {
		return strings.Repeat("x", a.Bytes), nil
	})
	add(s, "progress", reportProgress)
	add(s, "log", logText)
	add(s, "hold", hold)
	add(s, "die", func(context.Context, *mcp.CallToolRequest, args) (string, error) { os.Exit(0); return "", nil })
	add(s, "change", func(_ context.Context, _ *mcp.CallToolRequest, a args) (string, error) {
		add(s, a.Text, func(context.Context, *mcp.CallToolRequest, args) (string, error) { return "", nil })
		return "changed", nil
	})
	add(s, "touch", func(ctx context.Context, _ *mcp.CallToolRequest, _ args) (string, error) {
		return "touched", s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: resource})
	})
	addTalk(s)
	addAsking(s, "elicitation", elicitation, elicited)
	addAsking(s, "sampling", sampling, sampled)
	addAsking(s, "roots", &mcp.ListRootsParams{}, listed)
	s.AddResource(&mcp.Resource{URI: resource, Name: "resource"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: resource, Text: "x"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "prompt", Arguments: []*mcp.PromptArgument{{Name: "a"}}}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	return s
}

// args are the arguments of all tools.
type args struct {
	Text, Started, Ended string
	Bytes                int
}

func add(s *mcp.Server, name string, run func(context.Context, *mcp.CallToolRequest, args) (string, error)) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a args
			if err := json.Unmarshal(req.Params.Arguments, &a); err != nil {
				return nil, err
			}
			text, err := run(ctx, req, a)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
		})
}

// addAsking adds a tool that asks the client one question and returns the answer.
func addAsking(s *mcp.Server, name string, question mcp.InputRequest, read func(mcp.InputResponse) string) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, ok := req.Params.InputResponses["question"]
			if !ok {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"question": question}}, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: read(answer)}}}, nil
		})
}

var elicitation = &mcp.ElicitParams{Message: "who?", RequestedSchema: &jsonschema.Schema{
	Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
}}

var sampling = &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "say"}}}}

func elicited(r mcp.InputResponse) string {
	if r, ok := r.(*mcp.ElicitResult); ok {
		return fmt.Sprint(r.Action, " ", r.Content["name"])
	}
	return fmt.Sprintf("%T", r)
}

func sampled(r mcp.InputResponse) string {
	text, err := json.Marshal(r)
	return fmt.Sprint(string(text), err)
}

func listed(r mcp.InputResponse) string {
	if r, ok := r.(*mcp.ListRootsResult); ok && len(r.Roots) == 1 {
		return r.Roots[0].URI
	}
	return fmt.Sprintf("%T", r)
}

func reportProgress(ctx context.Context, req *mcp.CallToolRequest, _ args) (string, error) {
	for i := range 3 {
		p := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}
		if err := req.Session.NotifyProgress(ctx, p); err != nil {
			return "", err
		}
	}
	return "reported", nil
}

func logText(ctx context.Context, req *mcp.CallToolRequest, a args) (string, error) {
	return "logged", req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Logger: "matrix", Data: a.Text})
}

// hold runs until it is cancelled; files show that it has begun and that it has ended.
func hold(ctx context.Context, _ *mcp.CallToolRequest, a args) (string, error) {
	if err := os.WriteFile(a.Started, nil, 0o600); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", os.WriteFile(a.Ended, nil, 0o600)
}

func complete(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"alpha", "beta"}}}, nil
}

// peer is a revision over a transport, on either side of the proxy.
type peer struct{ revision, transport string }

func (p peer) String() string { return p.revision + " " + p.transport }

// backendConfig starts a backend and returns its configuration and a function that restarts it.
func (p peer) backendConfig(t *testing.T) (b config.Backend, restart func(t *testing.T, c *client)) {
	t.Helper()
	if p.transport == "stdio" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b = config.Backend{Name: "matrix", Command: self, Env: map[string]string{asBackend: p.revision}}
		return b, func(t *testing.T, c *client) { _, _ = c.call(t.Context(), "die", nil) }
	}
	l, err := rig.Listen()
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	stop := p.serve(t, l)
	b = config.Backend{Name: "matrix", URL: "http://" + addr + "/mcp"}
	if p.transport == "sse" {
		b.Transport = "sse"
	}
	return b, func(t *testing.T, _ *client) {
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l, err := rig.ListenAgain(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		stop = p.serve(t, l)
	}
}

// serve serves a new server.
func (p peer) serve(t *testing.T, l net.Listener) (stop func()) {
	t.Helper()
	server := newServer(p.revision)
	get := func(*http.Request) *mcp.Server { return server }
	var h http.Handler = mcp.NewSSEHandler(get, nil)
	if p.transport == "http" {
		h = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: p.revision == modern, PropagateRequestCancellation: true})
	}
	web := &http.Server{Handler: h}
	go web.Serve(l) // ends with Close
	stop = sync.OnceFunc(func() { web.Close() })
	t.Cleanup(stop)
	return stop
}

// awaitFile waits for a file that a backend writes.
func awaitFile(ctx context.Context, path string) error {
	return rig.Poll(ctx, "the file that says so", func() (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	})
}

// waitTime bounds every wait of a test.
const waitTime = time.Minute

func within(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), waitTime)
}

func joined(content []mcp.Content) string {
	var text []string
	for _, c := range content {
		if c, ok := c.(*mcp.TextContent); ok {
			text = append(text, c.Text)
		}
	}
	return strings.Join(text, "\n")
}
