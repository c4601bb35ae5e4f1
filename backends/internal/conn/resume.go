package conn

import (
	"context"

	"github.com/vmcp-dev/vmcp/backends/internal/listing"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Session names a session that a backend keeps over Streamable HTTP.
type Session struct{ ID, Revision string }

// Kept is the session that the backend keeps for c; ok is false where it keeps none that has a name.
func (c *Conn) Kept() (s Session, ok bool) {
	h, isHTTP := c.transport.(*httpTransport)
	if !isHTTP || c.Modern {
		return s, false
	}
	id := h.id.Load()
	if id == nil {
		return s, false
	}
	return Session{*id, c.Peer.Revision}, true
}

// Leave has the backend keep its session when c is closed: somebody else goes on with it.
func (c *Conn) Leave() {
	if h, ok := c.transport.(*httpTransport); ok {
		h.id.Store(nil)
	}
}

// Resume goes on with a session that another process has opened. peer is what the backend says of itself. It
// is an error when the backend does not know the session any more.
func (d *Dialer) Resume(ctx context.Context, p Purpose, s Session, peer listing.Peer) (*Conn, error) {
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	h, ok := c.transport.(*httpTransport)
	if !ok {
		c.Close()
		return nil, d.Errorf(Unavailable, "its sessions cannot be resumed: they are not over Streamable HTTP")
	}
	c.Peer = peer
	c.Peer.Revision = s.Revision
	h.id.Store(&s.ID)
	h.at.Set(wire.HeaderSession, s.ID)
	if s.Revision >= wire.Rev2506 {
		h.at.Set(wire.HeaderVersion, s.Revision)
	}
	if _, err := c.Request(ctx, wire.Ping, nil); err != nil {
		c.Leave()
		c.Close()
		return nil, err
	}
	c.start()
	return c, nil
}
