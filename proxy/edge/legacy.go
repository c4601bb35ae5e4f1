package edge

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// postLegacy serves one message of a revision with sessions.
func (v *Server) postLegacy(w http.ResponseWriter, r *http.Request, m *wire.Message, body []byte) {
	if m.Method == wire.Initialize && m.IsRequest() {
		v.postInitialize(w, r, m)
		return
	}
	s := v.acquire(w, r, m.ID, body)
	if s == nil {
		return
	}
	switch {
	case m.IsRequest():
		v.postRequest(w, r, s, m)
	case m.IsNotification():
		v.notified(r.Context(), s, m)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.answer(*m)
		w.WriteHeader(http.StatusAccepted)
	}
}

// sessionOf finds the session that a request names; after 404 a client begins a new session. said is the content of a
// sealed id if the session is not in this process.
func (v *Server) sessionOf(r *http.Request) (s *Session, said *IDSession, status int, err error) {
	id := r.Header.Get(wire.HeaderSession)
	if id == "" {
		return nil, nil, http.StatusBadRequest, wire.Invalid("no %s header: begin with initialize", wire.HeaderSession)
	}
	// A proxy in front of this endpoint may have used the other of two ids. An id that is repeated is accepted.
	if slices.ContainsFunc(r.Header[wire.HeaderSession], func(other string) bool { return other != id }) {
		return nil, nil, http.StatusBadRequest, wire.Invalid("the request has several %s headers that differ: want one session id", wire.HeaderSession)
	}
	s, said = v.sessions.named(id, v.sealer.Load())
	who, profile := v.principal(r), profileOf(r)
	if s != nil && s.Client.Principal != who || said != nil && said.Principal != digestOf(who) {
		v.turned(r, http.StatusNotFound, "the session belongs to another principal")
		return nil, nil, http.StatusNotFound, ErrNoSession
	}
	switch {
	case said != nil && said.Profile == profile:
		return nil, said, http.StatusNotFound, ErrNoSession
	case s == nil || s.Client.Profile != profile:
		return nil, nil, http.StatusNotFound, ErrNoSession
	}
	if v := r.Header.Get(wire.HeaderVersion); v != "" && !wire.IsSupported(v) {
		return nil, nil, http.StatusBadRequest, wire.Invalid("%s: unsupported revision %q", wire.HeaderVersion, v)
	}
	s.touch()
	return s, nil, 0, nil
}

func (v *Server) postInitialize(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	s, err := v.initialize(r.Context(), m, Client{Principal: v.principal(r), Profile: profileOf(r)}, func(s *Session) error {
		if err := v.seal(r.Context(), s); err != nil {
			return err
		}
		return v.admitSession(s, r)
	})
	switch {
	case err == nil:
		w.Header().Set(wire.HeaderSession, s.Text)
		writeJSON(w, http.StatusOK, wire.Result(m.ID, s.Peer.Initialize()))
	case wire.AsError(err).Code == wire.Busy:
		refuseBusy(w, m.ID, err)
	default:
		refuse(w, http.StatusBadRequest, m.ID, err)
	}
}

// initialize opens a session, and calls keep to put it into a table. from has the principal and the profile of the
// client.
func (v *Server) initialize(ctx context.Context, m *wire.Message, from Client, keep func(*Session) error) (s *Session, err error) {
	who := &Client{Principal: from.Principal, Profile: from.Profile, Revision: jsonscan.GetString(m.Params, "protocolVersion"), Info: jsonscan.Get(m.Params, "clientInfo")}
	err = v.handler.Admit(ctx, Request{Client: who, Method: m.Method, Params: m.Params}, func(ctx context.Context) error {
		if err := checkIntroduction(jsonscan.Get(m.Params, "capabilities"), jsonscan.Get(m.Params, "clientInfo")); err != nil {
			return err
		}
		s = v.newSession(ctx, m.Params, from)
		return keep(s)
	})
	return s, err
}

// seal gives a new session a sealed id, if there are keys.
func (v *Server) seal(ctx context.Context, s *Session) error {
	by := v.sealer.Load()
	if by == nil {
		return nil
	}
	c := s.Client
	said := &IDSession{ID: s.ID, Principal: digestOf(c.Principal), Profile: c.Profile, Revision: c.Revision, Info: c.Info, Capabilities: c.Capabilities}
	s.Text, s.opened = by.Seal(said), by
	if e := v.others(); e != nil {
		return e.Opened(ctx, s, said)
	}
	return nil
}

// maxIntroduction bounds capabilities and clientInfo, each, in bytes.
const maxIntroduction = 16 << 10

func checkIntroduction(capabilities, info json.RawMessage) error {
	for name, value := range map[string]json.RawMessage{"capabilities": capabilities, "clientInfo": info} {
		if len(value) > maxIntroduction {
			return wire.Errorf(wire.InvalidParams, "%s: want at most %d bytes, have %d", name, maxIntroduction, len(value))
		}
	}
	return nil
}

// newSession opens a session for an initialize request. For an unknown revision it uses our newest one with sessions
// (lifecycle, version negotiation).
func (v *Server) newSession(ctx context.Context, params json.RawMessage, from Client) *Session {
	revision := jsonscan.GetString(params, "protocolVersion")
	if !wire.IsSupported(revision) || wire.IsModern(revision) {
		revision = wire.Legacy[0]
	}
	s := newSession(&Client{
		Principal:    from.Principal,
		Profile:      from.Profile,
		Revision:     revision,
		Capabilities: clone(jsonscan.Get(params, "capabilities")),
		Info:         clone(jsonscan.Get(params, "clientInfo")),
	}, &v.streams)
	s.Peer = v.handler.Open(ctx, s)
	return s
}

func clone(b json.RawMessage) json.RawMessage { return append(json.RawMessage(nil), b...) }

// postRequest serves a request whose response is the response of this POST.
func (v *Server) postRequest(w http.ResponseWriter, r *http.Request, s *Session, m *wire.Message) {
	reply := &httpReply{server: v, w: w, r: r, id: m.ID, session: s, polling: s.Client.Revision >= wire.Rev2511}
	ctx, cancel := reply.detach()
	defer cancel()
	if !s.run(m.ID, cancel) {
		refuse(w, http.StatusBadRequest, m.ID, wire.Invalid("id %s is in use", m.ID))
		return
	}
	defer s.ran(m.ID)
	defer reply.startSoon()()
	resp, err := v.handler.Serve(ctx, Request{Client: s.Client, Method: m.Method, Params: m.Params, ID: m.ID, Out: reply})
	defer release(resp)
	reply.finish(m.ID, resp, v.whyCut(err))
}

// notified passes a notification of a client through the door.
func (v *Server) notified(ctx context.Context, s *Session, m *wire.Message) {
	v.handler.Admit(ctx, Request{Client: s.Client, Method: m.Method, Params: m.Params}, func(context.Context) error {
		v.takeNotification(s, m)
		return nil
	})
}

func (v *Server) takeNotification(s *Session, m *wire.Message) {
	switch m.Method {
	case wire.Initialized:
		s.mu.Lock()
		s.ready = true
		s.mu.Unlock()
	case wire.Cancelled:
		if id := jsonscan.Get(m.Params, "requestId"); id != nil {
			s.cancel(id)
		}
	case wire.RootsChanged:
		s.Peer.Notified(m.Method, clone(m.Params))
	}
}

// sessionOrRefuse finds the session of a GET or DELETE; nil if the request was answered.
func (v *Server) sessionOrRefuse(w http.ResponseWriter, r *http.Request) *Session {
	if wire.IsModern(r.Header.Get(wire.HeaderVersion)) {
		notAllowed(w, "POST")
		return nil
	}
	return v.acquire(w, r, nil, nil)
}

// get serves the standalone stream of a session, or resumes a stream that was interrupted.
func (v *Server) get(w http.ResponseWriter, r *http.Request) {
	s := v.sessionOrRefuse(w, r)
	if s == nil {
		return
	}
	err := v.handler.Admit(r.Context(), Request{Client: s.Client, Method: r.Method}, func(context.Context) error {
		st, after, err := s.streamFor(r.Header.Get(wire.HeaderLastEvent))
		if err == nil {
			v.serveStream(w, r, s, st, after)
		}
		return err
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, err)
	}
}

// streamFor is the standalone stream of a session, or the one to resume behind the event last.
func (s *Session) streamFor(last string) (st *stream, after int, err error) {
	if last == "" {
		return s.streams.Standalone(), -1, nil
	}
	id, next, ok := parseEventID(last)
	if ok {
		st = s.streams.Find(id)
	}
	if s.streams.Adopted() && (!ok || st == nil) {
		return s.streams.Standalone(), -1, nil // the stream ended with its replica: only later events are sent
	}
	if !ok || st == nil || !st.Issued(next) {
		return nil, 0, wire.Invalid("%s %q is not an event of this session", wire.HeaderLastEvent, last)
	}
	return st, next, nil
}

// serveStream writes a stream until the client disconnects.
func (v *Server) serveStream(w http.ResponseWriter, r *http.Request, s *Session, st *stream, after int) {
	ctx, done := v.whileListening(r)
	defer done()
	defer listenFor(s)()
	st.Pump(w, after, false, ctx.Done())
	s.streams.Delivered(st)
}

// listenFor notes that s has a stream for what belongs to no request, so that its backend sessions open theirs, too;
// done ends that.
func listenFor(s *Session) (done func()) {
	over := s.listen()
	s.Peer.Listens()
	return func() {
		over()
		if !s.Listening() {
			s.Peer.StoppedListening()
		}
	}
}

// delete ends a session, for all replicas.
func (v *Server) delete(w http.ResponseWriter, r *http.Request) {
	s := v.sessionOrRefuse(w, r)
	if s == nil {
		return
	}
	v.handler.Admit(r.Context(), Request{Client: s.Client, Method: r.Method}, func(context.Context) error {
		v.endSession(s)
		if e := v.others(); e != nil {
			e.Deleted(s)
		}
		return nil
	})
	w.WriteHeader(http.StatusNoContent)
}

// endSession removes a session from the table and ends everything that belongs to it.
func (v *Server) endSession(s *Session) {
	if v.sessions.remove(s.ID) == nil && s.out == nil {
		return
	}
	s.close()
	s.Peer.Ended()
}

// batchReply collects the responses to one batch. Frames ahead of a response go to the session's standalone stream.
type batchReply struct {
	session *Session

	mu      sync.Mutex
	answers [][]byte // guarded by mu
	size    int64    // of all responses; guarded by mu
}

func (b *batchReply) Send(frame []byte)                         { b.session.Send(frame) }
func (b *batchReply) Offer(frame []byte)                        { b.session.Send(frame) }
func (b *batchReply) Request(ctx context.Context, frame []byte) { b.session.Request(ctx, frame) }

func (b *batchReply) add(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(frame)
}

// put adds a response. mu is held.
func (b *batchReply) put(frame []byte) {
	b.answers = append(b.answers, frame)
	b.size += int64(len(frame))
}

// finish adds the response to one request. Responses are read one after the other; together they have at most maxFrame
// bytes, since they are sent in one body.
func (b *batchReply) finish(id json.RawMessage, resp *backends.Response, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(finalFrame(id, resp, err, MaxFrame-b.size))
}

// errBatch refuses a batch from clients whose revision has no batches.
var errBatch = wire.Invalid("batches exist in sessions of revision %s only: send one message a request", wire.Rev2503)

// maxBatch bounds the requests of one batch.
const maxBatch = 100

// postBatch serves an array of messages, which only 2025-03-26 has.
func (v *Server) postBatch(w http.ResponseWriter, r *http.Request, body []byte) {
	if v := r.Header.Get(wire.HeaderVersion); wire.IsModern(v) || r.Header.Get(wire.HeaderSession) == "" {
		refuse(w, http.StatusBadRequest, nil, errBatch)
		return
	}
	s := v.acquire(w, r, nil, body)
	if s == nil {
		return
	}
	if s.Client.Revision != wire.Rev2503 {
		refuse(w, http.StatusBadRequest, nil, errBatch)
		return
	}
	reply := &batchReply{session: s}
	if n := v.serveBatch(r.Context(), s, reply, body); n > maxBatch || n == 0 {
		refuse(w, http.StatusBadRequest, nil, wire.Invalid("a batch has 1 to %d messages, not %d", maxBatch, n))
		return
	}
	if len(reply.answers) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	out := []byte{'['}
	for i, a := range reply.answers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, a...)
	}
	writeJSON(w, http.StatusOK, append(out, ']'))
}

// serveBatch serves the messages of a batch concurrently and returns how many there are.
func (v *Server) serveBatch(ctx context.Context, s *Session, reply *batchReply, body []byte) (n int) {
	jsonscan.Elements(body, func([]byte) bool { n++; return n <= maxBatch })
	if n > maxBatch {
		return n
	}
	var all sync.WaitGroup
	jsonscan.Elements(body, func(frame []byte) bool {
		m, err := wire.Parse(frame)
		switch {
		case err != nil:
			reply.add(wire.Failure(m.ID, err))
		case m.IsRequest():
			all.Go(func() { v.serveMember(ctx, s, reply, m) })
		case m.IsNotification():
			v.notified(ctx, s, &m)
		default:
			s.answer(m)
		}
		return true
	})
	all.Wait()
	return n
}

func (v *Server) serveMember(ctx context.Context, s *Session, reply *batchReply, m wire.Message) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var resp *backends.Response
	var err error = wire.Invalid("id %s is in use", m.ID)
	if s.run(m.ID, cancel) {
		defer s.ran(m.ID)
		resp, err = v.handler.Serve(ctx, Request{Client: s.Client, Method: m.Method, Params: m.Params, ID: m.ID, Out: reply})
	}
	reply.finish(m.ID, resp, v.whyCut(err))
	release(resp)
}
