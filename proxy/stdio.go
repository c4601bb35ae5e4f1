package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// maxFrame is the largest frame held in memory, on stdio and as one event.
const maxFrame = 64 << 20

// finisher is where the response to a request goes.
type finisher interface {
	finish(id json.RawMessage, resp *backends.Response, err error)
}

// ServeStdio serves one client over newline-delimited frames until in ends or ctx does:
// with a session when it says initialize, statelessly when its requests carry their own
// _meta. It returns when everything it started has ended.
func (p *Proxy) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &stdioEdge{p: p, out: &lineWriter{w: out}, running: map[string]context.CancelFunc{}}
	defer e.close()
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go readLines(ctx, in, lines, failed)
	for {
		select {
		case line := <-lines:
			e.take(ctx, line)
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		case <-p.life.Done():
			return nil
		}
	}
}

// readLines ends with its input: a read from a pipe cannot be interrupted.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte, failed chan<- error) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			failed <- err
			return
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxFrame {
			return nil, fmt.Errorf("stdin: a message is larger than %d bytes", maxFrame)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// lineWriter writes whole frames, one a line.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *lineWriter) send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.Write(append(wire.Line(frame), '\n'))
}

func (l *lineWriter) finish(id json.RawMessage, resp *backends.Response, err error) {
	l.send(finalFrame(id, resp, err))
}

// stdioEdge is the one client on a pair of pipes.
type stdioEdge struct {
	p       *Proxy
	out     *lineWriter
	session *session // once the client said initialize
	work    sync.WaitGroup

	mu      sync.Mutex
	running map[string]context.CancelFunc // stateless requests by id, guarded by mu
}

func (e *stdioEdge) take(ctx context.Context, line []byte) {
	m, err := wire.Parse(line)
	switch {
	case err != nil:
		e.takeInvalid(ctx, line, m, err)
	case m.IsRequest() && m.Method == wire.Initialize:
		e.initialize(&m)
	case m.IsRequest():
		e.request(ctx, m)
	case m.IsNotification():
		e.notified(&m)
	case e.session != nil:
		e.session.answer(m)
	}
}

func (e *stdioEdge) takeInvalid(ctx context.Context, line []byte, m wire.Message, err error) {
	if s := e.session; s != nil && s.client.revision == wire.Rev2503 && isBatch(line) {
		e.work.Go(func() { e.batch(ctx, line) })
		return
	}
	e.out.send(wire.Failure(m.ID, err))
}

func (e *stdioEdge) batch(ctx context.Context, line []byte) {
	reply := &batchReply{session: e.session}
	if n := e.p.serveBatch(ctx, e.session, reply, line); n > maxBatch {
		e.out.send(wire.Failure(nil, wire.Invalid("a batch has at most %d messages", maxBatch)))
		return
	}
	if len(reply.answers) > 0 {
		e.out.send(append(append([]byte{'['}, bytes.Join(reply.answers, []byte{','})...), ']'))
	}
}

func (e *stdioEdge) initialize(m *wire.Message) {
	if e.session != nil {
		e.out.send(wire.Failure(m.ID, wire.Invalid("this connection is already initialized")))
		return
	}
	e.session = e.p.newSession(m.Params, "")
	e.session.out = e.out
	e.p.pipes.add(e.session)
	e.out.send(wire.Result(m.ID, e.p.initializeResult(e.session)))
}

// request serves a request on its own goroutine: others overtake it.
func (e *stdioEdge) request(ctx context.Context, m wire.Message) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := e.client(&m)
	if err == nil && !e.begin(m.ID, cancel) {
		err = wire.Invalid("id %s is in use", m.ID)
	}
	if err != nil {
		cancel()
		e.out.send(wire.Failure(m.ID, err))
		return
	}
	e.work.Go(func() {
		defer cancel()
		defer e.end(m.ID)
		e.serve(ctx, newExchange(e.p, c, m.Method, m.Params, e.out), m.ID)
	})
}

func (e *stdioEdge) serve(ctx context.Context, x *exchange, id json.RawMessage) {
	if x.method == wire.Listen && x.client.modern() {
		e.p.listen(ctx, x, id, e.out)
		return
	}
	resp, err := e.p.serve(ctx, x)
	defer release(resp)
	if ctx.Err() != nil && err != nil {
		return // cancelled: no response is wanted
	}
	e.out.finish(id, resp, err)
}

// client is the session's, or what a stateless request says of itself.
func (e *stdioEdge) client(m *wire.Message) (*client, error) {
	stateless := wire.GetPath(m.Params, "_meta", wire.MetaProtocolVersion) != nil
	if m.Method == wire.Discover || stateless {
		return e.p.statelessClient(m, nil, "")
	}
	if e.session != nil {
		return e.session.client, nil
	}
	if m.Method == wire.Ping {
		return (&session{client: &client{revision: wire.Legacy[0]}}).client, nil
	}
	return nil, wire.Invalid("%s came before initialize", m.Method)
}

func (e *stdioEdge) begin(id json.RawMessage, cancel context.CancelFunc) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.running[string(id)]; taken {
		return false
	}
	e.running[string(id)] = cancel
	return true
}

func (e *stdioEdge) end(id json.RawMessage) {
	e.mu.Lock()
	delete(e.running, string(id))
	e.mu.Unlock()
}

func (e *stdioEdge) notified(m *wire.Message) {
	if m.Method == wire.Cancelled {
		e.mu.Lock()
		cancel := e.running[string(wire.Get(m.Params, "requestId"))]
		e.mu.Unlock()
		if cancel != nil {
			cancel()
		}
		return
	}
	if e.session != nil {
		e.p.notified(e.session, m)
	}
}

// close cancels what runs, waits for it and ends the session.
func (e *stdioEdge) close() {
	e.mu.Lock()
	for _, cancel := range e.running {
		cancel()
	}
	e.mu.Unlock()
	if e.session != nil {
		e.p.pipes.remove(e.session.id)
		e.p.endSession(e.session)
	}
	e.work.Wait()
}
