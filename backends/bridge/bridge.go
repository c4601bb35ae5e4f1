// Package bridge carries the frames of one MCP client on a pair of pipes to an endpoint over
// Streamable HTTP, and back: for clients that can only start a program, in front of servers that
// run already.
//
// Frames pass as they are. What the bridge knows of MCP is what the two transports differ in:
//
//   - A client that says initialize gets one session at the endpoint. Its stream is kept open, so
//     that questions and notifications arrive, and a broken stream goes on behind its last event. A
//     session that the endpoint does not know any more, because it was restarted, is opened anew
//     with the client's own initialize, log level and subscriptions; the client is notified that
//     all lists may have changed.
//   - Requests of 2026-07-28 are posted one by one with the headers that repeat their body, those for
//     arguments of tools included, and are cancelled by closing their stream (basic/transports). A
//     stream of subscriptions/listen that breaks, or that the endpoint ends, is opened again, and the
//     client is notified that what it listens to may have changed.
//
// An endpoint that cannot be reached is an error answer to each request, at once.
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
	// maxRunning bounds the requests of the client that run at one time.
	maxRunning = 256
	// maxHeld bounds what they hold together, in bytes.
	maxHeld = 128 << 20
	// maxLarge is how many answers larger than smallFrame are read at one time.
	maxLarge   = 4
	smallFrame = 64 << 10

	// sendTime is how long the endpoint has to take what needs no answer, and initialize.
	sendTime = 30 * time.Second
	// endTime is how long it has to take the end of a session.
	endTime = 2 * time.Second
)

// Options say where the endpoint is.
type Options struct {
	URL *url.URL
	// Header goes with every request, such as Authorization.
	Header http.Header
	// Transport sends the requests.
	Transport http.RoundTripper
	// Say writes a message for a person. It is called by one goroutine at a time.
	Say func(format string, args ...any)
	// DrainTime is how long running requests have after the end of the input.
	DrainTime time.Duration
}

// Bridge is one client in front of one endpoint.
type Bridge struct {
	o       Options
	headers atomic.Pointer[http.Header]
	out     *writer
	large   chan struct{} // a token for each large answer that is being read
	work    sync.WaitGroup

	ctx context.Context // of all that it does
	end context.CancelCauseFunc

	schemas  schemas
	renewing sync.Mutex // held while a session is opened anew
	saying   sync.Mutex

	mu      sync.Mutex
	session *session                   // guarded by mu: of a client that said initialize
	running map[string]*call           // guarded by mu: by id
	held    int                        // guarded by mu: bytes of running requests
	idle    chan struct{}              // guarded by mu: closed when nothing runs; nil until the input has ended
	kept    map[string]json.RawMessage // guarded by mu: params to say again in a later session, by method and URI
}

// Serve carries frames until in ends and what came before is answered, or until ctx ends. The
// session at the endpoint ends with it.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	b := &Bridge{o: o, out: &writer{w: out}, large: make(chan struct{}, maxLarge), running: map[string]*call{}, kept: map[string]json.RawMessage{}}
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

// take passes on one frame of the client. Requests run side by side; all else goes in order.
func (b *Bridge) take(ctx context.Context, line []byte) {
	m, err := wire.Parse(line)
	switch {
	case err != nil && line[0] == '[' && b.current() != nil:
		b.start(&call{frame: line}) // of 2025-03-26; its answer is an array
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

// pass sends a notification or an answer, and waits until the endpoint has it.
func (b *Bridge) pass(ctx context.Context, m *wire.Message, frame []byte) {
	s := b.current()
	if s == nil {
		return // nothing of 2026-07-28 but requests goes to an endpoint
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
		what := cmp.Or(m.Method, "the client's answer to a question")
		b.say("%s was not delivered: %v", what, b.explain(err))
	}
	if m.Method == wire.Initialized && err == nil {
		b.follow(b.current())
	}
}

// cancel ends a running request of the client. At an endpoint with a session the notification
// says so, else the end of the request's stream.
func (b *Bridge) cancel(ctx context.Context, m *wire.Message, frame []byte) {
	b.mu.Lock()
	c := b.running[string(jsonscan.Get(m.Params, "requestId"))]
	b.mu.Unlock()
	if c == nil {
		return // it is answered already
	}
	if !c.modern() {
		b.pass(ctx, m, frame)
	}
	c.cancel()
}

func (b *Bridge) current() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// send writes a frame to the client. One that is gone ends the bridge.
func (b *Bridge) send(frame []byte) {
	if err := b.out.send(frame); err != nil {
		b.end(fmt.Errorf("standard output: %w", err))
	}
}

func (b *Bridge) say(format string, args ...any) {
	b.saying.Lock()
	defer b.saying.Unlock()
	b.o.Say(format, args...)
}

// drain waits until what runs is answered, for at most DrainTime or until ctx ends. What would
// never end by itself is ended.
func (b *Bridge) drain(ctx context.Context) {
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

// noteIdle reports that nothing runs, if somebody waits for that. mu is held.
func (b *Bridge) noteIdle() {
	if b.idle != nil && len(b.running) == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// close ends what runs, and the session.
func (b *Bridge) close() {
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

// writer writes whole frames, one a line.
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
