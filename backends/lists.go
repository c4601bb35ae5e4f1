package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
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

	// How often the backend announced a change of each list, whether the list differs or not.
	ToolsChanges, PromptsChanges, ResourcesChanges uint64
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
	b.wakeLoop()
}

// listChanged counts an announced change of lists.
func (b *Backend) listChanged(bit int32) {
	for i, l := range [...]int32{toolsList, promptsList, resourcesList} {
		if bit == l {
			b.changeCounts[i].Add(1)
		}
	}
	b.changed(bit)
}

// wakeLoop wakes the run loop.
func (b *Backend) wakeLoop() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// refresh fetches the lists in bits and publishes a new offer. Only the loss of the
// connection is an error: a list that the backend refuses stays as it was.
func (b *Backend) refresh(ctx context.Context, c *conn, bits int32) error {
	next := *b.Offer()
	next.Revision, next.Instructions = c.peer.Revision, c.peer.Instructions
	next.ServerInfo, next.Capabilities = c.peer.ServerInfo, c.peer.Capabilities
	next.ToolsChanges, next.PromptsChanges, next.ResourcesChanges = b.changeCounts[0].Load(), b.changeCounts[1].Load(), b.changeCounts[2].Load()
	for _, l := range lists {
		if bits&l.bit == 0 {
			continue
		}
		items, meta := l.items(&next)
		if !wire.Declares(c.peer.Capabilities, l.capability) {
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
		jsonscan.Elements(jsonscan.Get(result, l.member), func(v []byte) bool {
			items = append(items, Item{Name: jsonscan.GetString(v, l.key), Raw: v[:len(v):len(v)]})
			return len(items) < maxItems
		})
		cursor := jsonscan.Get(result, "nextCursor")
		if jsonscan.Text(cursor) == "" {
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
	if raw := jsonscan.Get(result, "ttlMs"); raw != nil && json.Unmarshal(raw, &ms) == nil && ms >= 0 {
		ttl := time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		if !m.HasTTL || ttl < m.TTL {
			m.TTL, m.HasTTL = ttl, true
		}
	}
	if scope := jsonscan.GetString(result, "cacheScope"); scope != "" && m.CacheScope != "private" {
		m.CacheScope = scope
	}
}

// privateLists is what a backend offers in one private session, where that differs from what
// it offers to all: some show tools after a login, or by what the client can be asked.
// Guarded by pool.mu.
type privateLists struct {
	offer    *Offer // as of the last look; nil before the first
	base     *Offer // what the backend offered to all then
	conn     *conn  // that was asked
	stale    bool   // a call was made, or a change was announced, since
	size     int64  // bytes of what is not in base
	fetching chan struct{}
}

const (
	// maxPrivateList bounds what one private session may offer beside what all are offered.
	maxPrivateList = 1 << 20
	// maxPrivateLists bounds that for all private sessions of a set.
	maxPrivateLists = 64 << 20
	// privateListTime is how long the lists of one client wait for its own session.
	privateListTime = 2 * time.Second
)

// listChanged takes a notification that a list has changed. On a private session it is about
// that session; whether the lists for all have changed, too, is looked at.
func (c *conn) listChanged(bit int32, method string) {
	if !c.onDemand {
		c.b.listChanged(bit)
		return
	}
	c.b.changed(bit)
	f := c.b.set.o.ListChanged
	if f == nil || c.session == "" {
		return
	}
	if p := c.b.pool.find(c.session); p != nil {
		l := &c.b.pool
		l.mu.Lock()
		p.lists.stale = true
		l.mu.Unlock()
		f(c.b, c.session, method)
	}
}

// HasSession reports whether a client session has one with the backend of its own.
func (b *Backend) HasSession(session string) bool { return b.pool.find(session) != nil }

// relisted tells a client that was offered something of its own that its session is a new
// one, where that may be gone.
func (b *Backend) relisted(p *private) {
	l := &b.pool
	l.mu.Lock()
	own := p.lists.offer != nil && p.lists.offer != p.lists.base
	p.lists.stale = true
	l.mu.Unlock()
	f := b.set.o.ListChanged
	if !own || f == nil || p.key.session == "" {
		return
	}
	for _, l := range wire.Lists {
		f(b, p.key.session, l.Changed)
	}
}

// OfferFor is what the backend offers to the client of a session, asked for anew if it may
// have changed. It is Offer() where the session has no connection of its own or is
// offered the same.
func (b *Backend) OfferFor(ctx context.Context, session string) *Offer {
	p := b.pool.find(session)
	if p == nil {
		return b.Offer()
	}
	ctx, cancel := context.WithTimeout(ctx, privateListTime)
	defer cancel()
	for {
		offer, c, wait := b.pool.listsOf(p)
		switch {
		case wait != nil:
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return b.Offer()
			}
		case c != nil:
			return b.fetchLists(ctx, p, c)
		}
		return offer
	}
}

// listsOf returns what is known of p's lists; or c, when the caller has to fetch them from
// it; or what to wait for while somebody does.
func (l *pool) listsOf(p *private) (offer *Offer, c *conn, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base, open, s := l.b.Offer(), p.open(), &p.lists
	switch {
	case p.closed || open == nil:
		return base, nil, nil
	case s.fetching != nil:
		return nil, nil, s.fetching
	case s.offer != nil && s.base == base && s.conn == open && !s.stale:
		return s.offer, nil, nil
	}
	s.fetching, s.stale = make(chan struct{}), false
	return nil, open, nil
}

// fetchLists asks p's session for its lists. When that does not work, the lists for all hold.
func (b *Backend) fetchLists(ctx context.Context, p *private, c *conn) *Offer {
	base := b.Offer()
	offer, size, err := c.offer(ctx, base)
	if err == nil && size > 0 && (size > maxPrivateList || b.set.privateLists.Load() > maxPrivateLists) {
		b.log.Warn("a session's own lists are too large and not shown", "bytes", size)
		offer, size = base, 0
	}
	l := &b.pool
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &p.lists
	if s.fetching != nil {
		close(s.fetching)
		s.fetching = nil
	}
	if err != nil || p.closed {
		s.stale = true
		return base
	}
	b.set.privateLists.Add(size - s.size)
	s.offer, s.base, s.conn, s.size = offer, base, c, size
	return offer
}

// offer fetches all lists. What reads as in base shares its memory; size is the rest. An
// offer that is the same in all is base.
func (c *conn) offer(ctx context.Context, base *Offer) (offer *Offer, size int64, err error) {
	next, differs := *base, false
	for _, l := range lists {
		if !wire.Declares(c.peer.Capabilities, l.capability) {
			continue
		}
		fetched, meta, err := c.list(ctx, l)
		if isAnswer(err) {
			continue // refused here, it is as for all
		}
		if err != nil {
			return nil, 0, err
		}
		items, itemsMeta := l.items(&next)
		bytes, same := intern(fetched, *items)
		size += bytes
		if !same {
			*items, *itemsMeta, differs = fetched, meta, true
		}
	}
	if !differs {
		return base, 0, nil
	}
	return &next, size, nil
}

// intern makes the items that are in base share its memory. It returns how many bytes are
// left, and whether the lists are the same.
func intern(items, base []Item) (bytes int64, same bool) {
	known := make(map[string]Item, len(base))
	for _, it := range base {
		known[it.Name] = it
	}
	same = len(items) == len(base)
	for i, it := range items {
		if k, ok := known[it.Name]; ok && string(k.Raw) == string(it.Raw) {
			items[i] = k
		} else {
			// The page that it came in is not kept for it.
			items[i].Raw = append([]byte(nil), it.Raw...)
			bytes += int64(len(it.Raw) + len(it.Name))
			same = false
			continue
		}
		same = same && base[i].Name == it.Name
	}
	return bytes, same
}
