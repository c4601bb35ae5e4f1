package backends

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// subscriptions are the shared subscriptions to resources, and which of them the backend has acknowledged.
type subscriptions struct {
	renew chan struct{} // cap 1: uris have changed and the listen stream must be opened again

	mu       sync.Mutex
	uris     uris          // guarded by mu, like all below
	changes  uint64        // number of changes of uris
	on       *conn.Conn    // the connection of the latest listen stream
	acked    uint64        // the value of changes that the backend has acknowledged on the open stream
	progress chan struct{} // closed when acked changes
}

// open returns the uris to open a listen stream of a connection with, and the number of changes that they
// include.
func (s *subscriptions) open(on *conn.Conn) (uris []string, change uint64) {
	select {
	case <-s.renew: // the stream about to be opened has the change
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on != on {
		s.on, s.acked = on, 0
	}
	return slices.Clone(s.uris), s.changes
}

// acknowledged records that the backend has acknowledged a stream with so many changes, or that none is needed.
func (s *subscriptions) acknowledged(on *conn.Conn, change uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(on, max(s.acked, change))
}

// end records that the stream of a connection has ended. It reports whether it was the latest one.
func (s *subscriptions) end(on *conn.Conn) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(on, 0)
}

// noStream records that there will be no stream on a connection: nobody waits for an acknowledgement.
func (s *subscriptions) noStream(on *conn.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(on, math.MaxUint64)
}

// note sets acked and wakes those who wait for it; false, and nothing changes, if on is not the latest
// connection. mu is held.
func (s *subscriptions) note(on *conn.Conn, acked uint64) bool {
	if s.on != on {
		return false
	}
	s.acked = acked
	if s.progress != nil {
		close(s.progress)
		s.progress = nil
	}
	return true
}

// until reports whether so many changes are acknowledged; more is closed at the next change of that number.
func (s *subscriptions) until(change uint64) (acked bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.progress = make(chan struct{})
	}
	return s.acked >= change, s.progress
}

// acknowledgeTime is how long a client waits for the acknowledgement of a backend.
const acknowledgeTime = 5 * time.Second

// Subscribed waits until a modern backend has acknowledged the subscriptions so far, so that a client whose
// subscription is confirmed afterwards misses no update. It returns at once for a backend without a connection, and
// after acknowledgeTime at the latest.
func (b *Backend) Subscribed(ctx context.Context) {
	b = b.enter()
	defer b.leave()
	c := b.usable()
	if c == nil || !c.Modern {
		return // a legacy backend has responded to resources/subscribe
	}
	b.subs.mu.Lock()
	asked := b.subs.changes
	b.subs.mu.Unlock()
	late := time.NewTimer(acknowledgeTime)
	defer late.Stop()
	for {
		acked, more := b.subs.until(asked)
		if acked {
			return
		}
		select {
		case <-more:
		case <-late.C:
			b.log.Info("subscriptions are not acknowledged", "waited", acknowledgeTime)
			return
		case <-c.Lost():
			return
		case <-ctx.Done():
			return
		}
	}
}

// Subscribe subscribes to a resource, for all clients. The subscription is kept across
// reconnects, and when the backend is down now; Options.Updated is called for the updates.
func (b *Backend) Subscribe(ctx context.Context, uri string) error {
	return b.setSubscribed(ctx, uri, true)
}

// Unsubscribe ends what Subscribe began.
func (b *Backend) Unsubscribe(ctx context.Context, uri string) error {
	return b.setSubscribed(ctx, uri, false)
}

func (b *Backend) setSubscribed(ctx context.Context, uri string, on bool) error {
	b = b.enter()
	defer b.leave()
	if on && b.credentials.PerPrincipal() {
		return b.dialer.Errorf(Denied, "resources cannot be subscribed to on a shared connection: each principal has its own credential for this backend")
	}
	if !b.subs.set(uri, on) {
		return nil
	}
	c, err := b.await(ctx)
	if err != nil {
		return err
	}
	if c.Modern {
		b.subs.wake()
		return nil
	}
	if c, err = b.sharedOr(ctx, c); err != nil {
		return err
	}
	err = subscribe(ctx, c, uri, on)
	var answer *wire.Error
	if on && errors.As(err, &answer) {
		b.subs.set(uri, false)
	}
	return err
}

// SubscribeFor subscribes to a resource in the private session of caller, if there is one: changes that
// calls of the session make are announced in that session alone. own is false when the session uses a
// shared connection, and nothing was done.
func (b *Backend) SubscribeFor(ctx context.Context, caller *Caller, uri string) (own bool, err error) {
	return b.setSubscribedFor(ctx, caller, uri, true)
}

// UnsubscribeFor ends a subscription of SubscribeFor.
func (b *Backend) UnsubscribeFor(ctx context.Context, caller *Caller, uri string) error {
	_, err := b.setSubscribedFor(ctx, caller, uri, false)
	return err
}

func (b *Backend) setSubscribedFor(ctx context.Context, caller *Caller, uri string, on bool) (own bool, err error) {
	b = b.enter()
	defer b.leave()
	main, err := b.await(ctx)
	if err != nil {
		return false, err
	}
	if caller.Session == "" || b.sharing(main, caller) != Private {
		return false, nil
	}
	c, held, err := b.acquire(ctx, caller)
	if err != nil {
		return true, err
	}
	defer held.release()
	if held.private == nil || c.Modern {
		return false, nil
	}
	known := b.pool.noteSubscription(held.private, uri, on)
	if on {
		err = b.pool.ensureStream(ctx, c)
	}
	if err == nil {
		err = subscribe(ctx, c, uri, on)
	}
	if err != nil && on && !known {
		b.pool.noteSubscription(held.private, uri, false)
	}
	return true, err
}

func subscribe(ctx context.Context, c *conn.Conn, uri string, on bool) error {
	method := wire.Subscribe
	if !on {
		method = wire.Unsubscribe
	} else {
		c.AwaitStream(ctx) // the updates are sent on it
	}
	_, err := c.Request(ctx, method, conn.URI(uri))
	return err
}

// noteSubscription adds or removes a subscription of p; known reports whether it was there.
func (l *pool) noteSubscription(p *private, uri string, on bool) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.uris.set(uri, on)
}

// uris are the resources of subscriptions.
type uris []string

// set adds or removes a uri; was reports whether it was there.
func (u *uris) set(uri string, on bool) (was bool) {
	i := slices.Index(*u, uri)
	switch {
	case on && i < 0:
		*u = append(*u, uri)
	case !on && i >= 0:
		*u = slices.Delete(*u, i, i+1)
	}
	return i >= 0
}

// set adds or removes a subscription; false when nothing changed.
func (s *subscriptions) set(uri string, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uris.set(uri, on) == on {
		return false
	}
	s.changes++
	return true
}

func (s *subscriptions) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.uris)
}

func (s *subscriptions) wake() {
	select {
	case s.renew <- struct{}{}:
	default:
	}
}

// restore renews the subscriptions after a reconnect: on the shared connection where
// there is one, which is opened again if it was lost as well, else on the main one.
func (b *Backend) restore(main *conn.Conn) {
	if !b.hasShared(main) {
		b.resubscribe(main)
		return
	}
	if len(b.subs.list()) > 0 {
		ctx, cancel := context.WithTimeoutCause(b.ctx, b.Timeout(), conn.ErrDeadline)
		defer cancel()
		if _, err := b.sharedOr(ctx, main); err != nil {
			b.log.Info("subscriptions not renewed", "err", err)
		}
	}
}

// resubscribe subscribes to all resources again on a new connection to a legacy backend.
func (b *Backend) resubscribe(c *conn.Conn) {
	for _, uri := range b.subs.list() {
		if _, err := c.Request(c.Context(), wire.Subscribe, conn.URI(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listen keeps a subscriptions/listen stream open, on which a modern backend announces
// changes. Its acknowledgement makes notified mark all lists as stale, because changes
// may have been missed before.
func (b *Backend) listen(c *conn.Conn) {
	defer c.AwaitListening()
	var wait endpoint.Backoff
	for c.Usable() {
		uris, change := b.subs.open(c)
		params := conn.Listen(c.Peer.Capabilities, uris)
		if params == nil {
			b.subs.acknowledged(c, change)
			select {
			case <-b.subs.renew:
			case <-c.Lost():
			}
			continue
		}
		start := time.Now()
		err := c.Listen(params, b.subs.renew, func() { b.subs.acknowledged(c, change) })
		if err == conn.ErrRenew && c.Overlaps() {
			continue
		}
		if b.subs.end(c) {
			b.setListening(false)
		}
		var answer *wire.Error
		switch {
		case err == conn.ErrRenew:
			continue
		case errors.As(err, &answer) && answer.Code == wire.MethodNotFound, conn.KindOf(err) == Protocol:
			b.log.Info("backend does not support subscriptions/listen", "err", err)
			b.subs.noStream(c)
			return
		}
		b.suspect()
		if time.Since(start) > stableTime {
			wait.Reset()
		}
		endpoint.Sleep(c.Context(), wait.Next())
	}
	if b.subs.end(c) {
		b.setListening(false)
	}
}
