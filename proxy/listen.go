package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A listener is one subscriptions/listen stream of a stateless client.
type listener struct {
	id   json.RawMessage // of the request: every message carries it
	out  outlet
	want map[string]bool // list_changed methods
	uris []string
}

// send passes a notification on under the subscription's id.
func (l *listener) send(method string, params json.RawMessage) {
	meta := wire.Set(wire.Get(params, "_meta"), wire.MetaSubscriptionID, l.id)
	l.out.send(wire.Notification(method, wire.Set(params, "_meta", meta)))
}

// listeners is every open stream.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{} // guarded by mu
}

func (t *listeners) add(l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*listener]struct{}{}
	}
	t.all[l] = struct{}{}
}

func (t *listeners) remove(l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l)
}

func (t *listeners) each(f func(*listener)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		f(l)
	}
}

// filterFields are the list subscriptions of subscriptions/listen by their member.
var filterFields = []struct{ field, method string }{
	{"toolsListChanged", wire.ToolsChanged},
	{"promptsListChanged", wire.PromptsChanged},
	{"resourcesListChanged", wire.ResChanged},
}

// listen serves subscriptions/listen until the client leaves or the proxy closes.
func (p *Proxy) listen(ctx context.Context, x *exchange, id json.RawMessage, reply finisher) {
	l := &listener{id: clone(id), out: x.out, want: map[string]bool{}}
	filter := wire.Get(x.params, "notifications")
	honoured := json.RawMessage("{}")
	for _, f := range filterFields {
		if string(wire.Get(filter, f.field)) == "true" {
			l.want[f.method] = true
			honoured = wire.Set(honoured, f.field, []byte("true"))
		}
	}
	l.uris = p.subscribeAll(ctx, wire.Get(filter, "resourceSubscriptions"))
	if len(l.uris) > 0 {
		uris, _ := json.Marshal(l.uris)
		honoured = wire.Set(honoured, "resourceSubscriptions", uris)
	}
	l.send(wire.Acknowledged, wire.Set(nil, "notifications", honoured))
	p.listeners.add(l)
	select {
	case <-ctx.Done():
	case <-p.listening.Done():
	}
	p.listeners.remove(l)
	p.subscriptions.leave(l.uris)
	meta := wire.Set(nil, wire.MetaSubscriptionID, l.id)
	resp, _ := answer(wire.Set(json.RawMessage(`{"resultType":"complete"}`), "_meta", meta))
	reply.finish(id, resp, nil)
}

// subscribeAll subscribes to the resources that exist and returns them.
func (p *Proxy) subscribeAll(ctx context.Context, uris json.RawMessage) (honoured []string) {
	wire.Elements(uris, func(v []byte) bool {
		uri := wire.Text(v)
		if uri != "" && !slices.Contains(honoured, uri) && p.subscriptions.add(ctx, uri, nil) == nil {
			honoured = append(honoured, uri)
		}
		return true
	})
	return honoured
}
