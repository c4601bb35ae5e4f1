// Package client asks an MCP endpoint for a person at a shell: it lists and calls tools,
// answers what a call asks, and shows results, notifications and traces as text.
//
//	e, err := client.Dial(ctx, client.Options{URL: "http://127.0.0.1:4483/mcp"})
//	...
//	defer e.Close()
//	result, err := e.Call(ctx, client.Call{Name: "search", Arguments: args})
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/proxy/trace"
)

// ErrUnauthorized is an endpoint's refusal of who asks.
var ErrUnauthorized = errors.New("authentication required")

// Options say where an endpoint is and who asks.
type Options struct {
	URL     string
	Version string // of this program
	Token   string // the bearer token; "" for none
	// Transport sends the requests. Default http.DefaultTransport.
	Transport http.RoundTripper
	// Status says where the tools come from. Default: what the endpoint answers at /readyz.
	Status func(context.Context) (status.Details, error)
	// Asker answers what calls ask. A client without one cannot be asked.
	Asker *Asker
	// Notify is called for every notification before the result that follows it is read. It may be nil.
	Notify func(method string, params json.RawMessage)
}

// Endpoint is a session with an endpoint.
type Endpoint struct {
	session  *mcp.ClientSession
	recorder *recorder
	status   func(context.Context) (status.Details, error)
}

// Dial begins a session.
func Dial(ctx context.Context, o Options) (*Endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	base := o.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	e := &Endpoint{recorder: &recorder{base: bearer{base, o.Token}, notify: o.Notify}, status: o.Status}
	if e.status == nil {
		e.status = func(ctx context.Context) (status.Details, error) { return e.fetchStatus(ctx, u) }
	}
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if o.Asker != nil {
		o.Asker.recorder = e.recorder
		options = o.Asker.clientOptions()
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "vmcp", Version: cmp.Or(o.Version, "devel")}, options)
	e.session, err = c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: o.URL, HTTPClient: &http.Client{Transport: e.recorder}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.URL, err)
	}
	return e, nil
}

// Close ends the session.
func (e *Endpoint) Close() { _ = e.session.Close() } // the results are in

// Status is where the tools come from; an error from a server that is no vmcp.
func (e *Endpoint) Status(ctx context.Context) (status.Details, error) { return e.status(ctx) }

// Tools returns all tools that clients see.
func (e *Endpoint) Tools(ctx context.Context) ([]*mcp.Tool, error) {
	var tools []*mcp.Tool
	for tool, err := range e.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// Nearest is the name of the tool that may be meant by one that does not exist; "" if there
// is none.
func (e *Endpoint) Nearest(ctx context.Context, name string) string {
	tools, err := e.Tools(ctx)
	if err != nil {
		return ""
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	if near := spell.Nearest(name, names); near != name {
		return near
	}
	return ""
}

// Call is one call of a tool.
type Call struct {
	Name      string
	Arguments json.RawMessage
	Progress  bool // ask for progress and log messages
	Trace     bool // ask for a trace of a scripted tool
}

// Result is what came of a call.
type Result struct {
	*mcp.CallToolResult
	Raw json.RawMessage // as it was sent
}

// Call calls a tool.
func (e *Endpoint) Call(ctx context.Context, c Call) (*Result, error) {
	e.recorder.forget()
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: c.Name, Arguments: c.Arguments}
	if c.Progress {
		params.SetProgressToken("vmcp")
		params.Meta[mcp.MetaKeyLogLevel] = "info"
	}
	if c.Trace {
		params.Meta[trace.Key] = true
	}
	result, err := e.session.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	return &Result{result, e.recorder.result()}, nil
}

// bearer sends a token with every request, if there is one.
type bearer struct {
	base  http.RoundTripper
	token string
}

// RoundTrip turns a refusal of who asks into ErrUnauthorized, and one of a request that was
// read into the answer of that request.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	resp, err := b.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		resp.Body.Close()
		return nil, ErrUnauthorized
	case http.StatusNotFound:
		return notServed(r, resp)
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return answered(resp)
	}
	return resp, nil
}

// refusalSize is the most bytes that are read of a refusal.
const refusalSize = 64 << 10

// notServed turns the refusal of a path into an error that says what the endpoint says of it. Another one is
// for who knows the session.
func notServed(r *http.Request, resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, refusalSize))
	if err != nil {
		return nil, err
	}
	if m, err := wire.Parse(body); err == nil && m.Error != nil && r.Header.Get(wire.HeaderSession) == "" {
		return nil, errors.New(wire.ParseErrorObject(m.Error).Error())
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// answered lets the SDK see the JSON-RPC error in a refusal: of such a status it would only
// tell that the request was rejected. What holds no such error stays as it is.
func answered(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, refusalSize))
	if err != nil {
		return nil, err
	}
	if m, err := wire.Parse(body); err == nil && m.Error != nil && m.ID != nil {
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// fetchStatus asks a running vmcp where its tools come from. Another server has
// no such page; then there is no origin to show.
func (e *Endpoint) fetchStatus(ctx context.Context, mcpURL *url.URL) (status.Details, error) {
	page := *mcpURL
	page.Path, page.RawQuery = "/readyz", "tools"
	var s status.Details
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page.String(), nil)
	if err != nil {
		return s, err
	}
	resp, err := e.recorder.base.RoundTrip(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
