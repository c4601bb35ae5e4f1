package subscriptions

import (
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

const (
	// announceQuiet is how long nothing must have changed for a list_changed to go out.
	announceQuiet = 300 * time.Millisecond
	// announceMost is how long changes that follow each other can hold it back.
	announceMost = time.Second
)

// announcements are the list_changed notifications that clients still have to get. A
// change of a list is in the catalog at once; what says so waits for a moment without
// changes, so that ten backends that become ready within a second are one notification or
// two, not ten. While the process is young nothing goes out: its lists are held back, too.
type announcements struct {
	wake chan struct{} // cap 1

	mu      sync.Mutex
	count   uint64                  // guarded by mu: of all changes so far
	pending map[announcement]uint64 // guarded by mu: the count with the last change of each
}

// announcement is one notification: for all clients, or for that of one session, whose
// backend session has changed.
type announcement struct {
	session, method string
	views           bool // only the views of clients may have changed, and not what there is
}

// add announces a change.
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

// Reading is called before a client is given the lists of a catalog. What it returns is called when it has the
// start of one, with the method that lists it.
func (t *Set) Reading(s *edge.Session) (done func(method string)) {
	t.announcements.mu.Lock()
	change := t.announcements.count
	t.announcements.mu.Unlock()
	return func(method string) { t.o.Followed(s).told.hasRead(method, change) }
}

// ListChanged announces that a list has changed to the client of a session, or with "" to all.
func (t *Set) ListChanged(session, method string) {
	t.announcements.add(announcement{session: session, method: method})
}

// ViewsChanged announces that lists may read differently to those who see a part of them.
func (t *Set) ViewsChanged() {
	for _, l := range wire.Lists {
		t.announcements.add(announcement{method: l.Changed, views: true})
	}
}

// Announce sends what is pending whenever nothing has changed for a moment, until Life ends.
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

// awaitChange waits until something is to be announced; false once Life has ended.
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

// awaitQuiet waits until nothing has been announced for announceQuiet.
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

// broadcast sends a list_changed to every session, and to the listeners that want it, for whom
// the list reads differently. A session that has read it since the change knows.
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
