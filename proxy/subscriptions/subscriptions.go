// Package subscriptions is who follows what, and telling them: resources that sessions subscribe to,
// streams of subscriptions/listen, and the announcements that a list has changed.
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

// Options are what a Set takes from its surroundings. All are needed.
type Options struct {
	Log    *slog.Logger
	Server *edge.Server
	// Catalog is the present catalog of a session, with nil that of everybody.
	Catalog func(*edge.Session) *catalog.Catalog
	// View is what a session sees of its present catalog.
	View func(*edge.Session) *catalog.View
	// Followed is where what a session follows is kept.
	Followed func(*edge.Session) *Followed
	// Started is closed when changes of lists may be announced.
	Started <-chan struct{}
	// Life ends with the process; Spawn runs what is waited for then.
	Life  context.Context
	Spawn func(func()) bool
}

// A Set is who follows what. It counts who subscribed to a resource, so that its backend is
// asked once however many clients do. Backends are asked side by side: one that is slow holds
// up only those who want its own resources.
type Set struct {
	o             Options
	listeners     listeners
	announcements announcements

	mu  sync.Mutex
	all map[string]*resource // by URI, guarded by mu
}

// New makes a Set in which nobody follows anything.
func New(o Options) *Set {
	return &Set{o: o, announcements: announcements{wake: make(chan struct{}, 1)}}
}

// resource is what is known of one resource while anybody follows it or changes that.
type resource struct {
	mu      sync.Mutex // held while the backend is asked
	clients int        // guarded by mu
	users   int        // who holds or waits for mu; guarded by Set.mu
}

// Subscribe follows a resource, which is e, where the session's calls are made: on a connection
// of its own, if it has one, else together with everybody else.
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
	return t.add(ctx, uri, func() bool { return f.follow(uri, shared) })
}

// Unsubscribe is Subscribe undone.
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

// with calls f with the subscription of a resource, alone.
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
	unused := s.clients == 0
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 && unused {
		delete(t.all, uri)
	}
}

// add follows a resource for one more client. note, if any, notifies the client's session;
// it is false when the session is over or follows the resource already, and is not counted.
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

// remove is add undone.
func (t *Set) remove(ctx context.Context, uri string) {
	t.with(uri, func(s *resource) {
		e := t.o.Catalog(nil).Find(catalog.Resource(uri))
		if s.clients--; s.clients == 0 && e != nil && e.Backend != nil {
			t.end(ctx, e, uri)
		}
	})
}

// end unsubscribes from a resource that nobody follows. A backend that cannot be asked goes on
// sending, to nobody.
func (t *Set) end(ctx context.Context, e *catalog.Entry, uri string) {
	if err := e.Backend.Unsubscribe(ctx, e.Original); err != nil {
		t.o.Log.Debug("unsubscribe", "backend", e.Backend.Name(), "uri", uri, "err", err)
	}
}

// Leave forgets what the client of a session followed that has ended.
func (t *Set) Leave(f *Followed) { t.leave(f.unfollowAll()) }

// leave removes what a client followed that is gone. Nobody waits for the backends.
func (t *Set) leave(uris []string) {
	for _, uri := range uris {
		t.o.Spawn(func() { t.remove(t.o.Life, uri) })
	}
}

// ResourceUpdated notifies everybody who subscribed, or the one session on whose own
// connection the notification came.
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
