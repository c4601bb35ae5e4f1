package proxy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/cluster"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// sealSessions enables sealed session ids if there are keys.
func (p *Proxy) sealSessions(cfg *config.Config) {
	if len(cfg.SessionStorage.Keys) == 0 {
		p.edge.Seal(nil)
		return
	}
	space, self, now := cfg.SessionStorage.Schema, "", time.Now
	if p.stored != nil {
		space = p.stored.SessionStorage.Schema // a change needs a restart
	}
	if m := p.members.Load(); m != nil {
		self, now = m.Self(), m.Now
	}
	p.edge.Seal(edge.NewSealer(p.ringOf(cfg), space, self, now))
}

// servePeers opens the port for the other replicas, which forward requests for sessions and suspended calls.
func (p *Proxy) servePeers(cfg *config.Config, m *cluster.Members) error {
	c := cfg.Cluster
	o := cluster.PeerOptions{Timeout: c.ForwardTimeout.Std(), Forwarded: p.metrics.Cluster.Forwarded}
	if c.TLS.Cert != "" {
		secure, err := cluster.NewTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA, p.log)
		if err != nil {
			return fmt.Errorf("cluster.tls: %w", err)
		}
		o.TLS = secure
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cluster.listen: %w", err)
	}
	t := cluster.NewRouting(cluster.RoutingOptions{
		Members: m, Edge: p.edge, Log: p.log, Kept: func(s *edge.Session) *cluster.Kept { return &peerOf(s).kept },
		Restore: p.restore, Holder: p.holder, Status: p.ownStatus, Life: p.life, Spawn: p.spawn, Adopted: p.metrics.Cluster.Adopted,
	}, o)
	p.suspended.At(m.Self())
	p.routing.Store(t)
	p.edge.Join(t)
	p.spawn(func() {
		if err := t.Peers().Listen(edge.Listener(l)); err != nil {
			p.log.Error("the port for other replicas has failed: they no longer reach this one", "err", err)
		}
	})
	return nil
}

// changeState changes what is stored of a session for other replicas.
func (p *Proxy) changeState(ctx context.Context, s *edge.Session, f func(*cluster.State)) {
	if t := p.routing.Load(); t != nil && s != nil {
		t.Change(ctx, s, f)
	}
}

// saveSubscriptions stores the subscriptions of a session.
func (p *Proxy) saveSubscriptions(ctx context.Context, s *edge.Session) {
	p.changeState(ctx, s, func(state *cluster.State) { state.Subscriptions = peerOf(s).followed.All() })
}

// keptByBackend stores the id of a session's backend session.
func (p *Proxy) keptByBackend(session, backend, name string) {
	p.changeState(p.life, p.edge.Session(session), func(state *cluster.State) {
		if state.Backends == nil {
			state.Backends = map[string]string{}
		}
		state.Backends[backend] = name
	})
}

// named is the backend with a name; nil if there is none.
func named(all []*backends.Backend, name string) *backends.Backend {
	if i := slices.IndexFunc(all, func(b *backends.Backend) bool { return b.Name() == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// resumeTime bounds resuming the backend sessions of an adopted session.
const resumeTime = 10 * time.Second

// restore restores an adopted session: its subscriptions and backend sessions.
func (p *Proxy) restore(ctx context.Context, s *edge.Session, state cluster.State) error {
	s.Peer.Initialize()
	ctx, cancel := context.WithTimeout(ctx, resumeTime)
	defer cancel()
	caller := newExchange(p, edge.Request{Client: s.Client}).callerIn(ctx)
	for name, kept := range state.Backends {
		be := named(p.backends.All(), name)
		switch {
		case be == nil:
			continue // it was removed from the configuration
		case kept == "":
			return fmt.Errorf("backend %s: its state of the session was lost with the process: %w", name, cluster.ErrLost)
		}
		if err := be.Resume(ctx, caller, kept); err != nil {
			return fmt.Errorf("%w: %w", err, cluster.ErrLost)
		}
	}
	p.spawn(func() { p.renew(context.WithoutCancel(ctx), s, state.Subscriptions) })
	return nil
}

// renew renews the subscriptions of an adopted session, and makes its client read the lists again.
func (p *Proxy) renew(ctx context.Context, s *edge.Session, uris []string) {
	select {
	case <-p.started:
	case <-p.life.Done():
		return
	}
	caller := newExchange(p, edge.Request{Client: s.Client}).callerIn(ctx)
	for _, uri := range uris {
		e := p.catalogOfSession(s).Find(catalog.Resource(uri))
		if e == nil {
			continue
		}
		if err := p.subscriptions.Subscribe(ctx, s, caller, e, uri); err != nil {
			p.log.Info("subscription not renewed", "session", s.ID[:6], "uri", uri, "err", err)
		}
	}
	for _, l := range wire.Lists {
		p.subscriptions.ListChanged(s.ID, l.Changed)
	}
}

// holder is the replica, other than this, that has the suspended call or run of a request; "" for none.
func (p *Proxy) holder(asked edge.Request) string {
	x := newExchange(p, asked)
	if _, err := x.takeLogin(); err != nil {
		return ""
	}
	return p.suspended.Holder(x.Get(memberState), x.binding())
}

// Left releases a session that continues at another replica.
func (s *peer) Left() {
	s.p.subscriptions.Leave(&s.followed)
	s.p.backends.DetachSession(s.session.ID)
}
