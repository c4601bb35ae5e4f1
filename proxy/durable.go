package proxy

import (
	"context"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/settings"
)

// durable is what the configuration in force says of runs, as far as it may change.
type durable struct {
	hold      time.Duration
	parkedFor time.Duration
	when      string // runs.durable
}

func (p *Proxy) newRuns() {
	p.durable.Store(&durable{10 * time.Second, limits.Defaults().ElicitTimeout.Std(), ""})
	p.runs = runs.New(runs.Options{
		Log: p.log, Spawn: p.spawn, Execute: p.resumePart, Over: p.runOver,
		Wrote: func(took time.Duration, err error) { p.metrics.Runs.Wrote(took, err) }, Resumed: func(c runs.Cause) { p.metrics.Runs.Resumed(string(c)) },
	})
	c := config.Default()
	p.runs.Use(p.inMemory(c), p.untold(c), settings.InMemory(c))
}

// inMemory is a store in memory.
func (p *Proxy) inMemory(c *config.Config) store.Store {
	return memory.New(settings.InMemory(c), p.admission.Pool)
}

// untold is a store for runs that are never kept: nobody is told of them.
func (p *Proxy) untold(c *config.Config) store.Store {
	o := settings.InMemory(c)
	o.Tell = nil
	return memory.New(o, p.admission.Pool)
}

// outlived reports whether runs outlive this process.
func (p *Proxy) outlived() bool {
	return p.stored != nil && p.stored.SessionStorage.Provider != config.StorageMemory
}

// hold is how long a request stays open for a run that sleeps.
func (p *Proxy) hold() time.Duration { return p.durable.Load().hold }

// parkedFor is how long a live call waits for its client's next request.
func (p *Proxy) parkedFor() time.Duration { return p.durable.Load().parkedFor }

// useStore opens the store of the first configuration. Another store needs a restart.
func (p *Proxy) useStore(cfg *config.Config) error {
	if p.options.OpenStore == nil {
		return nil
	}
	if p.stored != nil {
		if !settings.SameStore(p.stored, cfg) {
			p.log.Warn("sessionStorage, runs.lease, runs.maxEntries, runs.maxBytes, runs.retention.keep or runs.notify.events has changed: restart to use it; until then runs are kept as before")
		}
		if p.stored.Cluster != cfg.Cluster {
			p.log.Warn("cluster has changed: restart to use it; until then it is as before")
		}
		if p.ring == nil || len(cfg.SessionStorage.Keys) == 0 {
			return nil
		}
		return p.ring.Replace(settings.Keys(cfg)) // keys count at once
	}
	if cfg.SessionStorage.Provider == config.StorageMemory {
		p.stored = cfg
		p.runs.Use(p.inMemory(cfg), p.untold(cfg), settings.InMemory(cfg))
		return nil
	}
	s, ring, err := p.options.OpenStore(cfg)
	if err != nil {
		return err
	}
	if err := p.joinCluster(cfg, ring); err != nil {
		s.Close()
		return err
	}
	p.stored, p.ring = cfg, ring
	if ring != nil {
		p.parked.Use(ring)
	}
	p.runs.Use(s, p.untold(cfg), settings.InMemory(cfg))
	return nil
}

// useRuns takes what may change of a configuration.
func (p *Proxy) useRuns(cfg *config.Config) {
	p.durable.Store(&durable{cfg.Runs.Hold.Std(), cfg.Limits.ElicitTimeout.Std(), cfg.Runs.Durable})
	p.sealSessions(cfg)
	p.notifier.Use(cfg.Runs.Notify, p.runs.Store(), p.ringOf(cfg))
	p.runs.Retain(runs.Keep{Done: cfg.Runs.Retention.Done.Std(), Failed: cfg.Runs.Retention.Failed.Std()})
}

// closeRuns stops what runs, and gives the store back.
func (p *Proxy) closeRuns() {
	p.notifier.Close()
	p.runs.Close()
	if err := p.runs.Store().Close(); err != nil {
		p.log.Warn("the store of runs was not closed", "err", err)
	}
}

// ringOf is the ring of the store, or of the keys of a configuration; nil without any.
func (p *Proxy) ringOf(cfg *config.Config) *seal.Ring {
	if keys := settings.Keys(cfg); p.ring == nil && len(keys) > 0 {
		ring, _ := seal.New(keys) // the configuration has checked them
		return ring
	}
	return p.ring
}

// storage is what /readyz shows of the store of runs.
func (p *Proxy) storage(ctx context.Context) *StorageStatus {
	s := &StorageStatus{Provider: config.StorageMemory, OK: true}
	if p.stored != nil {
		s.Provider = p.stored.SessionStorage.Provider
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	if err := p.runs.Store().Ping(ctx); err != nil {
		s.OK, s.Error = false, p.secrets.Text(err.Error())
	}
	return s
}

// pingWithin is how long the store has to answer to /readyz.
const pingWithin = 2 * time.Second
