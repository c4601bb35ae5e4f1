package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// Members is the cluster; nil for a process that is in none.
func (p *Proxy) Members() *cluster.Members { return p.members.Load() }

// joinCluster joins the cluster of the first configuration, if it has one.
func (p *Proxy) joinCluster(cfg *config.Config, ring *durable.Ring) error {
	if !cfg.Cluster.On() || ring == nil {
		return nil
	}
	m, err := cluster.Of(p.life, cfg, ring, p.log)
	if err != nil {
		return err
	}
	if err := p.servePeers(cfg, m); err != nil {
		m.Close()
		return err
	}
	p.members.Store(m)
	p.tasks.Use(m)
	p.backends.ShareLogins(credentials.Share(m.Tokens()), m.Tokens())
	if p.options.Joined != nil {
		p.options.Joined(m.Self())
	}
	p.spawn(func() { p.followMembers(m) })
	return nil
}

// followMembers updates the shares of the limits when replicas join or leave, until the proxy closes.
func (p *Proxy) followMembers(m *cluster.Members) {
	for {
		changed, n := m.Changed(), m.Live()
		p.admission.Share(n)
		p.quota.Share(n)
		p.console.Wake()
		select {
		case <-changed:
		case <-p.life.Done():
			return
		}
	}
}

// fits returns why this replica must not serve; nil if it may, or is in no cluster.
func (p *Proxy) fits() error {
	if m := p.members.Load(); m != nil {
		return m.Keys()
	}
	return nil
}

// clusterStatus is the cluster in the details of /readyz; nil without a cluster.
func (p *Proxy) clusterStatus() *status.DetailsCluster {
	m := p.members.Load()
	if m == nil {
		return nil
	}
	s := &status.DetailsCluster{ID: m.Self(), Advertise: m.Advertised(), Replicas: m.Live(), Configs: m.Configurations()}
	if err := m.Keys(); err != nil {
		s.Error = p.secrets.Text(err.Error())
	}
	return s
}

// viewOf is the cluster in the status document; nil without a cluster.
func (p *Proxy) viewOf() *status.Cluster {
	c := p.clusterStatus()
	if c == nil {
		return nil
	}
	return &status.Cluster{ID: c.ID, Advertise: c.Advertise, Replicas: c.Replicas, Configs: len(c.Configs), Error: c.Error}
}

// ownStatus is the status of this replica for other replicas.
func (p *Proxy) ownStatus() []byte {
	text, err := json.Marshal(p.Overview())
	if err != nil {
		panic(err) // a bug: it consists of texts and numbers
	}
	return p.secrets.JSON(text)
}

// everyReplica returns the status of all replicas, this one first.
func (p *Proxy) everyReplica(ctx context.Context) []status.Replica {
	own := p.Overview()
	all := []status.Replica{{Status: &own}}
	t, m := p.routing.Load(), p.members.Load()
	if t == nil || m == nil {
		return all
	}
	all[0].ID, all[0].Address = m.Self(), m.Advertised()
	t.AskAll(ctx, func(id, address string, text []byte, err error) {
		r := status.Replica{ID: id, Address: address}
		if err == nil {
			r.Status = &status.Status{}
			err = json.Unmarshal(text, r.Status)
		}
		if err != nil {
			r.Status, r.Error = nil, err.Error()
		}
		all = append(all, r)
	})
	slices.SortFunc(all[1:], func(a, b status.Replica) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// replicas is the cluster in /metrics.
func (p *Proxy) replicas() *observe.Replicas {
	m := p.members.Load()
	if m == nil {
		return nil
	}
	return &observe.Replicas{Live: m.Live(), Configs: len(m.Configurations())}
}
