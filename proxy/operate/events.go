package operate

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

// This part of the package is a hub for server-sent events about the state of an endpoint; each event has the current state of
// one thing.
//
//	hub := events.New(events.Options{Now: present})
//	hub.Wake()                       // something may have changed
//	mux.Handle("GET /events", hub)
//
// The hub keeps the last event of each thing and nothing else. A listener has the number of the last event that it was
// sent, and gets the events with higher numbers: a slow one gets fewer events, and does not delay others. One that does
// not read is disconnected by a write deadline.

const (
	// maxListeners bounds the concurrent listeners.
	maxListeners = 256
	// beat is the interval of comments, which show that the connection works.
	beat = 15 * time.Second
	// eventsPause is the shortest interval between two reads of the state.
	eventsPause = 200 * time.Millisecond
	// takeTime is the write deadline of a connection.
	takeTime = 10 * time.Second
)

// event is the current state of one thing.
type event struct {
	Kind string // backend, catalog, run or config
	Key  string // its id, if there are several of the kind
	Data []byte // JSON on one line
	Mark []byte // an event is sent when it changes; nil: when Data changes
}

func (e *event) mark() []byte {
	if e.Mark != nil {
		return e.Mark
	}
	return e.Data
}

// eventsOptions configure a Hub.
type eventsOptions struct {
	// Now returns the current state.
	Now func() []event
	// Done ends the streams when it is closed. nil: they end only with their clients.
	Done <-chan struct{}
}

// A hub serves GET /api/v1/events. It is safe for concurrent use.
type hub struct {
	o     eventsOptions
	poked chan struct{} // cap 1

	mu        sync.Mutex
	listeners int                     // guarded by mu, as all below
	last      map[[2]string]*numbered // by kind and key
	number    uint64                  // of the newest event
	begun     uint64                  // number of the newest event when the first of the current listeners connected
	changed   chan struct{}           // closed at the next event
	stop      context.CancelFunc      // ends watch
	work      sync.WaitGroup
}

type numbered struct {
	event
	number uint64
}

// newEvents makes a Hub.
func newEvents(o eventsOptions) *hub {
	return &hub{o: o, poked: make(chan struct{}, 1), last: map[[2]string]*numbered{}, changed: make(chan struct{})}
}

// Wake notifies the hub that the state may have changed. It never blocks.
func (h *hub) Wake() {
	select {
	case h.poked <- struct{}{}:
	default:
	}
}

// Close waits until all listeners have disconnected, which follows when Done is closed.
func (h *hub) Close() { h.work.Wait() }

// Listeners is the number of listeners.
func (h *hub) Listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listeners
}

// ServeHTTP streams events. A listener gets the current state of everything first or, with Last-Event-ID or ?after=,
// what has changed since that event.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, ok := h.enter(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	if !ok {
		w.Header().Set("Retry-After", "5")
		why := fmt.Sprintf("%d clients are connected to this stream already, which is the limit", maxListeners)
		if h.isDone() {
			why = "the endpoint is shutting down"
		}
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer h.leave()
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no") // for nginx, which would buffer events
	h.stream(r.Context(), w, after)
}

// stream writes events until ctx ends, the connection fails, or the hub is done.
func (h *hub) stream(ctx context.Context, w http.ResponseWriter, after uint64) {
	c := http.NewResponseController(w)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	text := []byte("retry: 2000\n\n")
	for {
		var changed <-chan struct{}
		text, after, changed = h.since(text, after)
		if len(text) > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(takeTime)) // a connection without deadlines fails by itself
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

// since appends the events behind a number to text. changed is closed when there are newer ones.
func (h *hub) since(text []byte, after uint64) ([]byte, uint64, <-chan struct{}) {
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

// enter admits a listener that has the event with this id; "" for none.
func (h *hub) enter(id string) (after uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == maxListeners || h.isDone() {
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

func (h *hub) isDone() bool {
	select {
	case <-h.o.Done:
		return true
	default:
		return false
	}
}

// begin starts the goroutine of watch. mu is held.
func (h *hub) begin() {
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	clear(h.last)
	h.begun = h.number + 1
	h.work.Go(func() { h.watch(ctx) })
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners--; h.listeners == 0 {
		h.stop()
	}
}

// watch reads the state after each Wake until ctx ends.
func (h *hub) watch(ctx context.Context) {
	for {
		h.note(ctx, h.o.Now())
		select {
		case <-time.After(eventsPause):
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

// note numbers what has changed. It does nothing once ctx has ended: another watch may have been started.
func (h *hub) note(ctx context.Context, now []event) {
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
