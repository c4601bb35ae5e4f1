package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// A backend that is not up has nothing in the catalog, and yet its names are not unknown.
// A catalog therefore lists who was absent when it was built, and what these may have:
//
//   - A name that is not in the catalog but may be an absent backend's is answered with
//     the state of that backend (kind unavailable: surely not done, may be repeated). While
//     the backend is starting, which is its first attempt to connect and nothing later,
//     the call first waits for the next catalogs, for operational.startup.wait at most.
//   - A name that no absent backend can have is unknown, at once.
//   - Lists wait for backends that are starting only while the process is young: until
//     each backend was tried once (Proxy.started), and operational.startup.wait after the
//     first configuration at most. /readyz answers 200 from the same moment on.

// await finds an entry that is not in the catalog that the caller looked at. It waits
// while a backend that may have it is starting, for operational.startup.wait, that
// backend's time for a call and the time of ctx at most. It returns nil when nobody can
// have it whom the profile shows, and an *backends.Error of kind Unavailable when a backend may have it that is
// not up.
func (p *Proxy) await(ctx context.Context, r catalog.Ref, find func(*catalog.Catalog, catalog.Ref) *catalog.Entry, profile string) (*catalog.Entry, error) {
	var late *time.Timer
	for {
		c := p.catalog.Load()
		if e := find(c, r); e != nil {
			return e, nil
		}
		be, state := c.Through(profile).MayHave(r)
		switch {
		case be == nil:
			return nil, nil
		case !state.Starting():
			return nil, be.NotUp(state)
		case late == nil:
			late = time.NewTimer(min(p.startupWait(), be.Timeout()))
			defer late.Stop()
		}
		select {
		case <-c.Replaced():
		case <-late.C:
			return nil, be.NotUp(state)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, be.NotUp(state)
			}
			return nil, context.Canceled
		}
	}
}

// entryFor finds an entry for a client's request: in what is known, in what backends show to
// its session by now, and at last by waiting. A backend that may have it and is not up is an error.
func (p *Proxy) entryFor(ctx context.Context, x *exchange, r catalog.Ref) (*catalog.Entry, error) {
	if e := x.find(p.catalogOf(x.client), r); e != nil {
		return e, nil
	}
	if x.client.Session != nil {
		c := p.currentCatalog(ctx, x.client)
		if e := x.find(c, r); e != nil || c.Withholds(r) {
			return e, nil
		}
	}
	return p.await(ctx, r, x.find, x.client.Profile)
}

// clientTool finds a tool for a client.
func (p *Proxy) clientTool(ctx context.Context, x *exchange, name string) (*catalog.Entry, error) {
	c, r := p.catalogOf(x.client), catalog.Tool(name)
	if e := x.find(c, r); e != nil {
		return e, nil
	}
	if err := x.view(c).Ambiguous(name); err != nil {
		return nil, err
	}
	e, err := p.entryFor(ctx, x, r)
	if e == nil && err == nil {
		err = wire.Errorf(wire.InvalidParams, "unknown tool: %s", name)
	}
	return e, err
}

// clientPrompt finds a prompt for a client.
func (p *Proxy) clientPrompt(ctx context.Context, x *exchange, name string) (*catalog.Entry, error) {
	e, err := p.entryFor(ctx, x, catalog.Prompt(name))
	if e == nil && err == nil {
		err = wire.Errorf(wire.InvalidParams, "unknown prompt: %s", name)
	}
	return e, err
}

// clientResource finds who serves a URI to a client; nil when nobody can.
func (p *Proxy) clientResource(ctx context.Context, x *exchange, uri string) (*catalog.Entry, error) {
	return p.entryFor(ctx, x, catalog.Resource(uri))
}

// awaitStart holds a list of a profile back while the process is young and backends of it are on their
// first attempt.
func (p *Proxy) awaitStart(ctx context.Context, profile string) {
	for {
		c := p.catalog.Load()
		if !c.Through(profile).Starting() {
			return
		}
		newer := c.Replaced()
		if profile == "" {
			newer = nil // all are waited for: that is started, and /readyz says so, too
		}
		select {
		case <-newer:
		case <-p.started:
			return
		case <-ctx.Done():
			return
		case <-p.life.Done():
			return
		}
	}
}

// Changed is closed when there is something new to see in Status.
func (p *Proxy) Changed() <-chan struct{} { return p.catalog.Load().Replaced() }

// startupWait is operational.startup.wait.
func (p *Proxy) startupWait() time.Duration { return time.Duration(p.waits.Load()) }

// beginStart takes the waiting time of a configuration; the first one starts the clock
// of the young process. building is held.
func (p *Proxy) beginStart(cfg *config.Config) {
	wait := cfg.Operational.Startup.Wait.Std()
	p.waits.Store(int64(wait))
	if p.young == nil {
		p.young = time.AfterFunc(wait, p.start)
	}
}

// start ends the youth of the process.
func (p *Proxy) start() { p.starting.Do(func() { close(p.started) }) }

// ready reports whether a load balancer shall send requests here: a configuration is
// applied, every backend was tried once or had the time for it, and the process is not
// about to end, which is draining.
func (p *Proxy) ready() (ready, draining bool) {
	draining = p.edge.IsStopping()
	return isClosed(p.started) && !draining, draining
}
