package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmcp-dev/vmcp/backends/internal/child"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// frameStream is a two-way stream of frames: the pipes of a child process, or the event
// stream and endpoint of the old HTTP transport.
type frameStream interface {
	// read returns the next frame, in the buffer held, which the caller releases, or in other memory if held
	// is nil.
	read() (frame []byte, held *Buffer, err error)
	// write sends one frame. started says whether any of it may have reached the backend;
	// after an error that wraps child.ErrPartial no other frame can be sent.
	write(ctx context.Context, frame []byte) (started bool, err error)
	// close ends the stream; read then returns an error.
	close()
}

// multiplexer is a transport over one stream of frames that all calls share.
type multiplexer struct {
	c      *Conn
	stream frameStream
	done   chan struct{} // closed when the reader has ended
	once   sync.Once
}

// startMultiplexer makes a multiplexer the transport of c and starts to read.
func startMultiplexer(c *Conn, s frameStream) {
	x := &multiplexer{c: c, stream: s, done: make(chan struct{})}
	c.transport, c.multiplexed = x, true
	go x.read()
}

// read dispatches the incoming frames until the stream ends.
func (x *multiplexer) read() {
	defer close(x.done)
	for {
		frame, held, err := x.stream.read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the backend closed the connection")
			}
			x.c.Fail(err)
			return
		}
		x.dispatch(frame, held)
	}
}

func (x *multiplexer) dispatch(frame []byte, held *Buffer) {
	m, err := wire.Skim(frame)
	switch {
	case err != nil:
		x.c.d.logMalformed(frame, err)
		if k := x.c.lookup(m.ID); k != nil && k.queue != nil && m.Method == "" {
			x.c.concluded(k)
			k.queue.Finish(wire.Message{}, nil) // responds with an invalid response
		}
	case m.Method == "":
		if k := x.c.lookup(m.ID); k != nil && k.queue != nil {
			x.c.concluded(k)
			k.queue.Finish(m, held)
			return // the call releases the buffer
		}
	default:
		// A forwarded message is checked for valid JSON.
		if m, err = wire.Parse(frame); err != nil {
			x.c.d.logMalformed(frame, err)
			break
		}
		x.c.receive(nil, m)
	}
	if held != nil {
		held.Release()
	}
}

func (x *multiplexer) roundTrip(k *call) (*Response, error) {
	if started, err := x.write(k.ctx, k.frame); err != nil {
		return nil, x.c.d.Failure(k.ctx, err, started)
	}
	return x.wait(k)
}

// wait drains the call's queue until the response, the end of the call or the end of the connection.
func (x *multiplexer) wait(k *call) (*Response, error) {
	for {
		select {
		case <-k.queue.Ready():
		case <-k.ctx.Done():
			return nil, x.c.d.stopped(k.ctx, true)
		case <-x.done:
			// The reader has ended: nothing more is queued.
			if resp, err, over := k.drain(); over {
				return resp, err
			}
			return nil, &Error{Backend: x.c.d.name, Kind: Interrupted, Err: fmt.Errorf("%s: %w", k.method, x.c.Cause())}
		}
		if resp, err, over := k.drain(); over {
			return resp, err
		}
	}
}

// drain delivers the queued messages; over is set when the response was among them.
func (c *call) drain() (resp *Response, err error, over bool) {
	items, answer, held, err := c.queue.Take()
	if err != nil {
		return nil, c.conn.d.Errorf(Interrupted, "%s: %w", c.method, err), true
	}
	for i := range items {
		c.handle(items[i], onClientStream)
		c.queue.Handled(&items[i])
	}
	if answer == nil {
		return nil, nil, false
	}
	resp, err = c.respond(answer, held)
	return resp, err, true
}

// respond returns the response or error of a frame that was split by structure only. Results up
// to payload.Large bytes are checked for valid JSON here; of larger ones a part may have been
// passed on before the end is read.
func (c *call) respond(m *wire.Message, held *Buffer) (*Response, error) {
	err := c.check(m)
	switch {
	case err == nil && m.Error == nil:
		return pooled(m.Result, held), nil
	case err == nil:
		err = wire.ParseErrorObject(m.Error)
	}
	if held != nil {
		held.Release()
	}
	return nil, err
}

// check refuses a response of up to payload.Large bytes that is not valid JSON.
func (c *call) check(m *wire.Message) error {
	value := m.Result
	if m.Error != nil {
		value = m.Error
	}
	if len(value) <= Large && !jsonscan.Valid(value) {
		return c.Malformed(errors.New("the response is not valid JSON"))
	}
	return nil
}

// Broken returns the error of a call whose response broke off.
func (c *call) Broken(err error) error { return c.conn.d.Failure(c.ctx, err, true) }

// Malformed returns the error of a call whose response is not valid.
func (c *call) Malformed(err error) error {
	return c.conn.d.Errorf(Protocol, "%s: %w", c.method, err)
}

// write sends a frame; a partial write ends the connection.
func (x *multiplexer) write(ctx context.Context, frame []byte) (started bool, err error) {
	started, err = x.stream.write(ctx, frame)
	if errors.Is(err, child.ErrPartial) {
		x.c.Fail(err)
	}
	return started, err
}

func (x *multiplexer) send(ctx context.Context, frame []byte) error {
	_, err := x.write(ctx, frame)
	return err
}

func (x *multiplexer) cancel(k *call) {
	switch k.method {
	case wire.Initialize, wire.Discover: // initialize must not be cancelled; server/discover precedes it
	default:
		x.c.later(encodeCancelled(k.id))
	}
}

func (x *multiplexer) close() {
	x.once.Do(x.stream.close)
	<-x.done
}
