package edge

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// MaxFrame is the size of the largest frame in memory, in bytes, on stdio and as one event.
const MaxFrame = 64 << 20

// ServeStdio serves one client over newline-delimited frames until in or ctx ends: with a session after initialize,
// statelessly if the requests have a _meta of 2026-07-28. It returns when everything that it started has ended; after
// Drain, as soon as no request is running. What arrived before the end of in is answered; ctx bounds the time for that.
func (v *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &stdioEdge{server: v, out: &lineWriter{w: out}, running: map[string]stdioCall{}, quiet: make(chan struct{}, 1)}
	defer e.close()
	draining := v.listening.Done()
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go wire.ReadLines(ctx, in, MaxFrame, lines, failed)
	for {
		select {
		case line := <-lines:
			e.take(ctx, line)
		case err := <-failed:
			if err != nil {
				return err
			}
			e.inputEnded()
		case <-draining:
			draining = nil
			e.drain()
		case <-e.quiet:
			return nil
		case <-ctx.Done():
			return nil
		case <-v.life.Done():
			return nil
		}
	}
}

// lineWriter writes frames, one per line.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *lineWriter) Send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.Write(append(wire.Line(frame), '\n'))
}

func (l *lineWriter) Offer(frame []byte)                      { l.Send(frame) }
func (l *lineWriter) Request(_ context.Context, frame []byte) { l.Send(frame) }

func (l *lineWriter) finish(id json.RawMessage, resp *backends.Response, err error) {
	l.Send(finalFrame(id, resp, err, MaxFrame))
}

// stdioEdge serves the one client on a pair of pipes.
type stdioEdge struct {
	server  *Server
	out     *lineWriter
	session *Session // once the client has sent initialize
	work    sync.WaitGroup

	mu       sync.Mutex
	running  map[string]stdioCall // requests by id, guarded by mu
	working  int                  // guarded by mu: goroutines of start
	draining bool                 // guarded by mu
	quiet    chan struct{}        // capacity 1: drained, and no request is running
}

// stdioCall is a request in progress.
type stdioCall struct {
	cancel context.CancelFunc
	lasts  bool // a subscription, which ends only by cancellation
}

// start runs f on a goroutine; close waits for it.
func (e *stdioEdge) start(f func()) {
	e.mu.Lock()
	e.working++
	e.mu.Unlock()
	e.work.Go(func() {
		defer e.done()
		f()
	})
}

func (e *stdioEdge) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.working--
	e.noteQuiet()
}

// drain makes ServeStdio return when no request is running.
func (e *stdioEdge) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	e.noteQuiet()
}

// inputEnded makes ServeStdio return when the requests that have arrived are answered. No response to a request of ours
// and no cancellation of a subscription can arrive any more.
func (e *stdioEdge) inputEnded() {
	if e.session != nil {
		e.session.deafen()
	}
	e.mu.Lock()
	for _, call := range e.running {
		if call.lasts {
			call.cancel()
		}
	}
	e.mu.Unlock()
	e.drain()
}

// noteQuiet signals quiet if nothing is running and the edge is draining. mu is held.
func (e *stdioEdge) noteQuiet() {
	if !e.draining || e.working > 0 {
		return
	}
	select {
	case e.quiet <- struct{}{}:
	default:
	}
}

func (e *stdioEdge) take(ctx context.Context, line []byte) {
	ctx = e.server.onPipe(ctx)
	m, err := wire.Parse(line)
	switch {
	case err != nil:
		e.takeInvalid(ctx, line, m, err)
	case m.IsRequest() && m.Method == wire.Initialize:
		e.initialize(ctx, &m)
	case m.IsRequest():
		e.request(ctx, m)
	case m.IsNotification():
		e.notified(ctx, &m)
	case e.session != nil:
		e.session.answer(m)
	}
}

func (e *stdioEdge) takeInvalid(ctx context.Context, line []byte, m wire.Message, err error) {
	if s := e.session; s != nil && s.Client.Revision == wire.Rev2503 && isBatch(line) {
		e.start(func() { e.batch(ctx, line) })
		return
	}
	e.out.Send(wire.Failure(m.ID, err))
}

func (e *stdioEdge) batch(ctx context.Context, line []byte) {
	reply := &batchReply{session: e.session}
	if n := e.server.serveBatch(ctx, e.session, reply, line); n > maxBatch {
		e.out.Send(wire.Failure(nil, wire.Invalid("a batch has at most %d messages", maxBatch)))
		return
	}
	if len(reply.answers) > 0 {
		e.out.Send(jsonscan.Array(reply.answers...))
	}
}

func (e *stdioEdge) initialize(ctx context.Context, m *wire.Message) {
	s, err := e.server.initialize(ctx, m, e.from(ctx), func(s *Session) error {
		if e.session != nil {
			return wire.Invalid("this connection is already initialized")
		}
		s.out = e.out
		e.server.pipes.add(s)
		return nil
	})
	if err != nil {
		e.out.Send(wire.Failure(m.ID, err))
		return
	}
	e.session = s
	e.out.Send(wire.Result(m.ID, s.Peer.Initialize()))
}

// request serves a request on its own goroutine: requests run concurrently.
func (e *stdioEdge) request(ctx context.Context, m wire.Message) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := e.client(ctx, &m)
	if err == nil && !e.begin(m.ID, stdioCall{cancel, m.Method == wire.Listen}) {
		err = wire.Invalid("id %s is in use", m.ID)
	}
	if err != nil {
		cancel()
		e.out.Send(wire.Failure(m.ID, err))
		return
	}
	e.start(func() {
		defer cancel()
		defer e.end(m.ID)
		e.serve(ctx, Request{Client: c, Method: m.Method, Params: m.Params, ID: m.ID, Out: e.out})
	})
}

func (e *stdioEdge) serve(ctx context.Context, r Request) {
	serving := ctx
	if r.Method == wire.Listen {
		var done func()
		serving, done = e.server.untilDrained(ctx)
		defer done()
	}
	resp, err := e.server.handler.Serve(serving, r)
	defer release(resp)
	if ctx.Err() != nil && err != nil {
		return // cancelled: no response is sent
	}
	e.out.finish(r.ID, resp, err)
}

// from is the client of this connection, before it describes itself.
func (e *stdioEdge) from(ctx context.Context) Client {
	return Client{Principal: PrincipalOf(ctx).Key(), Profile: e.server.profile}
}

// client is the client of the session, or the description in a stateless request.
func (e *stdioEdge) client(ctx context.Context, m *wire.Message) (*Client, error) {
	stateless := jsonscan.GetPath(m.Params, "_meta", wire.MetaProtocolVersion) != nil
	if m.Method == wire.Discover || stateless {
		return statelessClient(m, nil, e.from(ctx))
	}
	if e.session != nil {
		return e.session.Client, nil
	}
	if m.Method == wire.Ping {
		return &Client{Revision: wire.Legacy[0]}, nil
	}
	return nil, wire.Invalid("%s before initialize", m.Method)
}

func (e *stdioEdge) begin(id json.RawMessage, call stdioCall) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.running[string(id)]; taken {
		return false
	}
	e.running[string(id)] = call
	return true
}

func (e *stdioEdge) end(id json.RawMessage) {
	e.mu.Lock()
	delete(e.running, string(id))
	e.mu.Unlock()
}

func (e *stdioEdge) notified(ctx context.Context, m *wire.Message) {
	who := new(Client)
	if e.session != nil {
		who = e.session.Client
	}
	e.server.handler.Admit(ctx, Request{Client: who, Method: m.Method, Params: m.Params}, func(context.Context) error {
		switch {
		case m.Method == wire.Cancelled:
			e.cancel(jsonscan.Get(m.Params, "requestId"))
		case e.session != nil:
			e.server.takeNotification(e.session, m)
		}
		return nil
	})
}

func (e *stdioEdge) cancel(id json.RawMessage) {
	e.mu.Lock()
	call, runs := e.running[string(id)]
	e.mu.Unlock()
	if runs {
		call.cancel()
	}
}

// close cancels what is running, waits for it and ends the session.
func (e *stdioEdge) close() {
	e.mu.Lock()
	for _, call := range e.running {
		call.cancel()
	}
	e.mu.Unlock()
	if e.session != nil {
		e.server.pipes.remove(e.session.ID)
		e.server.endSession(e.session)
	}
	e.work.Wait()
}
