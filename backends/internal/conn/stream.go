package conn

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// streamTime is how long a backend may take to open the stream of a session before what it may
// want to ask about there is sent.
const streamTime = time.Second

// A sessionStream is the stream on which a legacy backend sends over HTTP what belongs to no
// call. A shared connection has it always, a private session while somebody may get
// something from it: each is a connection.
type sessionStream struct {
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan struct{} // closed when the backend has answered whether it has such a stream
	slot   Slot          // what it counts as while it is open; nil for one that is not counted
}

// startStream opens the stream of a shared connection.
func (h *httpTransport) startStream() { h.openStream(nil) }

// openStream opens the stream; false when there is one.
func (h *httpTransport) openStream(s Slot) bool {
	o := &sessionStream{asked: make(chan struct{}), slot: s}
	o.ctx, o.cancel = context.WithCancel(h.c.ctx)
	if !h.stream.CompareAndSwap(nil, o) {
		o.cancel()
		return false
	}
	if !h.c.d.o.Spawn(func() { h.readStream(o) }) {
		h.ended(o)
		close(o.asked)
	}
	return true
}

func (h *httpTransport) ended(o *sessionStream) {
	o.cancel()
	h.stream.CompareAndSwap(o, nil)
	if o.slot != nil {
		o.slot.Release()
	}
}

// EnsureStream opens the stream of a private session where there is such a thing, and waits
// until the backend has it. The stream counts as what reserve returns, unless the connection
// counts as something already.
func (c *Conn) EnsureStream(ctx context.Context, reserve func(context.Context) (Slot, error)) error {
	h, ok := c.transport.(*httpTransport)
	if !ok || c.Modern || h.stream.Load() != nil || c.d.streamless.Load() {
		return nil
	}
	var s Slot
	if c.reserved == nil {
		var err error
		if s, err = reserve(ctx); err != nil {
			return err
		}
	}
	if !h.openStream(s) && s != nil {
		s.Release()
	}
	h.awaitStream(ctx)
	return nil
}

// Streaming reports whether c is a session whose stream can be closed without ending it.
func (c *Conn) Streaming() bool {
	h, ok := c.transport.(*httpTransport)
	return ok && c.reserved == nil && h.stream.Load() != nil
}

// EndStream closes the stream, not the session.
func (c *Conn) EndStream() {
	if h, ok := c.transport.(*httpTransport); ok {
		if o := h.stream.Load(); o != nil {
			o.cancel()
		}
	}
}

// Slot is what c counts as: a connection all the time, or its stream; nil for nothing.
func (c *Conn) Slot() Slot {
	if h, ok := c.transport.(*httpTransport); ok {
		if o := h.stream.Load(); o != nil && o.slot != nil {
			return o.slot
		}
	}
	return c.reserved
}

// readStream reads the stream until it is closed, and opens it again when it breaks.
func (h *httpTransport) readStream(o *sessionStream) {
	defer h.ended(o)
	pos, taken := endpoint.Start, pace.Backoff{}
	asked := false
	for o.ctx.Err() == nil {
		resp, err := h.at.Get(o.ctx, pos.Last)
		if err == nil || !asked {
			h.c.d.noteStream(h.c, err)
		}
		first := !asked
		if first {
			asked = true
			close(o.asked)
		}
		switch {
		case err == nil:
			taken.Reset()
			h.c.d.o.Streaming(h.c, first)
			h.scanAll(resp.Body, &pos)
		case streamTaken(err):
			pace.Sleep(o.ctx, taken.Next())
			continue
		case h.streamRefused(o.ctx, err):
			return
		}
		if o.ctx.Err() != nil {
			return
		}
		h.c.d.o.Suspect()
		pace.Sleep(o.ctx, pace.Jittered(pos.Retry))
	}
	if !asked {
		close(o.asked)
	}
}

// streamTaken reports whether err means that somebody reads the stream already (409), and the backend lets only one do so: the process that
// had the session before, until it goes on or its connection is found dead.
func streamTaken(err error) bool {
	var status *endpoint.StatusError
	return errors.As(err, &status) && status.Code == http.StatusConflict
}

// streamRefused reports whether err means that there is no stream to be had: the backend has
// none (405), or it has forgotten the session (404; some say 400, which then a ping gets, too).
func (h *httpTransport) streamRefused(ctx context.Context, err error) bool {
	var status *endpoint.StatusError
	if !errors.As(err, &status) || status.Code >= 500 {
		return false
	}
	switch {
	case h.id.Load() == nil:
	case status.Code == http.StatusNotFound:
		h.c.Fail(ErrSessionGone)
	case status.Code == http.StatusBadRequest:
		h.c.Request(ctx, wire.Ping, nil) // fails the connection if the session is gone
	}
	return true
}

// noteStream remembers from a connection that is not one client's whether the backend has streams of its own.
func (d *Dialer) noteStream(c *Conn, err error) {
	var status *endpoint.StatusError
	if !c.OnDemand && (err == nil || errors.As(err, &status)) {
		d.streamless.Store(err != nil && status.Code == http.StatusMethodNotAllowed)
	}
}

// awaitStream waits until the backend has the stream or has answered that it has none.
func (h *httpTransport) awaitStream(ctx context.Context) {
	o := h.stream.Load()
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	select {
	case <-o.asked:
	case <-ctx.Done():
	}
}
