package proxy

import (
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// Members are the replicas of the cluster that this process is one of; nil while it is alone.
func (p *Proxy) Members() *cluster.Members { return p.members.Load() }

// joinCluster makes this process a replica where the first configuration says so.
func (p *Proxy) joinCluster(cfg *config.Config, ring *seal.Ring) error {
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

// followMembers divides the limits among the replicas until the proxy ends.
func (p *Proxy) followMembers(m *cluster.Members) {
	for {
		changed, n := m.Changed(), m.Live()
		p.admission.Share(n)
		p.quota.Share(n)
		p.console.Poke()
		select {
		case <-changed:
		case <-p.life.Done():
			return
		}
	}
}

// fits says why this replica must not serve: nil when it may, or is alone.
func (p *Proxy) fits() error {
	if m := p.members.Load(); m != nil {
		return m.Keys()
	}
	return nil
}

// clusterStatus is what /readyz shows of the replicas; nil for a process that is alone.
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

// viewOf says whose view the status is; nil for a process that is alone.
func (p *Proxy) viewOf() *status.Cluster {
	c := p.clusterStatus()
	if c == nil {
		return nil
	}
	return &status.Cluster{ID: c.ID, Advertise: c.Advertise, Replicas: c.Replicas, Configs: len(c.Configs), Error: c.Error}
}

// replicas is what /metrics shows of them.
func (p *Proxy) replicas() *metrics.Replicas {
	m := p.members.Load()
	if m == nil {
		return nil
	}
	return &metrics.Replicas{Live: m.Live(), Configs: len(m.Configurations())}
}
