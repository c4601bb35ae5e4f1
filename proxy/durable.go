package proxy

import (
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// changeable is the part of a configuration about runs that may change without a restart.
type changeable struct {
	hold         time.Duration
	answerWithin time.Duration
	suspendedFor time.Duration
	when         string // runs.durable
}

func (p *Proxy) newRuns() {
	p.durable.Store(&changeable{45 * time.Second, 15 * time.Minute, limits.Defaults().ElicitTimeout.Std(), ""})
	p.runs = runs.New(runs.Options{
		Log: p.log, Spawn: p.spawn, Execute: p.resumePart, Over: p.runOver,
		Wrote: func(took time.Duration, err error) { p.metrics.Runs.Wrote(took, err) }, Resumed: func(c runs.Cause) { p.metrics.Runs.Resumed(string(c)) },
	})
	c := config.Default()
	p.runs.Use(p.inMemory(c), p.untold(c), sqlstore.InMemory(c))
}

// inMemory makes a store in memory.
func (p *Proxy) inMemory(c *config.Config) durable.Store {
	return durable.NewMemory(sqlstore.InMemory(c), p.admission.Pool)
}

// untold makes a store for runs that are never kept beyond their request: it has no notifications.
func (p *Proxy) untold(c *config.Config) durable.Store {
	o := sqlstore.InMemory(c)
	o.Notify = nil
	return durable.NewMemory(o, p.admission.Pool)
}

// outlived reports whether the store of runs outlives this process.
func (p *Proxy) outlived() bool {
	return p.stored != nil && p.stored.SessionStorage.Lasting()
}

// openTime is how long a request stays open for a sleeping run.
func (p *Proxy) openTime() time.Duration { return p.durable.Load().hold }

// aliveEvery is how often a client with a progress token is told that its run continues, beside what the script reports: three
// times while a request is open for a sleeping run.
func (p *Proxy) aliveEvery() time.Duration { return max(p.openTime()/3, time.Millisecond) }

// suspendedFor is how long a suspended call waits for its client's next request.
func (p *Proxy) suspendedFor() time.Duration { return p.durable.Load().suspendedFor }

// useStore opens the store of the first configuration. Another store needs a restart.
func (p *Proxy) useStore(cfg *config.Config) error {
	if p.options.OpenStore == nil {
		return nil
	}
	if p.stored != nil {
		if !sqlstore.SameStore(p.stored, cfg) {
			p.log.Warn("sessionStorage, runs.lease, runs.maxEntries, runs.maxBytes, runs.retention.keep or runs.notify.events has changed: restart to use it; until then runs are kept as before")
		}
		if p.stored.Cluster != cfg.Cluster {
			p.log.Warn("cluster has changed: restart to use it; until then the previous settings are used")
		}
		if p.ring == nil || len(cfg.SessionStorage.Keys) == 0 {
			return nil
		}
		return p.ring.Replace(sqlstore.Keys(cfg)) // new keys are used at once
	}
	if !cfg.SessionStorage.Lasting() {
		p.stored = cfg
		p.runs.Use(p.inMemory(cfg), p.untold(cfg), sqlstore.InMemory(cfg))
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
		p.suspended.Use(ring)
	}
	p.runs.Use(s, p.untold(cfg), sqlstore.InMemory(cfg))
	return nil
}

// useRuns applies the part of a configuration that may change without a restart.
func (p *Proxy) useRuns(cfg *config.Config) {
	p.durable.Store(&changeable{cfg.Runs.Hold.Std(), cfg.Runs.AnswerWithin.Std(), cfg.Limits.ElicitTimeout.Std(), cfg.Runs.Durable})
	p.sealSessions(cfg)
	p.notifier.Use(cfg.Runs.Notify, p.runs.Store(), p.ringOf(cfg))
	p.runs.Retain(runs.Keep{Done: cfg.Runs.Retention.Done.Std(), Failed: cfg.Runs.Retention.Failed.Std(), Equal: cfg.Runs.JoinFor.Std()})
}

// closeRuns stops the runs of this process, and closes the store.
func (p *Proxy) closeRuns() {
	p.notifier.Close()
	p.runs.Close()
	if err := p.runs.Store().Close(); err != nil {
		p.log.Warn("the store of runs could not be closed", "err", err)
	}
}

// ringOf is the key ring of the store, or else of the configuration's keys; nil without keys.
func (p *Proxy) ringOf(cfg *config.Config) *durable.Ring {
	if keys := sqlstore.Keys(cfg); p.ring == nil && len(keys) > 0 {
		ring, _ := durable.NewSeal(keys) // the keys were validated with the configuration
		return ring
	}
	return p.ring
}
