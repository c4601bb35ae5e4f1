// Package client is an MCP client for a person at a shell: it lists and calls tools,
// answers elicitation requests, and shows results, notifications and traces as text.
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

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// ErrUnauthorized is the status 401 of an endpoint.
var ErrUnauthorized = errors.New("authentication required")

// Options say where an endpoint is, and with which credentials it is used.
type Options struct {
	URL     string
	Version string // of this program
	Token   string // the bearer token; "" for none
	// Transport sends the requests. Default http.DefaultTransport.
	Transport http.RoundTripper
	// Status returns the origins of the tools. Default: what the endpoint answers at /readyz.
	Status func(context.Context) (status.Details, error)
	// Asker answers elicitation requests. Without one the client does not declare that it supports them.
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

// Dial opens a session.
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
func (e *Endpoint) Close() { _ = e.session.Close() } // all results were received before

// Status returns the origins of the tools; an error from a server other than vmcp.
func (e *Endpoint) Status(ctx context.Context) (status.Details, error) { return e.status(ctx) }

// Tools returns all tools of the endpoint, on all pages of its list.
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

// Nearest returns the tool whose name is most like one that does not exist; "" if none is
// like it.
func (e *Endpoint) Nearest(ctx context.Context, name string) string {
	tools, err := e.Tools(ctx)
	if err != nil {
		return ""
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	if near := display.Nearest(name, names); near != name {
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

// Result is the result of a call.
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
		params.Meta[status.Key] = true
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

// RoundTrip turns status 401 into ErrUnauthorized, and lets the SDK see a JSON-RPC error in other
// refusals.
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

// refusalSize bounds what is read of the body of a refusal, in bytes.
const refusalSize = 64 << 10

// notServed turns a 404 to a request without a session into an error with the endpoint's message: no server
// is at the path. A 404 to a request with a session says that the session has ended; the SDK handles that.
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

// answered gives a refusal with a JSON-RPC error in it the status 200, so that the SDK reads the error: for
// other statuses it reports only that the request was rejected. A body without such an error is left as it is.
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

// fetchStatus asks vmcp at /readyz for the origins of its tools. Another server has
// no such page, and the error says so.
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
