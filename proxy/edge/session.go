package edge

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
)

// standaloneID is the id of a session's own stream.
const standaloneID = "g"

const (
	// maxAsked bounds the questions to a client that are open at one time.
	maxAsked = 64
	// maxAskedBytes bounds what they hold together.
	maxAskedBytes = 8 << 20
)

// A Session is one client of a revision with an initialize handshake: over HTTP until
// DELETE or idle expiry, over stdio as long as the pipe.
type Session struct {
	ID     string
	Text   string // what the client names it by: ID, or what a key has sealed (package ids)
	Client *Client
	Peer   Peer
	out    FrameWriter // stdio only: every frame goes there
	budget *budget     // of what the streams hold
	epoch  string      // of a session that was adopted: its streams are others than those of before

	countsFor []string    // what the table counts it for; see sessions
	opened    *ids.Sealer // which has sealed Text or opened it; guarded by the table's mu

	mu         sync.Mutex
	used       time.Time                     // guarded by mu, like all below
	begun      bool                          // something came after initialize
	ready      bool                          // notifications/initialized came
	logLevel   string                        //
	get        *stream                       // what belongs to no request
	streams    map[string]*stream            // that can be resumed, by id
	ended      []*stream                     // those of them that have ended, oldest first
	serial     int                           // of streams
	asked      map[string]chan wire.Message  // requests to the client, by id
	asks       int                           //
	askedBytes int                           // of open requests to the client
	running    map[string]context.CancelFunc // the client's requests, by id
	readers    int                           // open GET streams
	deaf       bool                          // no answer can come any more
	closed     bool
}

func newSession(c *Client) *Session {
	s := &Session{ID: ids.New(), Client: c, used: time.Now()}
	s.Text, c.Session = s.ID, s
	return s
}

// Level is the log level that the client has set; "" before.
func (s *Session) Level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

// SetLevel is logging/setLevel.
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

// wasUsed reports whether anything has come after the initialize.
func (s *Session) wasUsed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// idleSince reports when the session was last used; busy when a request runs or a
// stream is open.
func (s *Session) idleSince() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.running)+s.readers > 0
}

// Listening reports whether the client can get what belongs to no request right now.
func (s *Session) Listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out != nil || s.readers > 0
}

// listen counts an open GET stream; the returned function counts it out.
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

// standalone is the stream for what belongs to no request.
func (s *Session) standalone() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get == nil {
		s.get = newStream(standaloneID+s.epoch, s.budget)
		s.get.closed = s.closed
	}
	return s.get
}

// newStream makes a stream for the answer to a request, which can be resumed by its id.
func (s *Session) newStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	st := newStream("p"+s.epoch+strconv.Itoa(s.serial), s.budget)
	if s.streams == nil {
		s.streams = map[string]*stream{}
	}
	s.streams[st.id] = st
	return st
}

// findStream finds a stream by the id in a Last-Event-ID.
func (s *Session) findStream(id string) *stream {
	if id == standaloneID+s.epoch {
		return s.standalone()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// Send sends what belongs to no request. Frames for a client that does not listen are
// kept in bounds, and dropped before the client has sent initialized.
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
	s.standalone().offer(frame, false)
}

// Offer is Send, which does not wait.
func (s *Session) Offer(frame []byte) { s.Send(frame) }

// Request sends a request that belongs to no request of the client.
func (s *Session) Request(frame []byte) {
	if s.out != nil {
		s.out.Request(frame)
		return
	}
	s.standalone().offer(frame, true)
}

// run registers a request of the client so that it can be cancelled by its id.
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

// cancel ends the request with this id, if it still runs.
func (s *Session) cancel(id json.RawMessage) {
	s.mu.Lock()
	cancel := s.running[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Ask sends a request to the client on out and waits for the answer.
func (s *Session) Ask(ctx context.Context, out FrameWriter, method string, params json.RawMessage) (json.RawMessage, error) {
	s.mu.Lock()
	if s.closed || s.deaf {
		s.mu.Unlock()
		return nil, wire.Errorf(wire.InternalError, "%s: the client's session ended", method)
	}
	if len(s.asked) >= maxAsked || s.askedBytes+len(params) > maxAskedBytes {
		s.mu.Unlock()
		return nil, wire.Errorf(wire.InternalError, "%s: the client has %d questions open already; ask again when it has answered one", method, maxAsked)
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

	out.Request(wire.Request(json.RawMessage(id), method, params))
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

// answer takes the client's response to a request of ours. An answer nobody waits for
// is dropped.
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

// deafen ends the open questions, and those to come: the client cannot answer any more.
func (s *Session) deafen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endQuestions()
}

// endQuestions is for who holds mu.
func (s *Session) endQuestions() {
	s.deaf = true
	for _, waiting := range s.asked {
		close(waiting)
	}
	s.asked = nil
}

// close ends everything that waits in the session.
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
	if s.get != nil {
		s.get.discard()
	}
	for _, st := range s.ended { // the others end with their requests, which are cancelled
		st.discard()
		s.budget.all.remove(st)
	}
}

// age has the streams forget what they need not keep.
func (s *Session) age(now time.Time) {
	s.mu.Lock()
	all := slices.AppendSeq(make([]*stream, 0, len(s.streams)+1), maps.Values(s.streams))
	if s.get != nil {
		all = append(all, s.get)
	}
	s.mu.Unlock()
	for _, st := range all {
		st.age(now)
	}
}
