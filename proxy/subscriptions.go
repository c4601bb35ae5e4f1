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
// once however many clients do.
type subscriptions struct {
	p     *Proxy
	mu    sync.Mutex
	count map[string]int // by URI, guarded by mu
}

func (t *subscriptions) add(ctx context.Context, uri string) error {
	e := t.p.catalog.Load().resource(uri)
	if e == nil {
		return wire.Errorf(wire.InvalidParams, "resource not found: %s", uri)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[uri] == 0 {
		if err := e.backend.Subscribe(ctx, uri, true); err != nil {
			return relayError(err)
		}
	}
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[uri]++
	return nil
}

// remove is add undone. A backend that cannot be told goes on sending, to nobody.
func (t *subscriptions) remove(ctx context.Context, uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[uri]--; t.count[uri] > 0 {
		return
	}
	delete(t.count, uri)
	if e := t.p.catalog.Load().resource(uri); e != nil {
		if err := e.backend.Subscribe(ctx, uri, false); err != nil {
			t.p.log.Debug("unsubscribe", "backend", e.backend.Name(), "uri", uri, "err", err)
		}
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
