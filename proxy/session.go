package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// keptStreams is how many ended streams of a session can still be resumed.
const keptStreams = 8

// A session is one client of a revision with an initialize handshake: over HTTP until
// DELETE or idle expiry, over stdio as long as the pipe.
type session struct {
	id      string
	client  *client
	between *exchange // for what backends send while no call of the session runs
	out     outlet    // stdio only: every frame goes there

	mu       sync.Mutex
	used     time.Time                     // guarded by mu, like all below
	ready    bool                          // notifications/initialized came
	logLevel string                        //
	get      *stream                       // what belongs to no request
	streams  map[string]*stream            // that can be resumed, by id
	ended    []string                      // ids of ended streams, oldest first
	serial   int                           // of streams
	asked    map[string]chan wire.Message  // requests to the client, by id
	asks     int                           //
	running  map[string]context.CancelFunc // the client's requests, by id
	readers  int                           // open GET streams
	uris     map[string]subscription       // of resources
	closed   bool
}

func newSession(c *client) *session {
	s := &session{id: rand.Text(), client: c, used: time.Now()}
	c.session = s
	return s
}

// send puts a frame that belongs to no request on the session's way to its client.
func (s *session) send(frame []byte) { s.notify(frame) }

func (s *session) level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

func (s *session) setLevel(l string) {
	s.mu.Lock()
	s.logLevel = l
	s.mu.Unlock()
}

// touch marks the session as used.
func (s *session) touch() {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
}

// idleSince reports when the session was last used; busy when a request runs or a
// stream is open.
func (s *session) idleSince() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.running)+s.readers > 0
}

// listen counts an open GET stream; the returned function counts it out.
func (s *session) listen() (done func()) {
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

// standalone is the stream for what belongs to no request.
func (s *session) standalone() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get == nil {
		s.get = newStream("g")
	}
	return s.get
}

// newStream makes a stream that can be resumed by its id.
func (s *session) newStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	st := newStream("p" + strconv.Itoa(s.serial))
	if s.streams == nil {
		s.streams = map[string]*stream{}
	}
	s.streams[st.id] = st
	return st
}

// findStream finds a stream by the id in a Last-Event-ID.
func (s *session) findStream(id string) *stream {
	if id == "g" {
		return s.standalone()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// endStream keeps an ended stream for a while, for a client that comes back for it.
func (s *session) endStream(st *stream) {
	st.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, st.id)
	if len(s.ended) > keptStreams {
		delete(s.streams, s.ended[0])
		s.ended = s.ended[1:]
	}
}

// notify sends what belongs to no request. Frames for a client that does not listen are
// kept in bounds, and dropped before it said that it is ready.
func (s *session) notify(frame []byte) {
	s.mu.Lock()
	ready := s.ready && !s.closed
	s.mu.Unlock()
	if !ready {
		return
	}
	if s.out != nil {
		s.out.send(frame)
		return
	}
	s.standalone().send(frame)
}

// run registers a request of the client so that it can be cancelled by its id.
func (s *session) run(id json.RawMessage, cancel context.CancelFunc) (ok bool) {
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

func (s *session) ran(id json.RawMessage) {
	s.mu.Lock()
	delete(s.running, string(id))
	s.used = time.Now()
	s.mu.Unlock()
}

// cancel ends the request with this id, if it still runs.
func (s *session) cancel(id json.RawMessage) {
	s.mu.Lock()
	cancel := s.running[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// ask sends a request to the client on out and waits for the answer.
func (s *session) ask(ctx context.Context, out outlet, method string, params json.RawMessage) (json.RawMessage, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, wire.Errorf(wire.InternalError, "%s: the client's session ended", method)
	}
	s.asks++
	id := strconv.Itoa(s.asks)
	answer := make(chan wire.Message, 1)
	if s.asked == nil {
		s.asked = map[string]chan wire.Message{}
	}
	s.asked[id] = answer
	s.mu.Unlock()

	out.send(wire.Request(json.RawMessage(id), method, params))
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
		out.send(wire.Notification(wire.Cancelled, json.RawMessage(`{"requestId":`+id+`}`)))
		return nil, context.Cause(ctx)
	}
}

func (s *session) forget(id string) {
	s.mu.Lock()
	delete(s.asked, id)
	s.mu.Unlock()
}

// answer takes the client's response to a request of ours. An answer nobody waits for
// is dropped.
func (s *session) answer(m wire.Message) {
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

// close ends everything that waits in the session.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, cancel := range s.running {
		cancel()
	}
	for _, waiting := range s.asked {
		close(waiting)
	}
	s.asked = nil
	if s.get != nil {
		s.get.close()
	}
	for _, st := range s.streams {
		st.close()
	}
}

// subscription is how a session follows a resource.
type subscription int

const (
	none   subscription = iota
	shared              // with others, on the backend's main connection
	own                 // on a connection of the session's own
)

// follow notes how the session follows a resource. It is false when the session has
// ended or follows it so already.
func (s *session) follow(uri string, how subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.uris[uri] == how {
		return false
	}
	if s.uris == nil {
		s.uris = map[string]subscription{}
	}
	s.uris[uri] = how
	return true
}

// unfollow ends that, and returns how the session followed the resource.
func (s *session) unfollow(uri string) subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := s.uris[uri]
	delete(s.uris, uri)
	return how
}

// follows reports whether the session follows a resource, on its own connection or on
// the shared one.
func (s *session) follows(uri string, mine bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine {
		return s.uris[uri] == own
	}
	return s.uris[uri] == shared
}

// unfollowAll forgets what the session follows, and returns what it followed together
// with others.
func (s *session) unfollowAll() (uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, how := range s.uris {
		if how == shared {
			uris = append(uris, u)
		}
	}
	s.uris = nil
	return uris
}

// sessions is the table of HTTP sessions.
type sessions struct {
	mu   sync.Mutex
	byID map[string]*session // guarded by mu
}

func (t *sessions) add(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]*session{}
	}
	t.byID[s.id] = s
}

func (t *sessions) find(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *sessions) remove(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	delete(t.byID, id)
	return s
}

func (t *sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*session, 0, len(t.byID))
	for _, s := range t.byID {
		out = append(out, s)
	}
	return out
}

// idle returns the sessions unused since before.
func (t *sessions) idle(before time.Time) []*session {
	var out []*session
	for _, s := range t.all() {
		if used, busy := s.idleSince(); !busy && used.Before(before) {
			out = append(out, s)
		}
	}
	return out
}
