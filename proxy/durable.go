package proxy

import (
	"context"
	"reflect"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/open"
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
		Wrote: p.metrics.Runs.Wrote, Resumed: func(c runs.Cause) { p.metrics.Runs.Resumed(string(c)) },
	})
	c := config.Default()
	p.runs.Use(inMemory(c), inMemory(c))
}

// What a store in memory leaves to its own bounds, which hold for all runs together: there no run
// is lost that has more entries than a database shall keep of one.
const (
	entriesInMemory = 200_000
	bytesInMemory   = 128 << 20
)

func inMemory(c *config.Config) store.Store {
	o := open.Options(c)
	o.MaxEntries, o.MaxBytes = max(o.MaxEntries, entriesInMemory), max(o.MaxBytes, bytesInMemory)
	return memory.New(o)
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
		if !sameStore(p.stored, cfg) {
			p.log.Warn("sessionStorage, runs.lease, runs.maxEntries, runs.maxBytes, runs.retention.keep or runs.notify.events has changed: restart to use it; until then runs are kept as before")
		}
		if p.ring == nil || len(cfg.SessionStorage.Keys) == 0 {
			return nil
		}
		return p.ring.Replace(open.Keys(cfg)) // keys count at once
	}
	if cfg.SessionStorage.Provider == config.StorageMemory {
		p.stored = cfg
		p.runs.Use(inMemory(cfg), inMemory(cfg))
		return nil
	}
	s, ring, err := p.options.OpenStore(cfg)
	if err != nil {
		return err
	}
	p.stored, p.ring = cfg, ring
	if ring != nil {
		p.parked.ring.Store(ring)
	}
	p.runs.Use(s, inMemory(cfg))
	return nil
}

// sameStore reports whether two configurations name the same store, opened in the same way. Keys may differ.
func sameStore(a, b *config.Config) bool {
	one, other := a.SessionStorage, b.SessionStorage
	one.Keys, other.Keys = nil, nil
	return reflect.DeepEqual(one, other) && reflect.DeepEqual(open.Options(a), open.Options(b))
}

// useRuns takes what may change of a configuration.
func (p *Proxy) useRuns(cfg *config.Config) {
	p.durable.Store(&durable{cfg.Runs.Hold.Std(), cfg.Limits.ElicitTimeout.Std(), cfg.Runs.Durable})
	p.runs.Retain(runs.Keep{Done: cfg.Runs.Retention.Done.Std(), Failed: cfg.Runs.Retention.Failed.Std()})
}

// closeRuns stops what runs, and gives the store back.
func (p *Proxy) closeRuns() {
	p.runs.Close()
	if err := p.runs.Store().Close(); err != nil {
		p.log.Warn("the store of runs was not closed", "err", err)
	}
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
