package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"syscall"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// call is a running request of the client.
type call struct {
	ctx      context.Context
	cancel   context.CancelFunc
	id       json.RawMessage // nil of a batch
	method   string
	params   json.RawMessage
	revision string // of a request with a revision in its _meta; else ""
	frame    []byte
	large    func() // returns the token of a large response; may be nil
	listen   *listening
}

// release returns c's token of a large response, if it has one.
func (c *call) release() {
	if c.large != nil {
		c.large()
		c.large = nil
	}
}

func (c *call) modern() bool { return c.revision != "" }

// request starts a request on a new goroutine.
func (b *bridge) request(m *wire.Message, frame []byte) {
	c := &call{id: m.ID, method: m.Method, params: m.Params, frame: frame}
	c.revision = jsonscan.GetString(jsonscan.Get(m.Params, "_meta"), wire.MetaProtocolVersion)
	switch {
	case c.revision != "":
	case m.Method == wire.Discover:
		c.revision = wire.Rev2607 // the endpoint reports what is missing
	case b.current() == nil && m.Method == wire.Ping:
		b.send(wire.Result(m.ID, json.RawMessage("{}")))
		return
	case b.current() == nil:
		b.send(wire.Failure(m.ID, wire.Invalid("%s before initialize", m.Method)))
		return
	}
	b.start(c)
}

func (b *bridge) start(c *call) {
	c.ctx, c.cancel = context.WithCancel(b.ctx)
	if err := b.begin(c); err != nil {
		c.cancel()
		b.send(wire.Failure(c.id, err))
		return
	}
	b.work.Go(func() {
		defer c.cancel()
		defer b.ended(c)
		defer c.release()
		b.run(c)
	})
}

func (b *bridge) begin(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := c.key()
	if _, taken := b.running[key]; taken {
		return wire.Invalid("id %s is in use", c.id)
	}
	if len(b.running) == maxRunning || b.held+len(c.frame) > maxHeld {
		return wire.Errorf(wire.Busy, "too many concurrent requests: %d, with %d bytes", len(b.running), b.held)
	}
	b.running[key] = c
	b.held += len(c.frame)
	return nil
}

// key returns the key of c in running: its id, or for a batch a unique text.
func (c *call) key() string {
	if c.id == nil {
		return fmt.Sprintf("%p", c)
	}
	return string(c.id)
}

func (b *bridge) ended(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, c.key())
	b.held -= len(c.frame)
	b.noteIdle()
}

// run posts a request and writes its response, unless it was cancelled.
func (b *bridge) run(c *call) {
	answer, err := b.exchange(c)
	switch {
	case c.ctx.Err() != nil:
	case err != nil:
		b.fail(c.id, err)
	case answer != nil:
		b.send(answer)
	}
}

// exchange posts a request, and retries it once in a new session when the endpoint has forgotten
// the session: it was not executed then. The response to a batch of notifications is nil.
func (b *bridge) exchange(c *call) ([]byte, error) {
	switch {
	case c.modern() && c.method == wire.Listen:
		return b.listen(c)
	case c.modern():
		return b.modern(c)
	}
	for again := false; ; again = true {
		s := b.current()
		resp, err := s.at.Post(c.ctx, c.method, c.frame, s.at.Header())
		if err != nil {
			return nil, err
		}
		if s.lost(resp) && !again {
			endpoint.Discard(resp.Body)
			if err := b.renew(c.ctx, s); err != nil {
				return nil, err
			}
			continue
		}
		answer, err := b.answer(c, s.at, resp, s)
		if err == nil {
			b.note(c)
		}
		return answer, err
	}
}

// once posts a request of 2026-07-28.
func (b *bridge) once(c *call) ([]byte, error) {
	at := b.endpoint()
	resp, err := at.Post(c.ctx, c.method, c.frame, b.header(c, at.Header()))
	if err != nil {
		return nil, err
	}
	return b.answer(c, at, resp, nil)
}

// header returns the headers of a request of 2026-07-28, which repeat parts of its body.
func (b *bridge) header(c *call, base http.Header) http.Header {
	h := maps.Clone(base)
	h[wire.HeaderVersion] = []string{c.revision}
	h[wire.HeaderMethod] = []string{c.method}
	if name, ok := wire.MethodOf(c.method).NameIn(c.params); ok {
		h[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	}
	if c.method == wire.ToolsCall {
		b.schemas.addTo(h, c.params)
	}
	return h
}

// answer reads the response to c, and forwards the messages before it. s is the session of a stream
// that can be resumed; it may be nil.
func (b *bridge) answer(c *call, at *endpoint.Endpoint, resp *http.Response, s *session) ([]byte, error) {
	switch {
	case resp.StatusCode == http.StatusAccepted && c.id == nil:
		endpoint.Discard(resp.Body)
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return b.refused(c, resp)
	}
	switch endpoint.MediaType(resp) {
	case endpoint.JSON:
		defer resp.Body.Close()
		frame, release, err := b.readAll(c.ctx, resp.Body, nil)
		c.large = release
		if err != nil {
			return nil, cutOff(err)
		}
		return c.own(frame)
	case endpoint.Events:
		return b.stream(c, at, resp, s)
	}
	endpoint.Discard(resp.Body)
	return nil, fmt.Errorf("the response has content type %q, want %s or %s", clipped(resp.Header.Get("Content-Type")), endpoint.JSON, endpoint.Events)
}

func clipped(s string) string { return s[:min(len(s), 100)] }

// own returns the frame if it is the response to c.
func (c *call) own(frame []byte) ([]byte, error) {
	if c.id == nil {
		return frame, nil
	}
	m, err := wire.Skim(frame)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the response is not a JSON-RPC message: %w", err)
	case !m.IsResponse():
		return nil, errors.New("the response has neither a result nor an error")
	case m.ID == nil && m.Error != nil:
		return wire.Failure(c.id, wire.ParseErrorObject(m.Error)), nil
	case !bytes.Equal(m.ID, c.id):
		return nil, fmt.Errorf("the response is to another request, %s", clipped(string(m.ID)))
	}
	return frame, nil
}

// refused returns the JSON-RPC error in a response that is not 200, if there is one, else a *StatusError.
func (b *bridge) refused(c *call, resp *http.Response) ([]byte, error) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, smallFrame))
	resp.Body.Close()
	if m, err := wire.Skim(body); err == nil && m.Error != nil && resp.StatusCode != http.StatusUnauthorized {
		return wire.Failure(c.id, wire.ParseErrorObject(m.Error)), nil
	}
	return nil, &endpoint.StatusError{Code: resp.StatusCode}
}

// errCut is the error of a response that broke off.
var errCut = errors.New("the connection ended before the response; the request may have been executed")

func cutOff(err error) error {
	if errors.Is(err, errTooLarge) {
		return err
	}
	return fmt.Errorf("%w (%w)", errCut, err)
}

// stream reads events up to the response to c. A stream that breaks off is resumed if it belongs
// to a session and has event ids.
func (b *bridge) stream(c *call, at *endpoint.Endpoint, resp *http.Response, s *session) ([]byte, error) {
	for pos := endpoint.Start; ; {
		answer, err := b.events(c.ctx, resp, c, &pos)
		if answer != nil || c.ctx.Err() != nil {
			return answer, nil
		}
		if errors.Is(err, errTooLarge) {
			return nil, err
		}
		if s == nil || pos.Last == "" {
			return nil, cutOff(err)
		}
		if resp, err = at.Resume(c.ctx, &pos); err != nil {
			return nil, cutOff(err)
		}
	}
}

// events forwards the messages of a stream up to its end or, if c is not nil, to the response to c.
func (b *bridge) events(ctx context.Context, resp *http.Response, c *call, pos *endpoint.Position) (answer []byte, err error) {
	defer resp.Body.Close()
	r := wire.NewEventReader(resp.Body, maxFrame)
	buffer := make([]byte, 0, smallFrame)
	for {
		e, whole, err := r.NextPart(buffer)
		if errors.Is(err, wire.ErrEventTooLarge) {
			err = errTooLarge
		}
		if err != nil {
			return nil, err
		}
		frame, release := e.Data, func() {}
		if !whole {
			if frame, release, err = b.readAll(ctx, r, e.Data); err != nil {
				release()
				return nil, err
			}
		}
		pos.Note(e)
		if b.message(frame, c) {
			c.large = release
			return frame, nil
		}
		release()
	}
}

// message forwards one message of a stream, unless it is the response to c.
func (b *bridge) message(frame []byte, c *call) (answers bool) {
	if len(frame) == 0 {
		return false // an event with an id only
	}
	m, err := wire.Skim(frame)
	switch {
	case err != nil:
		b.say("the endpoint sent an invalid JSON-RPC message: %v", err)
	case !m.IsResponse():
		if c == nil || c.listen == nil || c.listen.passes(m.Method) {
			b.send(frame)
		} else {
			b.announceAgain(c, m.Params)
		}
	default:
		return c != nil && (c.id == nil || bytes.Equal(m.ID, c.id))
	}
	return false
}

var errTooLarge = fmt.Errorf("the response is larger than %d bytes", maxFrame)

// readAll reads the rest of a message after head. For a large message it acquires one of maxLarge tokens,
// which release returns.
func (b *bridge) readAll(ctx context.Context, r io.Reader, head []byte) (frame []byte, release func(), err error) {
	release = func() {}
	small, err := io.ReadAll(io.LimitReader(r, smallFrame))
	frame = append(bytes.Clone(head), small...)
	if err != nil || len(small) < smallFrame {
		return frame, release, err
	}
	select {
	case b.large <- struct{}{}:
		release = func() { <-b.large }
	case <-ctx.Done():
		return nil, release, context.Cause(ctx)
	}
	var whole bytes.Buffer
	whole.Write(frame)
	_, err = whole.ReadFrom(io.LimitReader(r, maxFrame+1-int64(len(frame))))
	if err == nil && whole.Len() > maxFrame {
		err = errTooLarge
	}
	return whole.Bytes(), release, err
}

// fail answers a request with an error of the transport.
func (b *bridge) fail(id json.RawMessage, err error) {
	err = b.explain(err)
	b.say("%v", err)
	b.send(wire.Failure(id, wire.Errorf(wire.InternalError, "%v", err)))
}

// explain returns err with the URL and a hint.
func (b *bridge) explain(err error) error {
	at := endpoint.Shown(b.o.URL)
	var status *endpoint.StatusError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf(`%s: nothing is listening there: start the endpoint with "vmcp serve"`, at)
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized:
		return fmt.Errorf("%s: the endpoint refuses the request without a valid token: set VMCP_TOKEN, or name a file in --token-file", at)
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return fmt.Errorf("%s: %w: no endpoint at this path", at, status)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no response within %s", at, sendTime)
	}
	return fmt.Errorf("%s: %w", at, err)
}
