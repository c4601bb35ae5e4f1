package matrix

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/vmcp-dev/vmcp/proxy"
)

// client is a client of the SDK that records the messages that it gets.
type client struct {
	*mcp.ClientSession
	revision string
	// shared calls in the process that lists come from, and the subscriptions of
	// stateless clients.
	shared *client

	progress chan float64
	logs     chan string
	changed  chan struct{}
	updated  chan string
}

// connect returns a client with all capabilities.
func (p peer) connect(t *testing.T, to mcp.Transport) *client {
	t.Helper()
	c := &client{
		progress: make(chan float64, 100), logs: make(chan string, 100),
		changed: make(chan struct{}, 100), updated: make(chan string, 100),
	}
	return c.connectAs(t, p, to, c.options(p))
}

// connectAs opens the session of a client, with log messages wanted.
func (c *client) connectAs(t *testing.T, p peer, to mcp.Transport, o *mcp.ClientOptions) *client {
	t.Helper()
	c.revision = p.revision
	impl := mcp.NewClient(&mcp.Implementation{Name: "matrix", Version: "1"}, o)
	impl.AddRoots(&mcp.Root{URI: rootOf(p), Name: "root"})
	ctx, cancel := within(t)
	defer cancel()
	// An SSE stream ends with the context that it was opened with.
	session, err := impl.Connect(t.Context(), to, &mcp.ClientSessionOptions{ProtocolVersion: p.revision})
	if err != nil {
		t.Fatalf("client %v: %v", p, err)
	}
	t.Cleanup(func() { session.Close() })
	c.ClientSession, c.shared = session, c
	if p.revision != modern {
		if err := session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatalf("client %v: %v", p, err)
		}
	}
	return c
}

// connectPlain returns a client without capabilities and log messages.
func connectPlain(t *testing.T, vmcp *proxy.Proxy) *client {
	t.Helper()
	p := peer{"2025-11-25", "http"}
	impl := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := impl.Connect(t.Context(), p.transportTo(t, vmcp), &mcp.ClientSessionOptions{ProtocolVersion: p.revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &client{ClientSession: session, revision: p.revision}
}

func rootOf(p peer) string { return "file:///" + p.revision + "/" + p.transport }

func (c *client) options(p peer) *mcp.ClientOptions {
	o := &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "said by " + p.String()}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress <- r.Params.Progress },
		LoggingMessageHandler:       func(_ context.Context, r *mcp.LoggingMessageRequest) { c.logs <- fmt.Sprint(r.Params.Data) },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- struct{}{} },
		ResourceUpdatedHandler:      func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updated <- r.Params.URI },
	}
	if p.revision >= "2025-06-18" {
		o.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": p.String()}}, nil
		}
	}
	return o
}

// transportTo connects a client's side of a transport to the proxy.
func (p peer) transportTo(t *testing.T, vmcp *proxy.Proxy) mcp.Transport {
	t.Helper()
	if p.transport == "http" {
		server := httptest.NewServer(vmcp.Handler())
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		return &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"}
	}
	fromClient, toProxy := io.Pipe()
	fromProxy, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- vmcp.ServeStdio(context.Background(), fromClient, toClient) }()
	t.Cleanup(func() {
		toProxy.Close()
		<-served
	})
	return &mcp.IOTransport{Reader: fromProxy, Writer: toProxy}
}

// call calls a tool and returns its text.
func (c *client) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	p := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if c.revision == modern {
		p.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "info"}
	}
	return c.send(ctx, p)
}

func (c *client) send(ctx context.Context, p *mcp.CallToolParams) (string, error) {
	res, err := c.CallTool(ctx, p)
	if err != nil {
		return "", err
	}
	text := joined(res.Content)
	if res.IsError {
		return "", fmt.Errorf("%s: tool error: %s", p.Name, text)
	}
	return text, nil
}
