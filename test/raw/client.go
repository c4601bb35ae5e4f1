package raw

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Client is a client of a Streamable HTTP endpoint.
type Client struct {
	URL      string
	Revision string // Modern, or a revision with initialize
	// Capabilities is the object that it declares. Default: none.
	Capabilities string
	// Meta is added to the _meta of its requests on 2026-07-28, with a comma before each member.
	Meta string
	// Notified is called for every notification on the stream of a response, in order.
	Notified func(m Message)
	// Asked returns the result of a request of the server.
	Asked func(m Message) string
	// Header is added to every request.
	Header http.Header
	// HTTP sends its requests. Default: http.DefaultClient.
	HTTP *http.Client

	session string
	mu      sync.Mutex
	id      int // guarded by mu
}

// Connect initializes a session, or does nothing on 2026-07-28.
func (c *Client) Connect(ctx context.Context) error {
	if c.Revision == Modern {
		return nil
	}
	_, err := c.Call(ctx, "initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"raw","version":"1"}}`, c.Revision, c.capabilities()))
	if err != nil {
		return err
	}
	return c.Notify(ctx, "notifications/initialized", "{}")
}

func (c *Client) capabilities() string {
	if c.Capabilities == "" {
		return "{}"
	}
	return c.Capabilities
}

// Session is the id of its session.
func (c *Client) Session() string { return c.session }

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method, params string) error {
	return c.post(ctx, call("", method, params))
}

func (c *Client) post(ctx context.Context, body []byte) error {
	res, err := c.send(ctx, "", "", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST %s: %s, want 202", body, res.Status)
	}
	return nil
}

// Call returns the bytes of the result of a request. On 2026-07-28 params gets the
// required `_meta`; it must be an object without one.
func (c *Client) Call(ctx context.Context, method, params string) (json.RawMessage, error) {
	c.mu.Lock()
	c.id++
	id := fmt.Sprint(c.id)
	c.mu.Unlock()
	return c.CallAs(ctx, id, method, params)
}

// CallAs is Call with a JSON-RPC id of the caller's choice.
func (c *Client) CallAs(ctx context.Context, id, method, params string) (json.RawMessage, error) {
	if c.Revision == Modern {
		params = c.withMeta(params)
	}
	res, err := c.send(ctx, method, params, call(id, method, params))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if s := res.Header.Get("Mcp-Session-Id"); method == "initialize" {
		c.session = s
	}
	m, err := c.answer(ctx, res, id)
	if err != nil {
		return nil, fmt.Errorf("%s: HTTP %s: %w", method, res.Status, err)
	}
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

func (c *Client) withMeta(params string) string {
	meta := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}%s}`, Modern, c.capabilities(), c.Meta)
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(params), "{"))
	if rest == "}" || rest == "" {
		return meta + "}"
	}
	return meta + "," + rest
}

func (c *Client) send(ctx context.Context, method, params string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.Header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method != "initialize" {
		req.Header.Set("Mcp-Protocol-Version", c.Revision)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.Revision == Modern {
		setModernHeaders(req.Header, method, params)
	}
	return cmp.Or(c.HTTP, http.DefaultClient).Do(req)
}

func setModernHeaders(h http.Header, method, params string) {
	h.Set("Mcp-Method", method)
	var p struct{ Name, URI string }
	if json.Unmarshal([]byte(params), &p) == nil && p.Name+p.URI != "" {
		h.Set("Mcp-Name", p.Name+p.URI)
	}
}

// answer reads the response to id, from JSON or an event stream.
func (c *Client) answer(ctx context.Context, res *http.Response, id string) (Message, error) {
	var m Message
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			err = fmt.Errorf("%w: %.200s", err, body)
		}
		return m, err
	}
	events := bufio.NewReader(res.Body)
	for {
		m, err := readEvent(events)
		switch {
		case err != nil:
			return m, err
		case m.Method == "" && string(m.ID) == id:
			return m, nil
		case m.ID == nil:
			if c.Notified != nil {
				c.Notified(m)
			}
		case c.Asked != nil:
			if err := c.post(ctx, answer(m.ID, c.Asked(m), nil)); err != nil {
				return m, err
			}
		}
	}
}

// readEvent reads the next event that has data.
func readEvent(r *bufio.Reader) (Message, error) {
	var m Message
	var data []byte
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return m, fmt.Errorf("the stream ended without a response: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch text, ok := bytes.CutPrefix(line, []byte("data:")); {
		case ok:
			data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
		case len(line) == 0 && len(data) > 0:
			return m, json.Unmarshal(data, &m)
		}
	}
}
