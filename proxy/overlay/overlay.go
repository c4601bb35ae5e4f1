// Package overlay is what a client's session is offered beside the catalog.
//
// Some servers show tools, prompts or resources to one session only: after a login, or when
// a toolset was switched on. An overlay is what a client's session gets beside the catalog
// for that: the catalog with the parts of some backends replaced by what they offer to this
// session's own connections, made by the same builder and so by the same rules.
//
//   - The backends package says what a session is offered (OfferFor). It is asked when the
//     client lists, and before a name counts as unknown: never on the way of a call whose
//     name is known. A session without an overlay costs a call one look at a pointer.
//   - A session holds which offers are its own; the catalogs made of them are shared by all
//     sessions with equal offers, and kept while they are among the newest so many. One
//     that is not kept is built again when it is needed.
//   - What a session's own offers hold in bytes is bounded by the backends package.
package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// Overlay is what backends offer to one session, where that is something else than what they offer to all.
type Overlay struct {
	Offers map[*backends.Backend]*backends.Offer
	key    [sha256.Size]byte // over the offers
}

// most bounds the catalogs that are kept for sessions with offers of their own.
const most = 64

// A Set has the catalogs of one base catalog with overlays. The zero value is empty.
type Set struct {
	mu    sync.Mutex
	base  *catalog.Catalog
	byKey map[[sha256.Size]byte]*catalog.Catalog
	order [][sha256.Size]byte // oldest first
}

// Ask asks backends for what they offer to one session; nil when each offers it
// what it offers to all.
func Ask(ctx context.Context, all []*backends.Backend, session string) *Overlay {
	offers := make([]*backends.Offer, len(all))
	var asking sync.WaitGroup
	for i, be := range all {
		if be.HasSession(session) {
			asking.Go(func() { offers[i] = be.OfferFor(ctx, session) })
		}
	}
	asking.Wait()
	o := &Overlay{Offers: map[*backends.Backend]*backends.Offer{}}
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

// Find is the catalog base with an overlay, if it is kept.
func (t *Set) Find(base *catalog.Catalog, o *Overlay) *catalog.Catalog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		return nil
	}
	return t.byKey[o.key]
}

// Add keeps c, which is base with an overlay.
func (t *Set) Add(base *catalog.Catalog, o *Overlay, c *catalog.Catalog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != base {
		t.base, t.byKey, t.order = base, map[[sha256.Size]byte]*catalog.Catalog{}, nil
	}
	if len(t.order) == most {
		delete(t.byKey, t.order[0])
		t.order = t.order[1:]
	}
	t.byKey[o.key] = c
	t.order = append(t.order, o.key)
}
