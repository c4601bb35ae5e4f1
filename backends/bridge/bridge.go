// Package bridge carries the frames of one MCP client on a pair of pipes to an endpoint over
// Streamable HTTP, and back: for clients that can only start a program, in front of servers that
// run already.
//
// Frames are forwarded unchanged. The bridge implements the parts of MCP in which the two transports differ:
//
//   - A client that sends initialize has one session at the endpoint. Its GET stream is kept open for
//     requests and notifications of the server, and resumed after its last event when it breaks. When
//     the endpoint has forgotten the session, because it was restarted, a new one is opened with the
//     client's own initialize, log level and subscriptions, and the client is notified that all lists
//     may have changed.
//   - Requests of 2026-07-28 are posted one by one with the headers that repeat their body, those for
//     arguments of tools included, and are cancelled by closing their stream (basic/transports). A stream
//     of subscriptions/listen that breaks, or that the endpoint ends, is opened again, and the client is
//     notified that the lists and resources that it listens to may have changed.
//
// While the endpoint cannot be reached, each request is answered with an error at once.
package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// maxFrame is the largest frame in either direction, in bytes.
	maxFrame = 64 << 20
	// maxRunning bounds the concurrent requests of the client.
	maxRunning = 256
	// maxHeld bounds the sum of their frames, in bytes.
	maxHeld = 128 << 20
	// maxLarge bounds the responses larger than smallFrame that are read at one time.
	maxLarge   = 4
	smallFrame = 64 << 10

	// sendTime bounds the sending of notifications and responses, and initialize.
	sendTime = 30 * time.Second
	// endTime bounds the DELETE of a session.
	endTime = 2 * time.Second
)

// Options are the endpoint and how to reach it.
type Options struct {
	URL *url.URL
	// Header is added to every request, such as Authorization.
	Header http.Header
	// Transport sends the requests.
	Transport http.RoundTripper
	// Say writes a message for the user. It is called by one goroutine at a time.
	Say func(format string, args ...any)
	// DrainTime bounds the wait for running requests after the end of the input.
	DrainTime time.Duration
}

// bridge connects one client to one endpoint.
type bridge struct {
	o       Options
	headers atomic.Pointer[http.Header]
	out     *writer
	large   chan struct{} // a token for each large response that is being read
	work    sync.WaitGroup

	ctx context.Context // of all requests
	end context.CancelCauseFunc

	schemas  schemas
	renewing sync.Mutex // held while a new session is opened
	saying   sync.Mutex

	mu      sync.Mutex
	session *session                   // guarded by mu: of a client that has sent initialize
	running map[string]*call           // guarded by mu: by id
	held    int                        // guarded by mu: bytes of running requests
	idle    chan struct{}              // guarded by mu: closed when no request runs; nil until the input has ended
	kept    map[string]json.RawMessage // guarded by mu: params to send again in a new session, by method and URI
}

// Serve forwards frames until in ends and all requests are answered, or until ctx ends. It then
// ends the session at the endpoint.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	b := &bridge{o: o, out: &writer{w: out}, large: make(chan struct{}, maxLarge), running: map[string]*call{}, kept: map[string]json.RawMessage{}}
	header := maps.Clone(o.Header)
	if header == nil {
		header = http.Header{}
	}
	b.headers.Store(&header)
	b.ctx, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	defer b.close()
	lines, failed := make(chan []byte), make(chan error, 1)
	go wire.ReadLines(b.ctx, in, maxFrame, lines, failed)
	for {
		select {
		case line := <-lines:
			b.take(ctx, line)
		case err := <-failed:
			b.drain(ctx)
			return err
		case <-ctx.Done():
			b.drain(context.Background())
			return nil
		case <-b.ctx.Done():
			return context.Cause(b.ctx)
		}
	}
}

// take handles one frame of the client. Requests run concurrently; notifications and responses are sent in
// order.
func (b *bridge) take(ctx context.Context, line []byte) {
	m, err := wire.Parse(line)
	switch {
	case err != nil && line[0] == '[' && b.current() != nil:
		b.start(&call{frame: line}) // a batch of 2025-03-26; its response is an array
	case err != nil:
		b.send(wire.Failure(m.ID, err))
	case m.IsRequest() && m.Method == wire.Initialize:
		b.initialize(ctx, &m, line)
	case m.IsRequest():
		b.request(&m, line)
	case m.IsNotification() && m.Method == wire.Cancelled:
		b.cancel(ctx, &m, line)
	default:
		b.pass(ctx, &m, line)
	}
}

// pass sends a notification or a response, and waits until the endpoint has accepted it.
func (b *bridge) pass(ctx context.Context, m *wire.Message, frame []byte) {
	s := b.current()
	if s == nil {
		return // clients of 2026-07-28 send only requests over HTTP
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := s.notify(ctx, frame)
	if isGone(err) && m.IsNotification() {
		if err = b.renew(ctx, s); err == nil {
			err = b.current().notify(ctx, frame)
		}
	}
	if err != nil {
		what := cmp.Or(m.Method, "the client's response")
		b.say("%s was not delivered: %v", what, b.explain(err))
	}
	if m.Method == wire.Initialized && err == nil {
		b.follow(b.current())
	}
}

// cancel cancels a running request of the client: in a session by forwarding the notification,
// else by closing the request's stream.
func (b *bridge) cancel(ctx context.Context, m *wire.Message, frame []byte) {
	b.mu.Lock()
	c := b.running[string(jsonscan.Get(m.Params, "requestId"))]
	b.mu.Unlock()
	if c == nil {
		return // already answered
	}
	if !c.modern() {
		b.pass(ctx, m, frame)
	}
	c.cancel()
}

func (b *bridge) current() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// send writes a frame to the client. A write error ends the bridge.
func (b *bridge) send(frame []byte) {
	if err := b.out.send(frame); err != nil {
		b.end(fmt.Errorf("standard output: %w", err))
	}
}

func (b *bridge) say(format string, args ...any) {
	b.saying.Lock()
	defer b.saying.Unlock()
	b.o.Say(format, args...)
}

// drain waits until all requests are answered, for at most DrainTime or until ctx ends. It cancels
// listen requests first, which do not end by themselves.
func (b *bridge) drain(ctx context.Context) {
	idle := make(chan struct{})
	b.mu.Lock()
	b.idle = idle
	for _, c := range b.running {
		if c.method == wire.Listen {
			c.cancel()
		}
	}
	b.noteIdle()
	b.mu.Unlock()
	late := time.NewTimer(b.o.DrainTime)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	case <-ctx.Done():
	case <-b.ctx.Done():
	}
}

// noteIdle closes idle if no request runs. mu is held.
func (b *bridge) noteIdle() {
	if b.idle != nil && len(b.running) == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// close cancels the running requests and ends the session.
func (b *bridge) close() {
	s := b.current()
	if s != nil {
		s.end()
	}
	b.end(nil)
	b.work.Wait()
	if s := b.current(); s != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), endTime)
		defer cancel()
		s.delete(ctx)
	}
}

// writer writes whole frames, one per line.
type writer struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (o *writer) send(frame []byte) error {
	line := append(wire.Line(frame), '\n')
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.w.Write(line)
	return err
}
