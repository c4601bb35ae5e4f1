package subscriptions

import (
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Where policies decide who sees what, a notification goes only to those whom it tells nothing
// that they may not know: that a list has changed to those for whom it reads differently, that a
// resource was updated to those who may read it now.

// told is how lists read for one client when it was told of them last.
type told struct {
	mu     sync.Mutex
	prints map[string]catalog.Print // by the notification about a list; guarded by mu
	read   map[string]uint64        // by the method that lists; guarded by mu: how many changes there had been
}

// hasRead notes that the client has a list as it was after a change.
func (t *told) hasRead(method string, change uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read == nil {
		t.read = map[string]uint64{}
	}
	t.read[method] = change
}

// knows reports whether the client has read the lists that a notification is about, and none of them before a
// change.
func (t *told) knows(changed string, change uint64) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, method := range wire.ListedBy(changed) {
		at, ok := t.read[method]
		if ok && at < change {
			return false
		}
		known = known || ok
	}
	return known
}

// news reports whether a list reads differently by now, and notes how it does.
func (t *told) news(v *catalog.View, method string) bool {
	if v.Whole() {
		return true
	}
	now := v.Print(method)
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.prints[method]
	if known && before == now {
		return false
	}
	if t.prints == nil {
		t.prints = map[string]catalog.Print{}
	}
	t.prints[method] = now
	return true
}

// begin notes how all lists read for a client that begins.
func (t *told) begin(v *catalog.View) {
	for _, l := range wire.Lists {
		t.news(v, l.Changed)
	}
}

// Opened notes how the lists read for a session that begins: it is told of what changes later.
func (t *Set) Opened(s *edge.Session) { t.o.Followed(s).told.begin(t.o.View(s)) }

// Recheck ends the subscriptions of those who may not read what they follow any more.
func (t *Set) Recheck() {
	t.o.Server.EachSession(func(s *edge.Session) {
		v := t.o.View(s)
		for _, uri := range t.o.Followed(s).All() {
			if v.Denies(catalog.Resource(uri)) && t.o.Followed(s).unfollow(uri) == shared {
				t.leave([]string{uri})
			}
		}
	})
	t.listeners.each(func(l *listener) {
		v := l.view()
		l.uris = slices.DeleteFunc(slices.Clone(l.uris), func(uri string) bool {
			denied := v.Denies(catalog.Resource(uri))
			if denied {
				t.leave([]string{uri})
			}
			return denied
		})
	})
}
