package subscriptions

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// A listener is one subscriptions/listen stream of a stateless client.
type listener struct {
	id   json.RawMessage // of the request: every message carries it
	out  edge.FrameWriter
	want map[string]bool // list_changed methods
	uris []string        // guarded by listeners.mu
	view func() *catalog.View
	told told
}

// send passes a notification on under the subscription's id.
func (l *listener) send(method string, params json.RawMessage) {
	meta := jsonscan.Set(jsonscan.Get(params, "_meta"), wire.MetaSubscriptionID, l.id)
	l.out.Offer(wire.Notification(method, jsonscan.Set(params, "_meta", meta)))
}

// maxListeners bounds the streams that are open at one time. Each has a connection, too.
const maxListeners = 10_000

var errListeners = wire.Errorf(wire.Busy, "as many clients listen as the endpoint takes (%d); try again in a moment", maxListeners)

// listeners is every open stream.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{} // guarded by mu
}

// full reports whether there is no room for one more.
func (t *listeners) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all) >= maxListeners
}

// add makes l one of those that are notified, and sends ack before anything else can be sent: what
// changes from the moment that the client has it reaches the client.
func (t *listeners) add(l *listener, ack json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*listener]struct{}{}
	}
	t.all[l] = struct{}{}
	l.send(wire.Acknowledged, ack)
}

// remove ends l and returns what it follows.
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

// Listen notifies a stateless client on out of what it asked for in the filter of the request id, until
// ctx ends: the client leaves, or no stream goes on. The error is that of too many.
// view is what the client sees of the present catalog.
func (t *Set) Listen(ctx context.Context, id json.RawMessage, out edge.FrameWriter, filter json.RawMessage, view func() *catalog.View) error {
	if t.listeners.full() {
		return errListeners
	}
	l := &listener{id: slices.Clone(id), out: out, want: map[string]bool{}, view: view}
	l.told.begin(view())
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

// subscribeAll subscribes to the resources that exist and may be read, as many as a client can follow, and
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
	return honoured
}
