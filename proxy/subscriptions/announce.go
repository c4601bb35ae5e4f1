package subscriptions

import (
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

const (
	// announceQuiet is the time without a change after which a list_changed is sent.
	announceQuiet = 300 * time.Millisecond
	// announceMost is the longest time for which further changes can delay it.
	announceMost = time.Second
)

// announcements are the pending list_changed notifications. A change of a list is in the catalog at once, but its
// notification is delayed until there is a moment without changes, so that ten backends that become ready within a
// second cause one or two notifications, not ten. During the start nothing is sent: lists are delayed, too.
type announcements struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	count   uint64                  // guarded by mu: number of changes so far
	pending map[announcement]uint64 // guarded by mu: value of count after the last change of each
}

// announcement is one notification: for all clients, or for the client of one session whose backend session has
// changed.
type announcement struct {
	session, method string
	views           bool // only the views of clients may have changed, not the catalog
}

// add adds a change.
func (a *announcements) add(one announcement) {
	a.mu.Lock()
	if a.pending == nil {
		a.pending = map[announcement]uint64{}
	}
	a.count++
	a.pending[one] = a.count
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *announcements) take() map[announcement]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.pending
	a.pending = nil
	return all
}

// Reading is called before a client reads a list of a catalog. The returned function is called with the list's method
// when the client has the first page.
func (t *Set) Reading(s *edge.Session) (done func(method string)) {
	t.announcements.mu.Lock()
	change := t.announcements.count
	t.announcements.mu.Unlock()
	return func(method string) { t.o.Followed(s).told.hasRead(method, change) }
}

// ListChanged announces that a list has changed, to the client of a session, or to all ("").
func (t *Set) ListChanged(session, method string) {
	t.announcements.add(announcement{session: session, method: method})
}

// ViewsChanged announces that the views of clients may have changed.
func (t *Set) ViewsChanged() {
	for _, l := range wire.Lists {
		t.announcements.add(announcement{method: l.Changed, views: true})
	}
}

// Announce sends pending notifications after each quiet moment, until Life ends.
func (t *Set) Announce() {
	for t.awaitChange() {
		for a, change := range t.announcements.take() {
			if a.session == "" {
				t.broadcast(a, change)
			} else if s := t.o.Server.Session(a.session); s != nil {
				s.Send(wire.Notification(a.method, nil))
			}
		}
	}
}

// awaitChange waits until a notification is pending; false once Life has ended.
func (t *Set) awaitChange() bool {
	for _, c := range []<-chan struct{}{t.announcements.wake, t.o.Started} {
		select {
		case <-c:
		case <-t.o.Life.Done():
			return false
		}
	}
	t.awaitQuiet()
	return true
}

// awaitQuiet waits until nothing was announced for announceQuiet, at most for announceMost.
func (t *Set) awaitQuiet() {
	quiet, most := time.NewTimer(announceQuiet), time.NewTimer(announceMost)
	defer quiet.Stop()
	defer most.Stop()
	for {
		select {
		case <-t.announcements.wake:
			quiet.Reset(announceQuiet)
		case <-quiet.C:
			return
		case <-most.C:
			return
		case <-t.o.Life.Done():
			return
		}
	}
}

// broadcast sends a list_changed to every session, and to the listeners that want it, for which the list differs. A
// session that has read the list since the change is left out.
func (t *Set) broadcast(a announcement, change uint64) {
	frame := wire.Notification(a.method, nil)
	news := func(to *told, v *catalog.View) bool { return !(a.views && v.Whole()) && to.news(v, a.method) }
	t.o.Server.EachSession(func(s *edge.Session) {
		told := &t.o.Followed(s).told
		if news(told, t.o.View(s)) && !told.knows(a.method, change) {
			s.Send(frame)
		}
	})
	t.listeners.each(func(l *listener) {
		if l.want[a.method] && news(&l.told, l.view()) {
			l.send(a.method, nil)
		}
	})
}
