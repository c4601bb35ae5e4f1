package proxy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/cluster/peers"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
	"github.com/vmcp-dev/vmcp/proxy/members"
	"github.com/vmcp-dev/vmcp/proxy/routing"
)

// sealSessions has sessions named by sealed texts where there are keys.
func (p *Proxy) sealSessions(cfg *config.Config) {
	if len(cfg.SessionStorage.Keys) == 0 {
		p.edge.Seal(nil)
		return
	}
	space, self := cfg.SessionStorage.Schema, ""
	if p.stored != nil {
		space = p.stored.SessionStorage.Schema // another one needs a restart
	}
	if m := p.members.Load(); m != nil {
		self = m.Self()
	}
	p.edge.Seal(ids.NewSealer(p.ringOf(cfg), space, self))
}

// servePeers opens the port for the other replicas: sessions and calls that wait may be at any of them.
func (p *Proxy) servePeers(cfg *config.Config, m *cluster.Members) error {
	c := cfg.Cluster
	o := peers.Options{Timeout: c.ForwardTimeout.Std(), Forwarded: p.metrics.Cluster.Forwarded}
	if c.TLS.Cert != "" {
		secure, err := peers.NewTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA, p.log)
		if err != nil {
			return fmt.Errorf("cluster.tls: %w", err)
		}
		o.TLS = secure
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cluster.listen: %w", err)
	}
	t := routing.New(routing.Options{
		Members: m, Edge: p.edge, Log: p.log, Kept: func(s *edge.Session) *routing.Kept { return &peerOf(s).kept },
		Restore: p.restore, Holder: p.holder, Status: p.ownStatus, Life: p.life, Spawn: p.spawn, Adopted: p.metrics.Cluster.Adopted,
	}, o)
	p.parked.At(m.Self())
	p.routing.Store(t)
	p.edge.Join(t)
	p.spawn(func() {
		if err := t.Peers().Listen(edge.Listener(l)); err != nil {
			p.log.Error("the other replicas do not reach this one any more", "err", err)
		}
	})
	return nil
}

// keep changes what another replica needs to go on with a session.
func (p *Proxy) keep(ctx context.Context, s *edge.Session, f func(*cluster.State)) {
	if t := p.routing.Load(); t != nil && s != nil {
		t.Change(ctx, s, f)
	}
}

// keepSubscriptions keeps what a session follows.
func (p *Proxy) keepSubscriptions(ctx context.Context, s *edge.Session) {
	p.keep(ctx, s, func(state *cluster.State) { state.Subscriptions = peerOf(s).followed.All() })
}

// keptByBackend keeps the name of what a backend keeps for a session.
func (p *Proxy) keptByBackend(session, backend, name string) {
	p.keep(p.life, p.edge.Session(session), func(state *cluster.State) {
		if state.Backends == nil {
			state.Backends = map[string]string{}
		}
		state.Backends[backend] = name
	})
}

// named is a backend of a list; nil when it is none of them.
func named(all []*backends.Backend, name string) *backends.Backend {
	if i := slices.IndexFunc(all, func(b *backends.Backend) bool { return b.Name() == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// resumeTime is how long backends have to go on with what they keep for a session that is adopted.
const resumeTime = 10 * time.Second

// restore renews what a session had at the replica before.
func (p *Proxy) restore(ctx context.Context, s *edge.Session, state cluster.State) error {
	s.Peer.Initialize()
	ctx, cancel := context.WithTimeout(ctx, resumeTime)
	defer cancel()
	caller := newExchange(p, edge.Request{Client: s.Client}).callerIn(ctx)
	for name, kept := range state.Backends {
		be := named(p.backends.All(), name)
		switch {
		case be == nil:
			continue // it is not configured any more: nothing can be answered from it
		case kept == "":
			return fmt.Errorf("backend %s: what it kept for the session ended with the process: %w", name, routing.ErrLost)
		}
		if err := be.Resume(ctx, caller, kept); err != nil {
			return fmt.Errorf("%w: %w", err, routing.ErrLost)
		}
	}
	p.spawn(func() { p.renew(context.WithoutCancel(ctx), s, state.Subscriptions) })
	return nil
}

// renew has an adopted session follow what it followed, and its client look again at what there is.
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

// holder is the other replica that has the call or the run which waits for a request; "" for none.
func (p *Proxy) holder(asked edge.Request) string {
	x := newExchange(p, asked)
	if _, err := x.takeLogin(); err != nil {
		return ""
	}
	return p.parked.Holder(x.Get(members.State), x.binding())
}

// Left lets a session go that goes on at another replica.
func (s *peer) Left() {
	s.p.subscriptions.Leave(&s.followed)
	s.p.backends.Leave(s.session.ID)
}
