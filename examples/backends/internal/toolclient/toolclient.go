// Package toolclient calls the tools of an example backend in its tests.
package toolclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Client is connected to one server until its test ends.
type Client struct {
	t *testing.T
	*mcp.ClientSession
}

// Args are the arguments of a call.
type Args = map[string]any

// Start connects to a server in this process.
func Start(t *testing.T, s *mcp.Server) *Client {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	server, err := s.Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Connect(t, near)
	t.Cleanup(func() { c.Close(); server.Wait() })
	return c
}

// Connect connects over a transport.
func Connect(t *testing.T, transport mcp.Transport) *Client {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{t, s}
}

// OK calls a tool that has to succeed, and decodes its result into out.
func (c *Client) OK(tool string, args Args, out any) {
	c.t.Helper()
	r := c.call(tool, args)
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		c.t.Fatalf("%s(%v): %s", tool, args, text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		c.t.Fatalf("%s(%v): %s: %v", tool, args, text, err)
	}
}

// Refused calls a tool that has to refuse with a code, and returns its message.
func (c *Client) Refused(tool string, args Args, code string) string {
	c.t.Helper()
	r := c.call(tool, args)
	text := r.Content[0].(*mcp.TextContent).Text
	if !r.IsError || !strings.HasPrefix(text, code+": ") {
		c.t.Errorf("%s(%v): error %t, %.300s; want %s", tool, args, r.IsError, text, code)
	}
	return text
}

func (c *Client) call(tool string, args Args) *mcp.CallToolResult {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s(%v): %v", tool, args, err)
	}
	return r
}
