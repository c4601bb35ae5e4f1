package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// frames is a two-way stream of frames: the pipes of a child process, or the event
// stream and endpoint of the old HTTP transport.
type frames interface {
	// read returns the next frame in a buffer that the caller owns, or in memory of its own.
	read() (frame []byte, held *buffer, err error)
	// write sends one frame. started says whether any of it may have reached the backend;
	// an error that wraps errPartial, that no other frame can be sent after it.
	write(ctx context.Context, frame []byte) (started bool, err error)
	// close ends the stream; read then returns an error.
	close()
}

var errPartial = errors.New("sent in part")

// pipe is a link over one stream of frames that all calls share.
type pipe struct {
	c      *conn
	stream frames
	done   chan struct{} // closed when the reader has ended
	once   sync.Once
}

// startPipe makes a pipe the link of c and starts to read.
func startPipe(c *conn, s frames) {
	p := &pipe{c: c, stream: s, done: make(chan struct{})}
	c.link, c.multiplexed = p, true
	go p.read()
}

// read hands every incoming frame to whom it belongs, until the stream ends.
func (p *pipe) read() {
	defer close(p.done)
	for {
		frame, held, err := p.stream.read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the backend closed the connection")
			}
			p.c.fail(err)
			return
		}
		p.dispatch(frame, held)
	}
}

func (p *pipe) dispatch(frame []byte, held *buffer) {
	m, err := wire.Skim(frame)
	switch {
	case err != nil:
		p.c.b.junk(frame, err)
	case m.Method == "":
		if k := p.c.lookup(m.ID); k != nil && k.queue != nil {
			p.c.concluded(k)
			k.queue.finish(m, held)
			return // the call releases the buffer
		}
	default:
		// What goes on to a client is checked for being JSON; it keeps its buffer.
		if m, err = wire.Parse(frame); err != nil {
			p.c.b.junk(frame, err)
			return
		}
		p.c.receive(nil, m)
		return
	}
	if held != nil {
		held.release()
	}
}

func (p *pipe) roundTrip(k *call) (*Response, error) {
	if started, err := p.write(k.ctx, k.frame); err != nil {
		return nil, p.c.b.failure(k.ctx, err, started)
	}
	return p.wait(k)
}

// wait drains the call's queue until its answer, its end or the connection's end.
func (p *pipe) wait(k *call) (*Response, error) {
	for {
		select {
		case <-k.queue.signal:
		case <-k.ctx.Done():
			return nil, p.c.b.stopped(k.ctx, true)
		case <-p.done:
			// The reader has ended: what it queued is complete.
			if resp, err, over := k.drain(); over {
				return resp, err
			}
			return nil, &Error{Backend: p.c.b.name, Kind: Interrupted, Err: fmt.Errorf("%s: %w", k.method, p.c.cause())}
		}
		if resp, err, over := k.drain(); over {
			return resp, err
		}
	}
}

// drain delivers what is queued; over when the answer was behind it.
func (c *call) drain() (resp *Response, err error, over bool) {
	items, answer, held := c.queue.take()
	for _, m := range items {
		c.handle(m)
	}
	if answer == nil {
		return nil, nil, false
	}
	resp, err = answered(answer, held)
	return resp, err, true
}

// answered makes a response of an answer frame.
func answered(m *wire.Message, held *buffer) (*Response, error) {
	if m.Error == nil {
		return &Response{Result: m.Result, held: held}, nil
	}
	err := wire.ParseErrorObject(m.Error)
	if held != nil {
		held.release()
	}
	return nil, err
}

// write sends a frame; one that was sent in part ends the connection.
func (p *pipe) write(ctx context.Context, frame []byte) (started bool, err error) {
	started, err = p.stream.write(ctx, frame)
	if errors.Is(err, errPartial) {
		p.c.fail(err)
	}
	return started, err
}

func (p *pipe) send(ctx context.Context, frame []byte) error {
	_, err := p.write(ctx, frame)
	return err
}

func (p *pipe) cancel(k *call) {
	switch k.method {
	case wire.Initialize, wire.Discover: // must not be cancelled; comes before initialize
	default:
		p.c.reply(cancelFrame(k))
	}
}

func (p *pipe) close() {
	p.once.Do(p.stream.close)
	<-p.done
}
