// Package events tells those who watch an endpoint what has changed: server-sent events, each with the present state of
// one thing.
//
//	hub := events.New(events.Options{Now: present})
//	hub.Poke()                       // something may have changed
//	mux.Handle("GET /events", hub)
//
// The hub holds the last event of each thing and nothing else. A listener has a number, that of the last event it was
// sent, and gets what has a higher one: one that is slow gets less, and never holds what others have to wait for. One
// that does not read at all is dropped when the connection takes no more.
package events

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// MaxListeners bounds those who watch at one time.
	MaxListeners = 256
	// beat is how often a listener gets a comment, which shows that the connection lives.
	beat = 15 * time.Second
	// pause is the least time between two looks at what has changed.
	pause = 200 * time.Millisecond
	// takeTime is how long a listener may take no bytes.
	takeTime = 10 * time.Second
)

// Event is the present state of one thing.
type Event struct {
	Kind string // backend, catalog, run or config
	Key  string // which one, where there are several
	Data []byte // JSON on one line
	Mark []byte // an event follows when it changes; nil: when Data does
}

func (e *Event) mark() []byte {
	if e.Mark != nil {
		return e.Mark
	}
	return e.Data
}

// Options are what a Hub takes from its surroundings.
type Options struct {
	// Now is what there is at the moment.
	Now func() []Event
	// Done ends the streams when it is closed. nil: they end with their clients.
	Done <-chan struct{}
}

// A Hub serves GET /api/v1/events. It is safe for concurrent use.
type Hub struct {
	o     Options
	poked chan struct{} // cap 1

	mu        sync.Mutex
	listeners int                     // guarded by mu, as all below
	last      map[[2]string]*numbered // by kind and key
	number    uint64                  // of the newest event
	begun     uint64                  // of the newest event when the first of the present listeners came
	changed   chan struct{}           // closed at the next event
	stop      context.CancelFunc      // ends the watch
	work      sync.WaitGroup
}

type numbered struct {
	Event
	number uint64
}

// New makes a Hub.
func New(o Options) *Hub {
	return &Hub{o: o, poked: make(chan struct{}, 1), last: map[[2]string]*numbered{}, changed: make(chan struct{})}
}

// Poke says that something may have changed. It never waits.
func (h *Hub) Poke() {
	select {
	case h.poked <- struct{}{}:
	default:
	}
}

// Close waits until nobody watches any more, which is when Done is closed.
func (h *Hub) Close() { h.work.Wait() }

// Listeners is how many watch.
func (h *Hub) Listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listeners
}

// ServeHTTP streams events. A listener begins with the present state of everything, or, with Last-Event-ID or ?after=,
// with what has changed since that event.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, ok := h.enter(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	if !ok {
		w.Header().Set("Retry-After", "5")
		why := fmt.Sprintf("%d others watch already, which is as many as may", MaxListeners)
		if h.isDone() {
			why = "the endpoint is about to end"
		}
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer h.leave()
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	h.stream(r.Context(), w, after)
}

// stream writes until ctx ends, the connection does, or the hub is done.
func (h *Hub) stream(ctx context.Context, w http.ResponseWriter, after uint64) {
	c := http.NewResponseController(w)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	text := []byte("retry: 2000\n\n")
	for {
		var changed <-chan struct{}
		text, after, changed = h.since(text, after)
		if len(text) > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(takeTime)) // connections that have none break by themselves
			if _, err := w.Write(text); err != nil || c.Flush() != nil {
				return
			}
			text = text[:0]
		}
		select {
		case <-changed:
		case <-tick.C:
			text = append(text, ": still here\n\n"...)
		case <-ctx.Done():
			return
		case <-h.o.Done:
			return
		}
	}
}

// since appends the events behind one to text. changed is closed when there are more.
func (h *Hub) since(text []byte, after uint64) ([]byte, uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after == h.number {
		return text, after, h.changed
	}
	var news []*numbered
	for _, e := range h.last {
		if e.number > after {
			news = append(news, e)
		}
	}
	slices.SortFunc(news, func(a, b *numbered) int { return cmp.Compare(a.number, b.number) })
	for _, e := range news {
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n\n", e.number, e.Kind, e.Data)
	}
	return text, h.number, h.changed
}

// enter lets a listener in that has seen the event of an id; "" for none.
func (h *Hub) enter(id string) (after uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == MaxListeners || h.isDone() {
		return 0, false
	}
	h.listeners++
	if h.listeners == 1 {
		h.begin()
	}
	after, err := strconv.ParseUint(id, 10, 64)
	if err != nil || after < h.begun || after > h.number {
		after = 0
	}
	return after, true
}

func (h *Hub) isDone() bool {
	select {
	case <-h.o.Done:
		return true
	default:
		return false
	}
}

// begin begins to watch. mu is held.
func (h *Hub) begin() {
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	clear(h.last)
	h.begun = h.number + 1
	h.work.Go(func() { h.watch(ctx) })
}

func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners--; h.listeners == 0 {
		h.stop()
	}
}

// watch looks at what there is, again and again, until ctx ends.
func (h *Hub) watch(ctx context.Context) {
	for {
		h.note(ctx, h.o.Now())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		select {
		case <-h.poked:
		case <-ctx.Done():
			return
		}
	}
}

// note numbers what is new. Nothing is noted by a watch that is over: the next one has begun, perhaps.
func (h *Hub) note(ctx context.Context, now []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	there := make(map[[2]string]bool, len(now))
	before := h.number
	for _, e := range now {
		key := [2]string{e.Kind, e.Key}
		there[key] = true
		if old := h.last[key]; old == nil || !bytes.Equal(old.mark(), e.mark()) {
			h.number++
			h.last[key] = &numbered{e, h.number}
		}
	}
	for key := range h.last {
		if !there[key] {
			delete(h.last, key)
		}
	}
	if h.number != before {
		close(h.changed)
		h.changed = make(chan struct{})
	}
}
