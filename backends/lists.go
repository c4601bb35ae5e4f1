package backends

import (
	"context"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

type (
	// Offer is what a backend offers. It is immutable.
	Offer = conn.Offer
	// Item is one entry of a list.
	Item = conn.Item
	// ListMeta is how long and for whom a list may be cached; zero when the backend did not say.
	ListMeta = conn.Meta
)

// privateListTime bounds the wait for the lists of a private session.
const privateListTime = 2 * time.Second

// changed marks lists as stale and wakes the run loop, which reads them again.
func (b *Backend) changed(bits conn.Bits) {
	b.stale.Or(bits)
	b.wakeLoop()
}

// streaming is called when the event stream of a legacy backend has been opened on c. The lists
// are read again, because earlier changes were not announced; after a reopened stream only at the
// next check, because some backends end it every few seconds.
func (b *Backend) streaming(c *conn.Conn, first bool) {
	switch {
	case c.OnDemand:
	case first:
		b.changed(conn.All)
	default:
		b.stale.Or(conn.All)
	}
}

// listChanged counts a list changed notification.
func (b *Backend) listChanged(bit conn.Bits) {
	for i, l := range [...]conn.Bits{conn.Tools, conn.Prompts, conn.Resources} {
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

// reader returns a reader of lists on c.
func (b *Backend) reader(ctx context.Context, c *conn.Conn) *conn.Reader {
	lost := func(err error) bool {
		return !c.Usable() || ctx.Err() != nil || conn.KindOf(err) == Unavailable || conn.IsCredentialError(err)
	}
	return &conn.Reader{Ask: c.Request, Lost: lost, Capabilities: c.Peer.Capabilities, Log: b.log}
}

// refresh reads the lists in bits and publishes a new offer. Only the loss of the
// connection is an error: a list that the backend refuses keeps its content.
func (b *Backend) refresh(ctx context.Context, c *conn.Conn, bits conn.Bits) error {
	next := *b.Offer()
	next.Revision, next.Instructions = c.Peer.Revision, c.Peer.Instructions
	next.ServerInfo, next.Capabilities = c.Peer.ServerInfo, c.Peer.Capabilities
	next.ToolsChanges, next.PromptsChanges, next.ResourcesChanges = b.changeCounts[0].Load(), b.changeCounts[1].Load(), b.changeCounts[2].Load()
	if err := b.reader(ctx, c).Refresh(ctx, &next, bits); err != nil {
		return err
	}
	b.offer.Store(&next)
	b.fetched = time.Now()
	return nil
}

// listChangedOn handles a list changed notification received on c. On a private session it
// concerns that session's lists; the shared lists are read again as well, because they may have
// changed, too.
func (b *Backend) listChangedOn(c *conn.Conn, bit conn.Bits, method string) {
	if !c.OnDemand {
		b.listChanged(bit)
		return
	}
	b.changed(bit)
	f := b.set.o.ListChanged
	if f == nil || c.Session == "" {
		return
	}
	if p := b.pool.find(c.Session); p != nil {
		p.lists.MarkStale()
		f(b, c.Session, method)
	}
}

// HasSession reports whether a client session has a private session with the backend.
func (b *Backend) HasSession(session string) bool { return b.pool.find(session) != nil }

// relisted sends list changed notifications to a client whose lists differed from the shared
// ones, because its backend session is a new one.
func (b *Backend) relisted(p *private) {
	own := p.lists.Differs()
	p.lists.MarkStale()
	f := b.set.o.ListChanged
	if !own || f == nil || p.key.Session == "" {
		return
	}
	for _, l := range wire.Lists {
		f(b, p.key.Session, l.Changed)
	}
}

// OfferFor returns the offer for a client session, read again if it may have changed: Offer()
// where the session has no private session, or is offered the same.
func (b *Backend) OfferFor(ctx context.Context, session string) *Offer {
	p := b.pool.find(session)
	if p == nil {
		return b.Offer()
	}
	ctx, cancel := context.WithTimeout(ctx, privateListTime)
	defer cancel()
	for {
		base, c := b.Offer(), b.pool.conn(p)
		if c == nil {
			return base
		}
		offer, wait := p.lists.Known(base, c)
		switch {
		case offer != nil:
			return offer
		case wait == nil:
			return b.fetchLists(ctx, p, c, base)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return b.Offer()
		}
	}
}

// fetchLists reads the lists of p's session. After a failure it returns the shared lists.
func (b *Backend) fetchLists(ctx context.Context, p *private, c *conn.Conn, base *Offer) *Offer {
	offer, size, err := b.reader(ctx, c).Offer(ctx, base)
	offer, tooLarge := p.lists.Set(base, c, offer, size, err, &b.set.privateLists)
	if tooLarge {
		b.log.Warn("lists of a private session are too large, the shared lists are used", "bytes", size)
	}
	return offer
}
