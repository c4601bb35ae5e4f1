package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// subscriptions counts who wants to hear of a resource, so that its backend is asked
// once however many clients do. Backends are asked side by side: one that is slow holds up
// only those who want its own resources.
type subscriptions struct {
	p   *Proxy
	mu  sync.Mutex
	all map[string]*followed // by URI, guarded by mu
}

// followed is what is known of one resource while anybody follows it or changes that.
type followed struct {
	mu      sync.Mutex // held while the backend is asked
	clients int        // guarded by mu
	users   int        // who holds or waits for mu; guarded by subscriptions.mu
}

// with calls f with the subscription of a resource, alone.
func (t *subscriptions) with(uri string, f func(*followed)) {
	t.mu.Lock()
	s := t.all[uri]
	if s == nil {
		s = new(followed)
		if t.all == nil {
			t.all = map[string]*followed{}
		}
		t.all[uri] = s
	}
	s.users++
	t.mu.Unlock()
	s.mu.Lock()
	f(s)
	unused := s.clients == 0
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 && unused {
		delete(t.all, uri)
	}
}

// add follows a resource for one more client. note, if any, tells the client's session;
// it is false when the session is over or follows the resource already, and is not counted.
func (t *subscriptions) add(ctx context.Context, uri string, note func() bool) (err error) {
	e := t.p.catalog.Load().resource(uri)
	if e == nil {
		return wire.Errorf(wire.InvalidParams, "resource not found: %s", uri)
	}
	t.with(uri, func(s *followed) {
		if s.clients == 0 {
			err = e.backend.Subscribe(ctx, uri, true)
		}
		switch {
		case err != nil:
		case note == nil || note():
			s.clients++
		case s.clients == 0:
			t.end(ctx, e, uri)
		}
	})
	if err != nil {
		return relayError(err)
	}
	return nil
}

// remove is add undone.
func (t *subscriptions) remove(ctx context.Context, uri string) {
	t.with(uri, func(s *followed) {
		e := t.p.catalog.Load().resource(uri)
		if s.clients--; s.clients == 0 && e != nil {
			t.end(ctx, e, uri)
		}
	})
}

// end tells a backend that nobody follows a resource. One that cannot be told goes on
// sending, to nobody.
func (t *subscriptions) end(ctx context.Context, e *entry, uri string) {
	if err := e.backend.Subscribe(ctx, uri, false); err != nil {
		t.p.log.Debug("unsubscribe", "backend", e.backend.Name(), "uri", uri, "err", err)
	}
}

// leave removes what a client followed that is gone. Nobody waits for the backends.
func (t *subscriptions) leave(uris []string) {
	for _, uri := range uris {
		t.p.spawn(func() { t.remove(t.p.life, uri) })
	}
}

// resourceUpdated tells everybody who subscribed, or the one session on whose own
// connection the backend said so.
func (p *Proxy) resourceUpdated(be *backends.Backend, of, uri string, params json.RawMessage) {
	if e := p.catalog.Load().resource(uri); e == nil || e.backend != be {
		return
	}
	params = cleanMeta(params)
	frame := wire.Notification(wire.ResUpdated, params)
	p.eachSession(func(s *session) {
		if s.follows(uri, of != "") && (of == "" || of == s.id) {
			s.notify(frame)
		}
	})
	if of != "" {
		return
	}
	p.listeners.each(func(l *listener) {
		if slices.Contains(l.uris, uri) {
			l.send(wire.ResUpdated, params)
		}
	})
}

// unclaimed takes a notification that no client can be tied to.
func (p *Proxy) unclaimed(be *backends.Backend, method string, params json.RawMessage) {
	if method == wire.LogMessage {
		p.log.Info("backend says", "backend", be.Name(), "level", wire.GetString(params, "level"), "data", string(wire.Get(params, "data")))
	}
}

// broadcast sends a list_changed to every session and to the listeners that want it.
func (p *Proxy) broadcast(method string) {
	frame := wire.Notification(method, nil)
	p.eachSession(func(s *session) { s.notify(frame) })
	p.listeners.each(func(l *listener) {
		if l.want[method] {
			l.send(method, nil)
		}
	})
}
