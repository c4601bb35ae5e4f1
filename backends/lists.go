package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Offer is what a backend offers. It is immutable.
type Offer struct {
	Revision     string
	Instructions string
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage

	Tools, Prompts, Resources, Templates                 []Item
	ToolsMeta, PromptsMeta, ResourcesMeta, TemplatesMeta ListMeta

	// How often the backend said that a list changed, whether it reads differently or not.
	ToolsSaid, PromptsSaid, ResourcesSaid uint64
}

// Item is one entry of a list.
type Item struct {
	Name string          // of a resource its uri, of a template its uriTemplate
	Raw  json.RawMessage // the definition, byte for byte
}

// ListMeta is how long and for whom a list may be cached; zero when the backend did not say.
type ListMeta struct {
	TTL        time.Duration
	HasTTL     bool
	CacheScope string
}

// list is one of the lists of a backend.
type list struct {
	bit        int32
	method     string
	capability string
	member     string // of the result
	key        string // of an entry: its name
	items      func(*Offer) (*[]Item, *ListMeta)
}

const (
	toolsList int32 = 1 << iota
	promptsList
	resourcesList
	allLists = toolsList | promptsList | resourcesList
)

var lists = []list{
	{toolsList, wire.ToolsList, "tools", "tools", "name", func(o *Offer) (*[]Item, *ListMeta) { return &o.Tools, &o.ToolsMeta }},
	{promptsList, wire.PromptsList, "prompts", "prompts", "name", func(o *Offer) (*[]Item, *ListMeta) { return &o.Prompts, &o.PromptsMeta }},
	{resourcesList, wire.ResourcesList, "resources", "resources", "uri", func(o *Offer) (*[]Item, *ListMeta) { return &o.Resources, &o.ResourcesMeta }},
	{resourcesList, wire.TemplatesList, "resources", "resourceTemplates", "uriTemplate", func(o *Offer) (*[]Item, *ListMeta) { return &o.Templates, &o.TemplatesMeta }},
}

// A list may have this many pages and entries; a backend that sends more is cut off.
const (
	maxPages = 1000
	maxItems = 100_000
)

// changed notes that lists must be fetched again.
func (b *Backend) changed(bits int32) {
	b.stale.Or(bits)
	b.poke()
}

// announced notes that the backend said that a list changed.
func (b *Backend) announced(bit int32) {
	for i, l := range [...]int32{toolsList, promptsList, resourcesList} {
		if bit == l {
			b.said[i].Add(1)
		}
	}
	b.changed(bit)
}

// poke wakes the run loop.
func (b *Backend) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// refresh fetches the lists in bits and publishes a new offer. Only the loss of the
// connection is an error: a list that the backend refuses stays as it was.
func (b *Backend) refresh(ctx context.Context, c *conn, bits int32) error {
	next := *b.Offer()
	next.Revision, next.Instructions = c.hello.Revision, c.hello.Instructions
	next.ServerInfo, next.Capabilities = c.hello.ServerInfo, c.hello.Capabilities
	next.ToolsSaid, next.PromptsSaid, next.ResourcesSaid = b.said[0].Load(), b.said[1].Load(), b.said[2].Load()
	for _, l := range lists {
		if bits&l.bit == 0 {
			continue
		}
		items, meta := l.items(&next)
		if !declares(c.hello.Capabilities, l.capability) {
			*items, *meta = nil, ListMeta{}
			continue
		}
		fetched, fetchedMeta, err := c.list(ctx, l)
		var answer *wire.Error
		switch {
		case err == nil:
			*items, *meta = fetched, fetchedMeta
		case errors.As(err, &answer) && answer.Code == wire.MethodNotFound && l.method == wire.TemplatesList:
			*items, *meta = nil, ListMeta{} // many backends have resources and no templates
		case c.ctx.Err() != nil || ctx.Err() != nil || kindOf(err) == Unavailable:
			return err
		default:
			b.log.Warn("list not available", "method", l.method, "err", err)
		}
	}
	b.offer.Store(&next)
	b.fetched = time.Now()
	return nil
}

// list fetches all pages of one list.
func (c *conn) list(ctx context.Context, l list) ([]Item, ListMeta, error) {
	var items []Item
	var meta ListMeta
	seen := map[string]bool{}
	var params json.RawMessage
	for range maxPages {
		result, err := c.request(ctx, l.method, params)
		if err != nil {
			return nil, meta, err
		}
		meta.merge(result)
		wire.Elements(wire.Get(result, l.member), func(v []byte) bool {
			items = append(items, Item{Name: wire.GetString(v, l.key), Raw: v[:len(v):len(v)]})
			return len(items) < maxItems
		})
		cursor := wire.Get(result, "nextCursor")
		if wire.Text(cursor) == "" {
			return items, meta, nil
		}
		if seen[string(cursor)] || len(items) >= maxItems {
			break
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	c.b.log.Warn("list cut off: it repeats its cursor or is too long", "method", l.method, "entries", len(items))
	return items, meta, nil
}

// merge takes a page's caching hints: the shortest and most private of all pages holds.
func (m *ListMeta) merge(result []byte) {
	var ms int64
	if raw := wire.Get(result, "ttlMs"); raw != nil && json.Unmarshal(raw, &ms) == nil && ms >= 0 {
		ttl := time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		if !m.HasTTL || ttl < m.TTL {
			m.TTL, m.HasTTL = ttl, true
		}
	}
	if scope := wire.GetString(result, "cacheScope"); scope != "" && m.CacheScope != "private" {
		m.CacheScope = scope
	}
}
