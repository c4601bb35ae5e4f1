package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Some servers show tools, prompts or resources to one session only: after a login, or when
// a toolset was switched on. An overlay is what a client's session gets beside the catalog
// for that: the catalog with the parts of some backends replaced by what they offer to this
// session's own connections, made by the same builder and so by the same rules.
//
//   - The backends package says what a session is offered (OfferFor). It is asked when the
//     client lists, and before a name counts as unknown: never on the way of a call whose
//     name is known. A session without an overlay costs a call one look at a pointer.
//   - A session holds which offers are its own; the catalogs made of them are shared by all
//     sessions with equal offers, and kept while they are among the newest maxOverlays. One
//     that is not kept is built again when it is needed.
//   - What a session's own offers hold in bytes is bounded by the backends package.
type overlay struct {
	offers map[*backends.Backend]*backends.Offer
	key    [sha256.Size]byte // over the offers
}

// maxOverlays bounds the catalogs that are kept for sessions with offers of their own.
const maxOverlays = 64

// overlays are the catalogs of one base catalog, by the key of their overlay.
type overlays struct {
	mu    sync.Mutex
	base  *catalog.Catalog
	byKey map[[sha256.Size]byte]*catalog.Catalog
	order [][sha256.Size]byte // oldest first
}

// catalogOf is what a client can name, as far as is known.
func (p *Proxy) catalogOf(c *edge.Client) *catalog.Catalog { return p.catalogOfSession(c.Session) }

// catalogOfSession is that of the client of a session; nil is a client without one.
func (p *Proxy) catalogOfSession(s *edge.Session) *catalog.Catalog {
	if s != nil {
		if o := peerOf(s).overlay.Load(); o != nil {
			return p.overlaid(o)
		}
	}
	return p.catalog.Load()
}

// currentCatalog is what a client can name, after asking the backends that have a connection
// of its own.
func (p *Proxy) currentCatalog(ctx context.Context, c *edge.Client) *catalog.Catalog {
	if s := c.Session; s != nil {
		peerOf(s).overlay.Store(p.ownOffers(ctx, s.ID))
	}
	return p.catalogOf(c)
}

// ownOffers asks all backends for what they offer to one session; nil when each offers it
// what it offers to all.
func (p *Proxy) ownOffers(ctx context.Context, session string) *overlay {
	all := p.backends.All()
	offers := make([]*backends.Offer, len(all))
	var asking sync.WaitGroup
	for i, be := range all {
		if be.HasSession(session) {
			asking.Go(func() { offers[i] = be.OfferFor(ctx, session) })
		}
	}
	asking.Wait()
	o := &overlay{offers: map[*backends.Backend]*backends.Offer{}}
	digest := sha256.New()
	for i, be := range all {
		if offers[i] != nil && offers[i] != be.Offer() {
			o.offers[be] = offers[i]
			addOffer(digest, be.Name(), offers[i])
		}
	}
	if len(o.offers) == 0 {
		return nil
	}
	digest.Sum(o.key[:0])
	return o
}

func addOffer(digest hash.Hash, backend string, offer *backends.Offer) {
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		digest.Write(n[:])
		digest.Write(b)
	}
	add([]byte(backend))
	for _, items := range [...][]backends.Item{offer.Tools, offer.Prompts, offer.Resources, offer.Templates} {
		add(nil)
		for _, it := range items {
			add(it.Raw)
		}
	}
}

// overlaid is the catalog with an overlay.
func (p *Proxy) overlaid(o *overlay) *catalog.Catalog {
	base := p.catalog.Load()
	if c := p.overlays.find(base, o); c != nil {
		return c
	}
	p.building.Lock()
	base = p.catalog.Load()
	c := p.overlays.find(base, o)
	if c == nil {
		c = catalog.Build(p.config, p.backends.All(), o.offers, p.scripts, p.introduction())
		p.overlays.add(base, o, c)
		p.reportPins(c)
	}
	p.building.Unlock()
	return c
}

func (t *overlays) find(base *catalog.Catalog, o *overlay) *catalog.Catalog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		return nil
	}
	return t.byKey[o.key]
}

func (t *overlays) add(base *catalog.Catalog, o *overlay, c *catalog.Catalog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		t.base, t.byKey, t.order = base, map[[sha256.Size]byte]*catalog.Catalog{}, nil
	}
	if len(t.order) == maxOverlays {
		delete(t.byKey, t.order[0])
		t.order = t.order[1:]
	}
	t.byKey[o.key] = c
	t.order = append(t.order, o.key)
}
