package proxy

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/proxy/subscriptions"
)

// A peer is the proxy's state of a client's session.
type peer struct {
	p         *Proxy
	session   *edge.Session
	outOfCall *exchange                      // receives what backends send while no call of the session is running
	overlay   atomic.Pointer[overlay]        // offers to this session only; nil for none
	tasks     bool                           // initialize declared tasks to the client
	principal atomic.Pointer[auth.Principal] // of the last request; nil is anonymous
	followed  subscriptions.Followed
	kept      cluster.Kept // what the shared store has of it, for other replicas
}

// Open implements edge.Handler: it makes the state of a new session.
func (p *Proxy) Open(ctx context.Context, s *edge.Session) edge.Peer {
	made := &peer{p: p, session: s, outOfCall: &exchange{p: p, client: s.Client, out: s}}
	made.principal.Store(edge.PrincipalOf(ctx))
	return made
}

// who is the client as the current policies identify it; nil without policies.
func (s *peer) who() *Who {
	return s.p.rules.Load().Who(s.principal.Load(), s.session.Client.Profile)
}

// peerOf is the proxy's state of a session.
func peerOf(s *edge.Session) *peer { return s.Peer.(*peer) }

// Initialize is the result of initialize.
func (s *peer) Initialize() (result json.RawMessage) {
	s.p.subscriptions.Opened(s.session)
	result, s.tasks = s.who().View(s.p.catalog.Load(), s.session.Client.Profile).InitializeResult(s.session.Client.Revision)
	return result
}

// Notified passes a notification of the client on to its backend sessions.
func (s *peer) Notified(method string, params json.RawMessage) {
	s.p.backends.Notify(s.session.ID, method, params)
}

// Listens makes the backend sessions listen while the client does.
func (s *peer) Listens() { s.p.backends.Listen(s.session.ID) }

// StoppedListening makes them stop.
func (s *peer) StoppedListening() { s.p.backends.Unlisten(s.session.ID) }

// Ended closes everything that belongs to the session.
func (s *peer) Ended() {
	s.p.subscriptions.Leave(&s.followed)
	s.p.backends.Release(s.session.ID)
	if t := s.p.routing.Load(); t != nil && s.kept.HasRow() {
		s.p.spawn(func() { t.Deleted(s.session) }) // in the store: it will not be adopted
	}
}

// catalogOf is the catalog of a client, as far as it is known.
func (p *Proxy) catalogOf(c *edge.Client) *catalog.Catalog { return p.catalogOfSession(c.Session) }

// catalogOfSession is the catalog for a session; nil is a client without a session.
func (p *Proxy) catalogOfSession(s *edge.Session) *catalog.Catalog {
	if s != nil {
		if o := peerOf(s).overlay.Load(); o != nil {
			return p.overlaid(o)
		}
	}
	return p.catalog.Load()
}

// currentCatalog is the catalog of a client, after asking the backends with which it has private sessions.
func (p *Proxy) currentCatalog(ctx context.Context, c *edge.Client) *catalog.Catalog {
	if s := c.Session; s != nil {
		peerOf(s).overlay.Store(askOverlay(ctx, p.backends.All(), s.ID))
	}
	return p.catalogOf(c)
}

// overlaid is the catalog with an overlay, cached.
func (p *Proxy) overlaid(o *overlay) *catalog.Catalog {
	if c := p.overlays.Find(p.catalog.Load(), o); c != nil {
		return c
	}
	p.building.Lock()
	defer p.building.Unlock()
	base := p.catalog.Load()
	c := p.overlays.Find(base, o)
	if c == nil {
		c = catalog.Build(p.config, p.backends.All(), o.Offers, p.scripts, p.introduction())
		p.overlays.Add(base, o, c)
		p.reportPins(c)
	}
	return c
}
