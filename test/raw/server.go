package raw

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Server is an MCP server of either era. The zero value answers initialize, ping and
// empty lists.
type Server struct {
	// Modern makes it a server of 2026-07-28 only, else of revisions with initialize only.
	Modern bool
	// Revision is the revision in the result of initialize. Default 2025-11-25.
	Revision string
	// Capabilities is the object that it declares. Default: tools.
	Capabilities string
	// Handle returns the bytes of the result of a request. A nil Handle and
	// ErrDefault select the default result.
	Handle func(c *Call) (result string, err error)

	mu      sync.Mutex
	streams map[string]*stream // by session, guarded by mu
}

// ErrDefault selects the result of a server without Handle.
var ErrDefault = errors.New("default result")

// Call is one request while it is handled.
type Call struct {
	context.Context
	Method string
	Params json.RawMessage
	Header http.Header // nil on stdio

	stream *stream
	write  func([]byte) error // to the response of this request
}

// Notify sends a notification before the response, on its stream.
func (c *Call) Notify(method, params string) error { return c.write(call("", method, params)) }

// Ask sends a request to the client on the stream of the response and waits for its result.
func (c *Call) Ask(method, params string) (json.RawMessage, error) {
	id, reply := c.stream.expect()
	if err := c.write(call(id, method, params)); err != nil {
		return nil, err
	}
	select {
	case m := <-reply:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-c.Done():
		return nil, c.Err()
	}
}

// stream is the state that the requests of one session share.
type stream struct {
	mu      sync.Mutex
	next    int                           // guarded by mu
	replies map[string]chan Message       // by request id, guarded by mu
	cancels map[string]context.CancelFunc // of running requests, by id, guarded by mu
}

func newStream() *stream {
	return &stream{replies: map[string]chan Message{}, cancels: map[string]context.CancelFunc{}}
}

func (s *stream) expect() (string, <-chan Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := fmt.Sprintf(`"ask-%d"`, s.next)
	s.replies[id] = make(chan Message, 1)
	return id, s.replies[id]
}

// receive handles a message that is not a request: a response or a notification.
func (s *stream) receive(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply := s.replies[string(m.ID)]; reply != nil {
		delete(s.replies, string(m.ID))
		reply <- m
	}
	var p struct{ RequestID json.RawMessage }
	if m.Method == "notifications/cancelled" && json.Unmarshal(m.Params, &p) == nil {
		if cancel := s.cancels[string(p.RequestID)]; cancel != nil {
			cancel()
		}
	}
}

// running registers a request so that it can be cancelled.
func (s *stream) running(ctx context.Context, id json.RawMessage) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels[string(id)] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, string(id))
	}
}

// answer is the response to a request.
func (s *Server) answer(c *Call, id json.RawMessage) []byte {
	result, err := "", ErrDefault
	if s.Handle != nil {
		result, err = s.Handle(c)
	}
	if errors.Is(err, ErrDefault) {
		result, err = s.standard(c)
	}
	var rpc *Error
	if err != nil && !errors.As(err, &rpc) {
		rpc = &Error{Code: -32603, Message: err.Error()}
	}
	return answer(id, result, rpc)
}

func (s *Server) standard(c *Call) (string, error) {
	caps := s.Capabilities
	if caps == "" {
		caps = `{"tools":{"listChanged":true}}`
	}
	revision := s.Revision
	if revision == "" {
		revision = "2025-11-25"
	}
	switch {
	case c.Method == "initialize" && !s.Modern:
		return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"raw","version":"1"}}`, revision, caps), nil
	case c.Method == "server/discover" && s.Modern:
		return fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":%s,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}}}`, Modern, caps), nil
	case c.Method == "ping" && !s.Modern:
		return `{}`, nil
	}
	lists := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}
	if key := lists[c.Method]; key != "" {
		return s.List(key), nil
	}
	return "", &Error{Code: -32601, Message: "no method " + c.Method}
}

// List is the result of a list method in the form of this server's revision.
func (s *Server) List(key string, definitions ...string) string {
	text := fmt.Sprintf(`{"%s":[`, key)
	for i, d := range definitions {
		if i > 0 {
			text += ","
		}
		text += d
	}
	text += "]"
	if s.Modern {
		text += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	return text + "}"
}

// ServeStdio serves one message per line until in ends, then waits for running requests.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) error {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		shared  = newStream()
	)
	ctx, cancel := context.WithCancel(context.Background())
	defer running.Wait()
	defer cancel()
	write := func(line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := out.Write(append(line, '\n'))
		return err
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		if m.Method == "" || m.ID == nil {
			shared.receive(m)
			continue
		}
		ctx, done := shared.running(ctx, m.ID)
		c := &Call{Context: ctx, Method: m.Method, Params: m.Params, stream: shared, write: write}
		running.Go(func() {
			defer done()
			_ = write(s.answer(c, m.ID))
		})
	}
}

// ServeHTTP implements Streamable HTTP without the GET stream: a response is JSON, or an event stream when
// a message was sent before it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		s.forget(r.Header.Get("Mcp-Session-Id"))
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	shared, ok := s.session(w, r, m.Method)
	if !ok {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	if m.Method == "" || m.ID == nil {
		shared.receive(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	ctx, done := shared.running(r.Context(), m.ID)
	defer done()
	a := &httpAnswer{w: w}
	c := &Call{Context: ctx, Method: m.Method, Params: m.Params, Header: r.Header, stream: shared, write: a.event}
	a.last(s.answer(c, m.ID))
}

// session finds the session of a request, or begins one at initialize.
func (s *Server) session(w http.ResponseWriter, r *http.Request, method string) (*stream, bool) {
	if s.Modern || method == "server/discover" {
		return newStream(), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("Mcp-Session-Id")
	if method == "initialize" {
		if s.streams == nil {
			s.streams = map[string]*stream{}
		}
		id = rand.Text()
		s.streams[id] = newStream()
		w.Header().Set("Mcp-Session-Id", id)
	}
	shared, ok := s.streams[id]
	return shared, ok
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

// Forget ends every session, as a restart does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.streams)
}

// httpAnswer writes one response, as JSON or as events.
type httpAnswer struct {
	w  http.ResponseWriter
	mu sync.Mutex

	streaming bool // guarded by mu
}

func (a *httpAnswer) event(data []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.streaming {
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.streaming = true
	}
	_, err := fmt.Fprintf(a.w, "event: message\ndata: %s\n\n", data)
	return errors.Join(err, http.NewResponseController(a.w).Flush())
}

func (a *httpAnswer) last(data []byte) {
	a.mu.Lock()
	streaming := a.streaming
	a.mu.Unlock()
	if streaming {
		_ = a.event(data)
		return
	}
	a.w.Header().Set("Content-Type", "application/json")
	_, _ = a.w.Write(data)
}
