package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// postLegacy serves one frame of a revision with sessions.
func (p *Proxy) postLegacy(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	if m.Method == wire.Initialize && m.IsRequest() {
		p.postInitialize(w, r, m)
		return
	}
	s, status, err := p.sessionOf(r)
	if err != nil {
		refuse(w, status, m.ID, err)
		return
	}
	switch {
	case m.IsRequest():
		p.postRequest(w, r, s, m)
	case m.IsNotification():
		p.notified(s, m)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.answer(*m)
		w.WriteHeader(http.StatusAccepted)
	}
}

// sessionOf finds the session that a request names; the status tells a client whether
// to begin a new one.
func (p *Proxy) sessionOf(r *http.Request) (*session, int, error) {
	id := r.Header.Get(wire.HeaderSession)
	if id == "" {
		return nil, http.StatusBadRequest, wire.Invalid("no %s header: begin with initialize", wire.HeaderSession)
	}
	s := p.sessions.find(id)
	if s == nil || s.client.principal != p.principal(r) {
		return nil, http.StatusNotFound, wire.Errorf(wire.InvalidRequest, "session not found: begin a new one with initialize")
	}
	if v := r.Header.Get(wire.HeaderVersion); v != "" && !wire.IsSupported(v) {
		return nil, http.StatusBadRequest, wire.Invalid("%s: unsupported revision %q", wire.HeaderVersion, v)
	}
	s.touch()
	return s, 0, nil
}

func (p *Proxy) postInitialize(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	s := p.newSession(m.Params, p.principal(r))
	p.sessions.add(s)
	w.Header().Set(wire.HeaderSession, s.id)
	writeJSON(w, http.StatusOK, wire.Result(m.ID, p.initializeResult(s)))
}

// newSession opens a session as the client's initialize asks for. An unknown revision
// gets our newest one with sessions, as the lifecycle rules want.
func (p *Proxy) newSession(params json.RawMessage, principal string) *session {
	revision := wire.GetString(params, "protocolVersion")
	if !wire.IsSupported(revision) || wire.IsModern(revision) {
		revision = wire.Legacy[0]
	}
	s := newSession(&client{
		principal:    principal,
		revision:     revision,
		capabilities: clone(wire.Get(params, "capabilities")),
		info:         clone(wire.Get(params, "clientInfo")),
	})
	s.between = &exchange{p: p, client: s.client, out: s}
	return s
}

func clone(b json.RawMessage) json.RawMessage { return append(json.RawMessage(nil), b...) }

func (p *Proxy) initializeResult(s *session) json.RawMessage {
	out := append([]byte(`{"protocolVersion":`), wire.Quote(s.client.revision)...)
	out = append(append(out, `,"capabilities":`...), ourCapabilities...)
	out = append(append(out, `,"serverInfo":`...), p.catalog.Load().serverInfo...)
	if text := p.catalog.Load().instructions; text != "" {
		out = append(append(out, `,"instructions":`...), wire.Quote(text)...)
	}
	return append(out, '}')
}

// postRequest serves a request whose answer goes into the response of this POST.
func (p *Proxy) postRequest(w http.ResponseWriter, r *http.Request, s *session, m *wire.Message) {
	reply := &httpReply{w: w, r: r, session: s, polling: s.client.revision >= wire.Rev2511}
	ctx, cancel := reply.detach()
	defer cancel()
	if !s.run(m.ID, cancel) {
		refuse(w, http.StatusBadRequest, m.ID, wire.Invalid("id %s is in use", m.ID))
		return
	}
	defer s.ran(m.ID)
	defer reply.startSoon()()
	resp, err := p.serve(ctx, newExchange(p, s.client, m.Method, m.Params, reply))
	defer release(resp)
	reply.finish(m.ID, resp, err)
}

// notified takes a notification of a client.
func (p *Proxy) notified(s *session, m *wire.Message) {
	switch m.Method {
	case wire.Initialized:
		s.mu.Lock()
		s.ready = true
		s.mu.Unlock()
	case wire.Cancelled:
		if id := wire.Get(m.Params, "requestId"); id != nil {
			s.cancel(id)
		}
	case wire.RootsChanged:
		p.backends.Notify(s.id, m.Method, clone(m.Params))
	}
}

// sessionOrRefuse finds the session of a GET or DELETE; nil when the answer is given.
func (p *Proxy) sessionOrRefuse(w http.ResponseWriter, r *http.Request) *session {
	if wire.IsModern(r.Header.Get(wire.HeaderVersion)) {
		notAllowed(w, "POST")
		return nil
	}
	s, status, err := p.sessionOf(r)
	if err != nil {
		refuse(w, status, nil, err)
		return nil
	}
	return s
}

// get opens a session's own stream, or goes on with one that was interrupted.
func (p *Proxy) get(w http.ResponseWriter, r *http.Request) {
	s := p.sessionOrRefuse(w, r)
	if s == nil {
		return
	}
	st, after := s.standalone(), -1
	if last := r.Header.Get(wire.HeaderLastEvent); last != "" {
		id, next, ok := parseEventID(last)
		if ok {
			st, after = s.findStream(id), next
		}
		if !ok || st == nil {
			refuse(w, http.StatusBadRequest, nil, wire.Invalid("%s %q is not one of this session's", wire.HeaderLastEvent, last))
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.listening, cancel)()
	defer s.listen()()
	startEvents(w, st, after, false).pump(st, ctx.Done())
}

// delete ends a session.
func (p *Proxy) delete(w http.ResponseWriter, r *http.Request) {
	s := p.sessionOrRefuse(w, r)
	if s == nil {
		return
	}
	p.endSession(s)
	w.WriteHeader(http.StatusNoContent)
}

// endSession forgets a session and everything that was its own.
func (p *Proxy) endSession(s *session) {
	if p.sessions.remove(s.id) == nil && s.out == nil {
		return
	}
	s.close()
	p.subscriptions.leave(s.unfollowAll())
	p.backends.Release(s.id)
}

// batchReply collects the answers to one batch. Frames that belong to its requests go
// to the session's own stream.
type batchReply struct {
	session *session

	mu      sync.Mutex
	answers [][]byte // guarded by mu
}

func (b *batchReply) send(frame []byte) { b.session.standalone().send(frame) }

func (b *batchReply) add(frame []byte) {
	b.mu.Lock()
	b.answers = append(b.answers, frame)
	b.mu.Unlock()
}

// maxBatch bounds the requests of one batch.
const maxBatch = 100

// postBatch serves an array of frames; only 2025-03-26 has them.
func (p *Proxy) postBatch(w http.ResponseWriter, r *http.Request, body []byte) {
	s, status, err := p.sessionOf(r)
	if err != nil {
		refuse(w, status, nil, err)
		return
	}
	if s.client.revision != wire.Rev2503 {
		refuse(w, http.StatusBadRequest, nil, wire.Invalid("batches exist in revision %s only", wire.Rev2503))
		return
	}
	reply := &batchReply{session: s}
	if n := p.serveBatch(r.Context(), s, reply, body); n > maxBatch || n == 0 {
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

// serveBatch serves the members of a batch side by side and returns how many there are.
func (p *Proxy) serveBatch(ctx context.Context, s *session, reply *batchReply, body []byte) (n int) {
	wire.Elements(body, func([]byte) bool { n++; return n <= maxBatch })
	if n > maxBatch {
		return n
	}
	var all sync.WaitGroup
	wire.Elements(body, func(frame []byte) bool {
		m, err := wire.Parse(frame)
		switch {
		case err != nil:
			reply.add(wire.Failure(m.ID, err))
		case m.IsRequest():
			all.Go(func() { p.serveMember(ctx, s, reply, m) })
		case m.IsNotification():
			p.notified(s, &m)
		default:
			s.answer(m)
		}
		return true
	})
	all.Wait()
	return n
}

func (p *Proxy) serveMember(ctx context.Context, s *session, reply *batchReply, m wire.Message) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var resp *backends.Response
	var err error = wire.Invalid("id %s is in use", m.ID)
	if s.run(m.ID, cancel) {
		defer s.ran(m.ID)
		resp, err = p.serve(ctx, newExchange(p, s.client, m.Method, m.Params, reply))
	}
	reply.add(finalFrame(m.ID, resp, err))
	release(resp)
}
