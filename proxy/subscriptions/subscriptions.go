// Package subscriptions notifies clients: it has the subscriptions of sessions to resources, the streams of
// subscriptions/listen, and the list_changed notifications.
package subscriptions

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Options configure a Set. All are required.
type Options struct {
	Log    *slog.Logger
	Server *edge.Server
	// Catalog is the current catalog of a session, or with nil the common one.
	Catalog func(*edge.Session) *catalog.Catalog
	// View is what a session sees of its current catalog.
	View func(*edge.Session) *catalog.View
	// Followed returns the Followed of a session.
	Followed func(*edge.Session) *Followed
	// Started is closed when list_changed notifications may be sent.
	Started <-chan struct{}
	// Life is cancelled at the end of the process; Spawn runs a goroutine that the end waits for.
	Life  context.Context
	Spawn func(func()) bool
}

// A Set has all subscriptions. It counts the subscribers of each resource, so that a backend gets one
// resources/subscribe for any number of clients. Requests to backends are made per resource: a slow backend delays only
// subscribers of its resources.
type Set struct {
	o             Options
	listeners     listeners
	announcements announcements

	mu  sync.Mutex
	all map[string]*resource // by URI, guarded by mu
}

// New makes an empty Set.
func New(o Options) *Set {
	return &Set{o: o, announcements: announcements{wake: make(chan struct{}, 1)}}
}

// resource is the state of one resource while there are subscribers or changes to them.
type resource struct {
	mu      sync.Mutex // held while the backend is asked
	clients int        // number of subscribers; guarded by mu
	users   int        // number of goroutines that hold or wait for mu; guarded by Set.mu
}

// Subscribe subscribes a session to a resource, which is e, over the connection of the session's calls: a private one
// if it has one, else the shared one.
func (t *Set) Subscribe(ctx context.Context, s *edge.Session, as *backends.Caller, e *catalog.Entry, uri string) error {
	if e.Backend == nil {
		return wire.Errorf(wire.InvalidParams, "resource %s cannot be subscribed to: it is this endpoint's own, and notifications/resources/list_changed says when the text of a script changes", uri)
	}
	f := t.o.Followed(s)
	if err := f.mayFollow(uri); err != nil {
		return err
	}
	mine, err := e.Backend.SubscribeFor(ctx, as, e.Original)
	switch {
	case err != nil:
		return err
	case mine:
		f.follow(uri, own)
		return nil
	}
	err = t.add(ctx, uri, func() bool { return f.follow(uri, shared) })
	if err == nil {
		e.Backend.Subscribed(ctx)
	}
	return err
}

// Unsubscribe is the inverse of Subscribe.
func (t *Set) Unsubscribe(ctx context.Context, s *edge.Session, as *backends.Caller, uri string) error {
	switch t.o.Followed(s).unfollow(uri) {
	case shared:
		t.remove(ctx, uri)
	case own:
		if e := t.o.Catalog(s).Find(catalog.Resource(uri)); e != nil && e.Backend != nil {
			return e.Backend.UnsubscribeFor(ctx, as, e.Original)
		}
	}
	return nil
}

// with calls f with the state of a resource, with its mu held.
func (t *Set) with(uri string, f func(*resource)) {
	t.mu.Lock()
	s := t.all[uri]
	if s == nil {
		s = new(resource)
		if t.all == nil {
			t.all = map[string]*resource{}
		}
		t.all[uri] = s
	}
	s.users++
	t.mu.Unlock()
	s.mu.Lock()
	f(s)
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 && s.clients == 0 { // the last user needs no s.mu
		delete(t.all, uri)
	}
}

// add adds a subscriber of a resource. note, if not nil, records the subscription in the session; if it returns false,
// since the session has ended or has the subscription already, the subscriber is not counted.
func (t *Set) add(ctx context.Context, uri string, note func() bool) (err error) {
	e := t.o.Catalog(nil).Find(catalog.Resource(uri))
	if e == nil || e.Backend == nil {
		return wire.Errorf(wire.InvalidParams, "resource not found, or not to be subscribed to: %s", uri)
	}
	t.with(uri, func(s *resource) {
		if s.clients == 0 {
			err = e.Backend.Subscribe(ctx, e.Original)
		}
		switch {
		case err != nil:
		case note == nil || note():
			s.clients++
		case s.clients == 0:
			t.end(ctx, e, uri)
		}
	})
	return err
}

// remove is the inverse of add.
func (t *Set) remove(ctx context.Context, uri string) {
	t.with(uri, func(s *resource) {
		e := t.o.Catalog(nil).Find(catalog.Resource(uri))
		if s.clients--; s.clients == 0 && e != nil && e.Backend != nil {
			t.end(ctx, e, uri)
		}
	})
}

// end unsubscribes from a resource without subscribers. If the backend does not answer, its notifications are dropped.
func (t *Set) end(ctx context.Context, e *catalog.Entry, uri string) {
	if err := e.Backend.Unsubscribe(ctx, e.Original); err != nil {
		t.o.Log.Debug("unsubscribe", "backend", e.Backend.Name(), "uri", uri, "err", err)
	}
}

// Leave removes the subscriptions of a session that has ended.
func (t *Set) Leave(f *Followed) { t.leave(f.unfollowAll()) }

// leave removes subscriptions, without waiting for the backends.
func (t *Set) leave(uris []string) {
	for _, uri := range uris {
		t.o.Spawn(func() { t.remove(t.o.Life, uri) })
	}
}

// ResourceUpdated notifies all subscribers of a resource, or, if the notification came on the private connection of the
// session of, that one.
func (t *Set) ResourceUpdated(be *backends.Backend, of, uri string, params json.RawMessage) {
	c := t.o.Catalog(t.o.Server.Session(of))
	params = c.ExposeMember(be.Name(), params, "uri")
	uri = c.ExposedURI(be.Name(), uri)
	if e := c.Find(catalog.Resource(uri)); e == nil || e.Backend != be {
		return
	}
	frame := wire.Notification(wire.ResUpdated, params)
	t.o.Server.EachSession(func(s *edge.Session) {
		if t.o.Followed(s).follows(uri, of != "") && (of == "" || of == s.ID) && !t.o.View(s).Denies(catalog.Resource(uri)) {
			s.Send(frame)
		}
	})
	if of != "" {
		return
	}
	t.listeners.each(func(l *listener) {
		if slices.Contains(l.uris, uri) && !l.view().Denies(catalog.Resource(uri)) {
			l.send(wire.ResUpdated, params)
		}
	})
}
