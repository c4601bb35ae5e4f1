package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// client is one connection of the load client. It implements only the part of HTTP/1.1 that prepared
// requests need, so that it uses little CPU time beside the processes that are
// measured.
type client struct {
	conn    net.Conn
	r       *bufio.Reader
	target  target
	session string
	id      int64
	out     []byte
	body    []byte // of the last response
}

// target is one endpoint with the revision of MCP to use there.
type target struct {
	url      string
	revision string
	prefix   string // of tool names
}

// firstID has as many digits as all later ids, so that a prepared request has a constant length.
const firstID = 100_000_000

// dial connects, and begins a session on a revision that has sessions.
func dial(t target) (*client, error) {
	u, err := url.Parse(t.url)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), target: t, id: firstID}
	if t.revision == legacy {
		err = c.begin()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: initialize: %w", t.url, err)
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

// begin begins a session on this connection; an earlier one is not ended.
func (c *client) begin() error {
	c.session = ""
	params := `{"protocolVersion":"` + legacy + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`
	if err := c.do(c.prepare("initialize", params)); err != nil {
		return err
	}
	if c.session == "" {
		return errors.New("no session")
	}
	return c.do(request{head: c.head("", "", 54), tail: `"method":"notifications/initialized"}`, note: true})
}

// request is a prepared request: everything but the id.
type request struct {
	head string // of HTTP and of the frame
	tail string
	note bool // a notification, which has no id and no response
	min  int  // bytes of a response, at least
}

const frameHead = `{"jsonrpc":"2.0",`

// prepare builds a request for this client's target and session.
func (c *client) prepare(method, params string) request {
	if c.target.revision == modern {
		params = withMeta(params)
	}
	tail := `,"method":"` + method + `","params":` + params + `}`
	length := len(frameHead) + len(`"id":`) + len(strconv.Itoa(firstID)) + len(tail)
	_, name, _ := strings.Cut(params, `"name":"`)
	name, _, _ = strings.Cut(name, `"`)
	return request{head: c.head(method, name, length), tail: tail, min: 40}
}

// call prepares a call of a tool whose response has at least size bytes.
func (c *client) call(tool string, arguments string, size int) request {
	r := c.prepare("tools/call", `{"name":"`+c.target.prefix+tool+`","arguments":`+arguments+`}`)
	r.min = size
	return r
}

func withMeta(params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modern + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}`
	if params == "{}" {
		return "{" + meta
	}
	return params[:len(params)-1] + "," + meta
}

func (c *client) head(method, name string, length int) string {
	u, _ := url.Parse(c.target.url) // dial parsed it
	h := "POST " + u.Path + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: " + c.target.revision + "\r\n"
	if c.session != "" {
		h += "Mcp-Session-Id: " + c.session + "\r\n"
	}
	if c.target.revision == modern {
		h += "Mcp-Method: " + method + "\r\n"
		if name != "" && method == "tools/call" {
			h += "Mcp-Name: " + name + "\r\n"
		}
	}
	return h + "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n" + frameHead
}

// do sends a request and reads the response into c.body. A response other than the result of this
// request is an error.
func (c *client) do(r request) error {
	c.id++
	c.out = append(c.out[:0], r.head...)
	if !r.note {
		c.out = append(c.out, `"id":`...)
		c.out = strconv.AppendInt(c.out, c.id, 10)
	}
	if _, err := c.conn.Write(append(c.out, r.tail...)); err != nil {
		return err
	}
	status, err := c.read()
	switch {
	case err != nil:
		return fmt.Errorf("read the response: %w", err)
	case r.note && status == 202:
		return nil
	case status != 200:
		return fmt.Errorf("HTTP %d: %.200s", status, c.body)
	}
	return c.verify(r)
}

func (c *client) verify(r request) error {
	var id [24]byte
	start := c.body[:min(len(c.body), 120)]
	switch {
	case !bytes.Contains(start, strconv.AppendInt(append(id[:0], `"id":`...), c.id, 10)) || !bytes.Contains(start, []byte(`"result":`)):
		return fmt.Errorf("not the result of %d: %.200s", c.id, c.body)
	case len(c.body) < r.min:
		return fmt.Errorf("the response has %d bytes, want %d: %.200s", len(c.body), r.min, c.body)
	case bytes.Contains(c.body[max(0, len(c.body)-20):], []byte(`"isError":true`)):
		return fmt.Errorf("the tool failed: %.300s", c.body)
	}
	return nil
}

// read reads one response into c.body.
func (c *client) read() (status int, err error) {
	line, err := c.line()
	if err != nil || len(line) < 12 {
		return 0, fmt.Errorf("status line %q: %w", line, err)
	}
	status, _ = strconv.Atoi(string(line[9:12]))
	length, chunked := 0, false
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		key, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case equalFold(key, "content-length"):
			length, _ = strconv.Atoi(string(value))
		case equalFold(key, "transfer-encoding"):
			chunked = true
		case equalFold(key, "mcp-session-id"):
			c.session = string(value)
		}
	}
	c.body = c.body[:0]
	if chunked {
		return status, c.chunks()
	}
	return status, c.take(length)
}

func equalFold(b []byte, s string) bool { return len(b) == len(s) && strings.EqualFold(string(b), s) }

// line reads one line without its end.
func (c *client) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// take appends the next n bytes to the body.
func (c *client) take(n int) error {
	from := len(c.body)
	if need := from + n; need > cap(c.body) {
		c.body = append(make([]byte, 0, max(need, 2*cap(c.body))), c.body...)
	}
	c.body = c.body[:from+n]
	_, err := io.ReadFull(c.r, c.body[from:])
	return err
}

func (c *client) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return fmt.Errorf("chunk size %q", line)
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.line(); err != nil || n == 0 {
			return err
		}
	}
}
