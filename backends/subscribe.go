package backends

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// subscriptions are the resources whose changes somebody wants to hear of.
type subscriptions struct {
	mu    sync.Mutex
	uris  []string      // guarded by mu
	renew chan struct{} // cap 1: the listen stream must be opened with other uris
}

// Subscribe asks for updates of a resource, or ends that. It is remembered across
// reconnects, and when the backend cannot be asked now; Options.Updated hears of the
// updates.
func (b *Backend) Subscribe(ctx context.Context, uri string, on bool) error {
	if !b.subs.set(uri, on) {
		return nil
	}
	c, err := b.await(ctx)
	if err != nil {
		return err
	}
	if c.modern {
		b.subs.wake()
		return nil
	}
	if c, err = b.common(ctx, c); err != nil {
		return err
	}
	method := wire.Subscribe
	if !on {
		method = wire.Unsubscribe
	}
	_, err = c.request(ctx, method, uriParams(uri))
	var answer *wire.Error
	if on && errors.As(err, &answer) {
		b.subs.set(uri, false)
	}
	return err
}

// SubscribeFor asks for updates of a resource on the connection that is the own one of
// caller's session, when it has one: what the session's calls change, only that
// connection hears of. own is false when the session shares the main connection, and
// nothing was done.
func (b *Backend) SubscribeFor(ctx context.Context, caller *Caller, uri string, on bool) (own bool, err error) {
	main, err := b.await(ctx)
	if err != nil {
		return false, err
	}
	if caller.Session == "" || b.shares(main, caller) || main.turn != nil && !b.bothEras(main, caller) {
		return false, nil
	}
	method := wire.Subscribe
	if !on {
		method = wire.Unsubscribe
	}
	resp, err := b.Call(ctx, &Request{Method: method, Params: uriParams(uri), For: caller})
	if err != nil {
		return true, err
	}
	b.sessionSubs.set(caller.Session, uri, on)
	return true, resp.Close()
}

// sessionSubscriptions are the resources that sessions follow on connections of their
// own, by session. They are asked for again when such a connection is opened anew.
type sessionSubscriptions struct {
	mu  sync.Mutex
	all map[string][]string // uris by session, guarded by mu
}

func (s *sessionSubscriptions) set(session, uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := slices.DeleteFunc(s.all[session], func(u string) bool { return u == uri })
	if on {
		uris = append(uris, uri)
	}
	if s.all == nil {
		s.all = map[string][]string{}
	}
	s.all[session] = uris
	if len(uris) == 0 {
		delete(s.all, session)
	}
}

func (s *sessionSubscriptions) of(session string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all[session])
}

func (s *sessionSubscriptions) has(session string) bool { return len(s.of(session)) > 0 }

func (s *sessionSubscriptions) forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, session)
}

// renewSubscriptions asks again, on a new connection, for what its session follows.
func (b *Backend) renewSubscriptions(ctx context.Context, l *lease) {
	for _, uri := range b.sessionSubs.of(l.key.session) {
		if _, err := l.conn.request(ctx, wire.Subscribe, uriParams(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

func uriParams(uri string) json.RawMessage {
	return append(append([]byte(`{"uri":`), wire.Quote(uri)...), '}')
}

// set notes a subscription; false when nothing changed.
func (s *subscriptions) set(uri string, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.uris, uri)
	switch {
	case on && i < 0:
		s.uris = append(s.uris, uri)
	case !on && i >= 0:
		s.uris = slices.Delete(s.uris, i, i+1)
	default:
		return false
	}
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

// restore asks for the subscriptions again after a reconnect. Where there is a plain
// connection it has them, and is opened anew if it was lost as well.
func (b *Backend) restore(main *conn) {
	if !b.apart(main) {
		b.resubscribe(main)
		return
	}
	if len(b.subs.list()) > 0 {
		ctx, cancel := context.WithTimeoutCause(b.ctx, b.timeout, errDeadline)
		defer cancel()
		if _, err := b.common(ctx, main); err != nil {
			b.log.Info("subscriptions not renewed", "err", err)
		}
	}
}

// resubscribe asks a legacy backend for the updates that an earlier connection had.
func (b *Backend) resubscribe(c *conn) {
	for _, uri := range b.subs.list() {
		if _, err := c.request(c.ctx, wire.Subscribe, uriParams(uri)); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listen keeps the stream on which a modern backend announces changes. What may have
// been missed while there was none is fetched again when it is acknowledged.
func (b *Backend) listen(c *conn) {
	wait := newBackoff()
	for c.ctx.Err() == nil {
		params := listenParams(c.hello.Capabilities, b.subs.list())
		if params == nil {
			select {
			case <-b.subs.renew:
			case <-c.lost():
			}
			continue
		}
		start := time.Now()
		err := b.listenOnce(c, params)
		var answer *wire.Error
		switch {
		case err == errRenew:
			continue
		case errors.As(err, &answer) && answer.Code == wire.MethodNotFound, kindOf(err) == Protocol:
			b.log.Info("backend announces no changes", "err", err)
			return
		}
		b.suspect()
		if time.Since(start) > stableTime {
			wait.Reset()
		}
		sleep(c.ctx, wait.NextBackOff())
	}
}

// errRenew ends a listen stream that must be opened with other uris.
var errRenew = errors.New("subscriptions changed")

// renewGrace is how long a cancelled listen request may take to end before the next one.
const renewGrace = 500 * time.Millisecond

// listenOnce holds one listen stream until it ends, or until other uris are wanted.
func (b *Backend) listenOnce(c *conn, params json.RawMessage) error {
	defer b.setListening(false)
	k := c.begin(c.ctx, &Request{Method: wire.Listen, Params: params}, 0)
	defer k.finish()
	over := make(chan struct{})
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer close(over)
	renewing.Go(func() { b.renew(k, over) })
	resp, err := c.link.roundTrip(k)
	if err == nil {
		err = resp.Close()
	}
	if k.renewed.Load() {
		return errRenew
	}
	return err
}

// renew ends a listen stream when other uris are wanted. On a shared stream of frames
// it lets the backend end the old request before there is a new one: some keep one set
// of subscriptions for both.
func (b *Backend) renew(k *call, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-b.subs.renew:
	}
	k.renewed.Store(true)
	if k.queue != nil {
		k.conn.send(cancelFrame(k))
		late := time.NewTimer(renewGrace)
		defer late.Stop()
		select {
		case <-over:
			return
		case <-late.C:
		}
	}
	k.clock.cancel(errRenew)
}

// listenParams asks for every change that the backend says it announces, and for
// updates of uris; nil when that is nothing.
func listenParams(capabilities json.RawMessage, uris []string) json.RawMessage {
	filter := map[string]any{}
	for member, capability := range map[string]string{
		"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources",
	} {
		if string(wire.GetPath(capabilities, capability, "listChanged")) == "true" {
			filter[member] = true
		}
	}
	if len(uris) > 0 {
		filter["resourceSubscriptions"] = uris
	}
	if len(filter) == 0 {
		return nil
	}
	params, _ := json.Marshal(map[string]any{"notifications": filter})
	return params
}
