package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// A backend that is not available has no entries in the catalog, but its names are not unknown. Therefore a catalog
// lists the backends that were absent when it was built, with the rules for their names:
//
//   - A name that is not in the catalog but may belong to an absent backend is answered with the state of that backend (kind
//     unavailable: surely not executed, may be repeated). While the backend is starting (on its first connection attempt),
//     the call first waits for newer catalogs, at most for operational.startup.wait.
//   - A name that no absent backend can have is unknown, at once.
//   - Lists wait for starting backends only until each backend was tried once (Proxy.started), and at most for
//     operational.startup.wait after the first configuration. /readyz answers 200 from the same moment on.

// await finds an entry that is not in the catalog that the caller used. While a backend that may have it is starting,
// it waits: at most for operational.startup.wait, for that backend's call timeout, and until ctx ends. It returns nil
// if no backend of the profile can have the entry, and an *backends.Error of kind Unavailable if one that is not
// available may.
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

// entryFor finds an entry for a client's request: in the current catalog, then in what backends offer to its session
// now, then by waiting. If an unavailable backend may have the entry, that is an error.
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

// clientResource finds the entry that serves a uri for a client; nil if there is none.
func (p *Proxy) clientResource(ctx context.Context, x *exchange, uri string) (*catalog.Entry, error) {
	return p.entryFor(ctx, x, catalog.Resource(uri))
}

// awaitStart delays a list of a profile during the start, while backends of the profile are on their first attempt.
func (p *Proxy) awaitStart(ctx context.Context, profile string) {
	for {
		c := p.catalog.Load()
		if !c.Through(profile).Starting() {
			return
		}
		newer := c.Replaced()
		if profile == "" {
			newer = nil // wait for all: then started is closed, and /readyz answers 200, too
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

// Changed is closed when Status may have changed.
func (p *Proxy) Changed() <-chan struct{} { return p.catalog.Load().Replaced() }

// startupWait is operational.startup.wait.
func (p *Proxy) startupWait() time.Duration { return time.Duration(p.waits.Load()) }

// beginStart sets the startup wait of a configuration; the first one starts the timer. building is held.
func (p *Proxy) beginStart(cfg *config.Config) {
	wait := cfg.Operational.Startup.Wait.Std()
	p.waits.Store(int64(wait))
	if p.young == nil {
		p.young = time.AfterFunc(wait, p.start)
	}
}

// start ends the start: it closes started.
func (p *Proxy) start() {
	p.starting.Do(func() {
		close(p.started)
		p.console.Wake()
	})
}

// ready reports whether a load balancer should send requests to this process: a configuration is applied, every backend
// was tried once or startup.wait is over, and the process is not shutting down (draining).
func (p *Proxy) ready() (ready, draining bool) {
	draining = p.edge.IsStopping()
	return isClosed(p.started) && !draining, draining
}
