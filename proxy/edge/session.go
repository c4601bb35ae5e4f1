package edge

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// maxAsked bounds the pending requests to one client. One backend may have as many pending.
	maxAsked = 128
	// maxAskedBytes bounds their size together, in bytes.
	maxAskedBytes = 8 << 20
)

// A Session is one client of a revision with an initialize handshake: over HTTP until DELETE or until it has been idle
// for sessionIdle.client, over stdio until the pipe ends.
//
//	initialize ──► unused ──► begun ──► ready ──► closed
//	              (no         (any       (notifications/initialized:
//	               message)    message)   notifications are sent from here on)
//
// It can be closed in every state: by DELETE, by the idle limit (sweep), for room (sessions.go), when another replica
// has adopted it, at the end of the process. That cancels its running requests, fails its pending requests to the
// client, and ends its streams. Before that it may become deaf, when stdin of a client on stdio has ended, and over HTTP
// when the process drains: running calls are still answered, requests to the client fail.
//
// Frames take three ways. A response, and what belongs to a request of the client, goes to that request's reply
// (http.go, stdio.go), never through Session. What belongs to no request goes to Send: on stdio to the pipe, over HTTP
// to the standalone stream, which the client reads by GET, and which buffers a bounded amount while it does not. A
// request to the client (Ask) goes where its caller says; the response arrives in another POST, and is matched by the
// id in asked.
//
// mu is not held while anything is sent or waited for. While it is held, only close acquires other locks: those of the
// streams that it closes.
type Session struct {
	ID      string
	Text    string // the session id for the client: ID, or a sealed id (ids.go)
	Client  *Client
	Peer    Peer
	out     FrameWriter // stdio only: for every frame
	streams *set

	countsFor []string // keys by which the table counts it; see sessions
	opened    *Sealer  // the sealer of Text; guarded by the table's mu

	mu         sync.Mutex
	used       time.Time                     // last use; guarded by mu, like all below
	begun      bool                          // a message has arrived after initialize
	ready      bool                          // notifications/initialized has arrived
	logLevel   string                        //
	asked      map[string]chan wire.Message  // pending requests to the client, by id
	asks       int                           //
	askedBytes int                           // of pending requests to the client
	running    map[string]context.CancelFunc // requests of the client, by id
	readers    int                           // open GET streams
	deaf       bool                          // no response can arrive any more
	closed     bool
}

func newSession(c *Client, all *pool) *Session {
	s := &Session{ID: newIDs(), Client: c, streams: newSet(all, ""), used: time.Now()}
	s.Text, c.Session = s.ID, s
	return s
}

// Level is the log level that the client has set; "" for none.
func (s *Session) Level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

// SetLevel sets it (logging/setLevel).
func (s *Session) SetLevel(l string) {
	s.mu.Lock()
	s.logLevel = l
	s.mu.Unlock()
}

// touch marks the session as used.
func (s *Session) touch() {
	s.mu.Lock()
	s.used, s.begun = time.Now(), true
	s.mu.Unlock()
}

// wasUsed reports whether a message has arrived after initialize.
func (s *Session) wasUsed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// idleSince returns the time of the last use; busy is true while a request is running or a stream is open.
func (s *Session) idleSince() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.running)+s.readers > 0
}

// Over reports whether the session has ended here.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Listening reports whether the client can receive now what belongs to no request.
func (s *Session) Listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out != nil || s.readers > 0
}

// listen counts an open GET stream until done is called.
func (s *Session) listen() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.readers--
		s.used = time.Now()
	}
}

// Send sends a frame that belongs to no request. For a client without a stream it is buffered within bounds; before
// notifications/initialized it is dropped.
func (s *Session) Send(frame []byte) {
	s.mu.Lock()
	ready := s.ready && !s.closed
	s.mu.Unlock()
	if !ready {
		return
	}
	if s.out != nil {
		s.out.Send(frame)
		return
	}
	s.streams.Standalone().Offer(frame)
}

// Offer is Send, which never blocks.
func (s *Session) Offer(frame []byte) { s.Send(frame) }

// Request sends a request to the client that belongs to no request of the client.
func (s *Session) Request(ctx context.Context, frame []byte) {
	if s.out != nil {
		s.out.Request(ctx, frame)
		return
	}
	s.streams.Standalone().OfferRequest(ctx, frame)
}

// run registers a request of the client for cancellation; false if the id is in use.
func (s *Session) run(id json.RawMessage, cancel context.CancelFunc) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = map[string]context.CancelFunc{}
	}
	if _, taken := s.running[string(id)]; taken || s.closed {
		return false
	}
	s.running[string(id)] = cancel
	return true
}

func (s *Session) ran(id json.RawMessage) {
	s.mu.Lock()
	delete(s.running, string(id))
	s.used = time.Now()
	s.mu.Unlock()
}

// cancel cancels the request with this id, if it is running.
func (s *Session) cancel(id json.RawMessage) {
	s.mu.Lock()
	cancel := s.running[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// cancelAll ends all requests that still run.
func (s *Session) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.running {
		cancel()
	}
}

// Ask sends a request to the client on out and waits for the response.
func (s *Session) Ask(ctx context.Context, out FrameWriter, method string, params json.RawMessage) (json.RawMessage, error) {
	s.mu.Lock()
	if s.closed || s.deaf {
		s.mu.Unlock()
		return nil, wire.Errorf(wire.InternalError, "%s: the client's session ended", method)
	}
	if len(s.asked) >= maxAsked || s.askedBytes+len(params) > maxAskedBytes {
		s.mu.Unlock()
		return nil, wire.Errorf(wire.InternalError, "%s: the client has %d unanswered requests, which is the limit; try again when it has answered one", method, maxAsked)
	}
	s.askedBytes += len(params)
	defer s.unasked(len(params))
	s.asks++
	id := strconv.Itoa(s.asks)
	answer := make(chan wire.Message, 1)
	if s.asked == nil {
		s.asked = map[string]chan wire.Message{}
	}
	s.asked[id] = answer
	s.mu.Unlock()

	out.Request(ctx, wire.Request(json.RawMessage(id), method, params))
	select {
	case m, ok := <-answer:
		if !ok {
			return nil, wire.Errorf(wire.InternalError, "%s: the client's session ended", method)
		}
		if m.Error != nil {
			return nil, wire.ParseErrorObject(m.Error)
		}
		return append(json.RawMessage(nil), m.Result...), nil
	case <-ctx.Done():
		s.forget(id)
		out.Send(wire.Notification(wire.Cancelled, new(jsonscan.Object).Raw("requestId", []byte(id)).JSON()))
		return nil, context.Cause(ctx)
	}
}

func (s *Session) unasked(n int) {
	s.mu.Lock()
	s.askedBytes -= n
	s.mu.Unlock()
}

func (s *Session) forget(id string) {
	s.mu.Lock()
	delete(s.asked, id)
	s.mu.Unlock()
}

// answer delivers the client's response to a request of ours. One that nothing waits for is dropped.
func (s *Session) answer(m wire.Message) {
	s.mu.Lock()
	waiting := s.asked[string(m.ID)]
	delete(s.asked, string(m.ID))
	s.mu.Unlock()
	if waiting != nil {
		m.Result = append(json.RawMessage(nil), m.Result...)
		if len(m.Result) == 0 {
			m.Result = nil
		}
		if m.Error != nil {
			m.Error = append(json.RawMessage(nil), m.Error...)
		}
		waiting <- m
	}
}

// deafen fails all pending requests to the client, and later ones: no response can arrive any more.
func (s *Session) deafen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endQuestions()
}

// endQuestions fails the pending requests to the client. mu is held.
func (s *Session) endQuestions() {
	s.deaf = true
	for _, waiting := range s.asked {
		close(waiting)
	}
	s.asked = nil
}

// close cancels and ends everything in the session.
func (s *Session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, cancel := range s.running {
		cancel()
	}
	s.endQuestions()
	s.streams.Close()
}
