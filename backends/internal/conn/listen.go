package conn

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ErrRenew is the outcome of a listen stream that must be opened again with other uris.
var ErrRenew = errors.New("subscriptions changed")

// renewGrace bounds the wait for the end of a cancelled listen request before the next one.
const renewGrace = 500 * time.Millisecond

// streams are the listen streams of a connection.
type streams struct {
	last   *call // the latest
	before *call // the previous one, kept until last is acknowledged; nil for none
}

// Listen keeps one listen stream open until it ends or renew receives, which is ErrRenew. acked is called when the
// backend has acknowledged the stream. Where streams overlap (Overlaps), the previous one stays open until then, so
// that no change between them is missed.
func (c *Conn) Listen(params json.RawMessage, renew <-chan struct{}, acked func()) error {
	k := c.begin(c.ctx, &Request{Method: wire.Listen, Params: params}, 0)
	c.mu.Lock()
	k.acked, c.streams.last = acked, k
	c.mu.Unlock()
	over := make(chan error, 1)
	c.listening.Go(func() {
		resp, err := c.transport.roundTrip(k)
		if err == nil {
			err = resp.Close()
		}
		k.Finish()
		over <- err
	})
	select {
	case err := <-over:
		return err
	case <-renew:
	}
	if c.Overlaps() {
		c.outlast(k)
		return ErrRenew
	}
	// The old request ends before there is a new one: some backends keep one set of subscriptions for a shared
	// stream of frames.
	c.send(encodeCancelled(k.id))
	late := time.NewTimer(renewGrace)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		k.clock.Cancel(ErrRenew)
		<-over
	}
	return ErrRenew
}

// Overlaps reports whether a listen stream stays open while its replacement is opened.
func (c *Conn) Overlaps() bool { return !c.multiplexed }

// AwaitListening waits until the listen streams of a lost connection have ended.
func (c *Conn) AwaitListening() { c.listening.Wait() }

// outlast keeps a listen stream open until the next one is acknowledged, or, if it was not acknowledged itself, ends it
// and keeps the previous one.
func (c *Conn) outlast(k *call) {
	c.mu.Lock()
	over := k
	if k.acked == nil {
		over, c.streams.before = c.streams.before, k
	}
	c.streams.last = nil
	c.mu.Unlock()
	over.endListening()
}

// acknowledged records that the backend has acknowledged the latest listen stream; false for another one.
func (c *Conn) acknowledged(of *call) bool {
	c.mu.Lock()
	k := c.streams.last
	if k == nil || of != nil && of != k {
		c.mu.Unlock()
		return false
	}
	before, acked := c.streams.before, k.acked
	k.acked, c.streams.before = nil, nil
	c.mu.Unlock()
	before.endListening()
	if acked != nil {
		acked()
	}
	return true
}

// endListening ends a listen stream; c may be nil.
func (c *call) endListening() {
	if c != nil {
		c.clock.Cancel(ErrRenew)
	}
}
