package subscriptions

import (
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// With policies, a notification is sent only to clients that it tells nothing they may not know: that a list has
// changed, if the list differs for the client; that a resource was updated, if the client may read it now.

// told is the content of the lists, as hashes, of which one client was last notified.
type told struct {
	mu     sync.Mutex
	prints map[string]catalog.Print // by list_changed method; guarded by mu
	read   map[string]uint64        // by list method; guarded by mu: number of changes when the client read it
}

// hasRead records that the client has read a list after a change.
func (t *told) hasRead(method string, change uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read == nil {
		t.read = map[string]uint64{}
	}
	t.read[method] = change
}

// knows reports whether the client has read the lists of a notification, each after the change.
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

// news reports whether a list differs from the recorded one, and records it.
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

// begin records all lists for a client that begins.
func (t *told) begin(v *catalog.View) {
	for _, l := range wire.Lists {
		t.news(v, l.Changed)
	}
}

// Opened records the lists for a new session: it is notified of later changes.
func (t *Set) Opened(s *edge.Session) { t.o.Followed(s).told.begin(t.o.View(s)) }

// Recheck ends the subscriptions to resources that their clients may no longer read.
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
