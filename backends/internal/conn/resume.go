package conn

import (
	"context"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Session identifies a backend session over Streamable HTTP.
type Session struct{ ID, Revision string }

// Kept returns the backend session of c; ok is false when it has none with an id.
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

// Detach makes Close leave the backend session open, for another process.
func (c *Conn) Detach() {
	if h, ok := c.transport.(*httpTransport); ok {
		h.id.Store(nil)
	}
}

// Resume opens a connection to a session that another process has opened. peer is the backend's. It fails
// when the backend has forgotten the session.
func (d *Dialer) Resume(ctx context.Context, p Purpose, s Session, peer Peer) (*Conn, error) {
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	h, ok := c.transport.(*httpTransport)
	if !ok {
		c.Close()
		return nil, d.Errorf(Unavailable, "its sessions cannot be resumed: the transport is not Streamable HTTP")
	}
	c.Peer = peer
	c.Peer.Revision = s.Revision
	h.id.Store(&s.ID)
	h.at.Set(wire.HeaderSession, s.ID)
	if s.Revision >= wire.Rev2506 {
		h.at.Set(wire.HeaderVersion, s.Revision)
	}
	if _, err := c.Request(ctx, wire.Ping, nil); err != nil {
		c.Detach()
		c.Close()
		return nil, err
	}
	c.start()
	return c, nil
}
