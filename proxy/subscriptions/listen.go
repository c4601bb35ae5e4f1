package subscriptions

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// A listener is one subscriptions/listen stream of a stateless client.
type listener struct {
	id   json.RawMessage // id of the request, which every message has
	out  edge.FrameWriter
	want map[string]bool // list_changed methods
	uris []string        // guarded by listeners.mu
	view func() *catalog.View
	told told
}

// send sends a notification with the id of the subscription.
func (l *listener) send(method string, params json.RawMessage) {
	meta := jsonscan.Set(jsonscan.Get(params, "_meta"), wire.MetaSubscriptionID, l.id)
	l.out.Offer(wire.Notification(method, jsonscan.Set(params, "_meta", meta)))
}

// maxListeners bounds the open streams. Each has a connection, too.
const maxListeners = 10_000

var errListeners = wire.Errorf(wire.Busy, "the endpoint has %d subscriptions/listen streams, which is the limit; try again in a moment", maxListeners)

// listeners is the set of open streams.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{} // guarded by mu
}

// full reports whether there is no room for another stream.
func (t *listeners) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all) >= maxListeners
}

// add adds l to the notified streams, and sends ack before any notification: changes after the client has received ack
// reach the client. The lists are recorded at this moment, not before the backends were asked: a list that changed
// meanwhile and changes back is announced.
func (t *listeners) add(l *listener, ack json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.told.begin(l.view())
	if t.all == nil {
		t.all = map[*listener]struct{}{}
	}
	t.all[l] = struct{}{}
	l.send(wire.Acknowledged, ack)
}

// remove removes l and returns its subscriptions.
func (t *listeners) remove(l *listener) (uris []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l)
	return l.uris
}

func (t *listeners) each(f func(*listener)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		f(l)
	}
}

// Listen sends a stateless client on out the notifications that the filter of the request id selects, until ctx ends:
// the client disconnects, or streams are drained. The error says that there are too many streams. view returns what the
// client sees of the current catalog.
func (t *Set) Listen(ctx context.Context, id json.RawMessage, out edge.FrameWriter, filter json.RawMessage, view func() *catalog.View) error {
	if t.listeners.full() {
		return errListeners
	}
	l := &listener{id: slices.Clone(id), out: out, want: map[string]bool{}, view: view}
	var honoured jsonscan.Object
	for _, list := range wire.Lists {
		if string(jsonscan.Get(filter, list.Filter)) == "true" {
			l.want[list.Changed] = true
			honoured.Bool(list.Filter, true)
		}
	}
	l.uris = t.subscribeAll(ctx, view(), jsonscan.Get(filter, "resourceSubscriptions"))
	if len(l.uris) > 0 {
		uris, _ := json.Marshal(l.uris)
		honoured.Raw("resourceSubscriptions", uris)
	}
	t.listeners.add(l, new(jsonscan.Object).Raw("notifications", honoured.JSON()).JSON())
	<-ctx.Done()
	t.leave(t.listeners.remove(l))
	return nil
}

// subscribeAll subscribes to the resources of uris that exist and may be read, as many as a client can have, and
// returns them.
func (t *Set) subscribeAll(ctx context.Context, v *catalog.View, uris json.RawMessage) (honoured []string) {
	size := 0
	jsonscan.Elements(uris, func(text []byte) bool {
		uri := jsonscan.Text(text)
		if size += len(uri); len(honoured) >= maxFollowed || size > maxFollowedBytes {
			return false
		}
		if uri != "" && !slices.Contains(honoured, uri) && !v.Denies(catalog.Resource(uri)) && t.add(ctx, uri, nil) == nil {
			honoured = append(honoured, uri)
		}
		return true
	})
	t.awaitSubscribed(ctx, honoured)
	return honoured
}

// awaitSubscribed waits until the backends of resources have acknowledged the subscriptions.
func (t *Set) awaitSubscribed(ctx context.Context, uris []string) {
	known := map[*backends.Backend]bool{}
	for _, uri := range uris {
		if e := t.o.Catalog(nil).Find(catalog.Resource(uri)); e != nil && e.Backend != nil && !known[e.Backend] {
			known[e.Backend] = true
			e.Backend.Subscribed(ctx)
		}
	}
}
