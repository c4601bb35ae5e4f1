package conn

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// streamTime bounds the wait for the stream of a session before a message that may cause requests
// on it is sent.
const streamTime = time.Second

// A sessionStream is the GET stream on which a legacy backend sends messages that belong to no
// call. A shared connection always has one, a private session only while its client can receive
// messages, because each counts as a connection.
type sessionStream struct {
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan struct{} // closed after the response to the first GET
	slot   Slot          // released at its end; nil for none
}

// startStream opens the stream of a shared connection.
func (h *httpTransport) startStream() { h.openStream(nil) }

// openStream opens the stream; false when one is open.
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

// EnsureStream opens the stream of a private session where the transport has one, and waits
// until the backend has responded. The stream has the slot that reserve returns, unless the
// connection has one.
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

// Streaming reports whether c has a stream that can be closed without ending the session.
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

// Slot returns the slot of the stream or of the connection; nil for none.
func (c *Conn) Slot() Slot {
	if h, ok := c.transport.(*httpTransport); ok {
		if o := h.stream.Load(); o != nil && o.slot != nil {
			return o.slot
		}
	}
	return c.reserved
}

// readStream reads the stream until it is closed, and reopens it when it breaks.
func (h *httpTransport) readStream(o *sessionStream) {
	defer h.ended(o)
	pos, taken := endpoint.Start, endpoint.Backoff{}
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
			endpoint.Sleep(o.ctx, taken.Next())
			continue
		case h.streamRefused(o.ctx, err):
			return
		}
		if o.ctx.Err() != nil {
			return
		}
		h.c.d.o.Suspect()
		endpoint.Sleep(o.ctx, endpoint.Jittered(pos.Retry))
	}
	if !asked {
		close(o.asked)
	}
}

// streamTaken reports whether err is 409: the backend allows one reader, and still has that of the process that had the
// session before.
func streamTaken(err error) bool {
	var status *endpoint.StatusError
	return errors.As(err, &status) && status.Code == http.StatusConflict
}

// streamRefused reports whether err means that there will be no stream: the backend has none (405),
// or it has forgotten the session (404 or 400, if a ping gets it, too).
func (h *httpTransport) streamRefused(ctx context.Context, err error) bool {
	var status *endpoint.StatusError
	if !errors.As(err, &status) || status.Code >= 500 {
		return false
	}
	if h.id.Load() != nil && (status.Code == http.StatusNotFound || status.Code == http.StatusBadRequest) {
		h.c.Request(ctx, wire.Ping, nil) // fails the connection if the session is gone
	}
	return true
}

// noteStream records, by a shared connection, whether the backend has GET streams.
func (d *Dialer) noteStream(c *Conn, err error) {
	var status *endpoint.StatusError
	if !c.OnDemand && (err == nil || errors.As(err, &status)) {
		d.streamless.Store(err != nil && status.Code == http.StatusMethodNotAllowed)
	}
}

// awaitStream waits until the backend has responded to the first GET, at most streamTime.
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
