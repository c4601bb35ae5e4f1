package backends

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/encode"
	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// subscriptions are the resources of whose changes clients are notified.
type subscriptions struct {
	mu    sync.Mutex
	uris  uris          // guarded by mu
	renew chan struct{} // cap 1: the listen stream must be opened with other uris
}

// Subscribe asks for updates of a resource. It is remembered across reconnects, and when the
// backend cannot be asked now; Options.Updated is called for the updates.
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
		return b.dialer.Errorf(Denied, "a subscription that clients share: each principal has a credential of its own with this backend")
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

// SubscribeFor asks for updates of a resource on the connection that is the own one of
// caller's session, when it has one: what the session's calls change, only that
// connection is notified of. own is false when the session shares a connection, and nothing was done.
func (b *Backend) SubscribeFor(ctx context.Context, caller *Caller, uri string) (own bool, err error) {
	return b.setSubscribedFor(ctx, caller, uri, true)
}

// UnsubscribeFor ends what SubscribeFor began on a connection of the session's own.
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
	if caller.Session == "" || b.sharing(main, caller) != sharing.Private {
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
	}
	_, err := c.Request(ctx, method, encode.URI(uri))
	return err
}

// noteSubscription notes what p's client is subscribed to on it; known says whether it was.
func (l *pool) noteSubscription(p *private, uri string, on bool) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.uris.set(uri, on)
}

// uris are resources that somebody is subscribed to.
type uris []string

// set adds or removes one; was says whether it was there.
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

// set notes a subscription; false when nothing changed.
func (s *subscriptions) set(uri string, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uris.set(uri, on) != on
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

// restore asks for the subscriptions again after a reconnect. Where there is a shared
// connection it has them, and is opened anew if it was lost as well.
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

// resubscribe asks a legacy backend for the updates that an earlier connection had.
func (b *Backend) resubscribe(c *conn.Conn) {
	for _, uri := range b.subs.list() {
		if _, err := c.Request(c.Context(), wire.Subscribe, encode.URI(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listen keeps the stream on which a modern backend announces changes. What may have
// been missed while there was none is fetched again when it is acknowledged.
func (b *Backend) listen(c *conn.Conn) {
	var wait pace.Backoff
	for c.Usable() {
		params := encode.Listen(c.Peer.Capabilities, b.subs.list())
		if params == nil {
			select {
			case <-b.subs.renew:
			case <-c.Lost():
			}
			continue
		}
		start := time.Now()
		err := c.Listen(params, b.subs.renew)
		b.setListening(false)
		var answer *wire.Error
		switch {
		case err == conn.ErrRenew:
			continue
		case errors.As(err, &answer) && answer.Code == wire.MethodNotFound, conn.KindOf(err) == Protocol:
			b.log.Info("backend announces no changes", "err", err)
			return
		}
		b.suspect()
		if time.Since(start) > stableTime {
			wait.Reset()
		}
		pace.Sleep(c.Context(), wait.Next())
	}
}
