package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// This part of the package has the catalogs of sessions to which backends offer something else than to others.
//
// Some servers show tools, prompts or resources to one session only, for example after a login, or when a toolset was
// enabled. An overlay is the set of such offers; the session's catalog is built from the common one, with the offers of
// those backends replaced, by the same builder and so by the same rules.
//
//   - Package backends returns what a session is offered (OfferFor). It is called when the client lists, and before a name
//     counts as unknown, but not for a call of a known name. A session without an overlay costs a call one atomic load.
//   - A session has its offers; the catalogs built of them are shared by all sessions with equal offers, and cached. One
//     that was dropped from the cache is built again.
//   - Package backends bounds the memory of such offers.

// overlay has the offers of backends to one session that differ from their common ones.
type overlay struct {
	Offers map[*backends.Backend]*backends.Offer
	key    [sha256.Size]byte // hash of the offers
}

// overlayMost bounds the cached catalogs.
const overlayMost = 64

// A set is the cache of catalogs with overlays for one base catalog. The zero value is empty.
type set struct {
	mu    sync.Mutex
	base  *catalog.Catalog
	byKey map[[sha256.Size]byte]*catalog.Catalog
	order [][sha256.Size]byte // oldest first
}

// askOverlay asks backends for their offers to one session; nil if each offers what it offers to all.
func askOverlay(ctx context.Context, all []*backends.Backend, session string) *overlay {
	offers := make([]*backends.Offer, len(all))
	var asking sync.WaitGroup
	for i, be := range all {
		if be.HasSession(session) {
			asking.Go(func() { offers[i] = be.OfferFor(ctx, session) })
		}
	}
	asking.Wait()
	o := &overlay{Offers: map[*backends.Backend]*backends.Offer{}}
	digest := sha256.New()
	for i, be := range all {
		if offers[i] != nil && offers[i] != be.Offer() {
			o.Offers[be] = offers[i]
			addOffer(digest, be.Name(), offers[i])
		}
	}
	if len(o.Offers) == 0 {
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

// Find returns the cached catalog for base with an overlay; nil if there is none.
func (t *set) Find(base *catalog.Catalog, o *overlay) *catalog.Catalog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		return nil
	}
	return t.byKey[o.key]
}

// Add caches c, which is base with an overlay.
func (t *set) Add(base *catalog.Catalog, o *overlay, c *catalog.Catalog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		t.base, t.byKey, t.order = base, map[[sha256.Size]byte]*catalog.Catalog{}, nil
	}
	if len(t.order) == overlayMost {
		delete(t.byKey, t.order[0])
		t.order = t.order[1:]
	}
	t.byKey[o.key] = c
	t.order = append(t.order, o.key)
}
