// Package proxy is the one MCP endpoint: the edges that clients speak to over HTTP and
// stdio, the catalog of everything they can name, the routes to backends and scripts,
// and the life of a configuration.
//
//	p, err := proxy.New(proxy.Options{Log: log})
//	err = p.Apply(ctx, cfg)
//	http.ListenAndServe(cfg.Listen, p)
package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// sessionIdle is how long an unused session is kept.
	sessionIdle = time.Hour
	sweepEvery  = time.Minute
)

// Options are what a Proxy takes from its surroundings. The zero value works.
type Options struct {
	Log     *slog.Logger // nothing is logged by default
	Version string       // shown to clients and backends
	// AllowedOrigins are Origin headers to accept beside the endpoint's own; "*" is any.
	AllowedOrigins []string
	// Tracer makes OpenTelemetry spans of requests, runs and calls; nil makes none.
	Tracer trace.TracerProvider
}

// Proxy is one endpoint over many backends. It is safe for concurrent use.
type Proxy struct {
	options   Options
	log       *slog.Logger
	tracer    trace.Tracer // nil: no spans
	backends  *backends.Set
	catalog   atomic.Pointer[catalog]
	metrics   *metrics
	parked    *parkedTable
	sessions  sessions // over HTTP
	pipes     sessions // over stdio
	listeners listeners
	tasks     taskTable
	admission admission

	subscriptions subscriptions

	applying sync.Mutex // held while a configuration is applied
	building sync.Mutex // guards config, scripts and the swap of the catalog
	config   *config.Config
	scripts  []*scriptedTool

	settled chan struct{} // closed when no backend is on its first attempt any more; guarded by building

	spawning  sync.Mutex      // guards closed
	closed    bool            // Close waits for work
	work      sync.WaitGroup  // goroutines of ours
	life      context.Context // ends with Close
	end       context.CancelFunc
	listening context.Context // ends with Drain
	drain     context.CancelFunc
}

// New makes a proxy without backends; Apply gives it some.
func New(o Options) (*Proxy, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Proxy{options: o, log: o.Log, parked: newParkedTable(), config: &config.Config{}, settled: make(chan struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	p.listening, p.drain = context.WithCancel(p.life)
	if o.Tracer != nil {
		p.tracer = o.Tracer.Tracer("github.com/vmcp-dev/vmcp/proxy")
	}
	p.subscriptions.p = p
	p.backends = backends.NewSet(backends.Options{
		Log:        o.Log,
		ClientInfo: p.introduction(),
		Changed:    p.rebuild,
		Updated:    p.resourceUpdated,
		Notified:   p.unclaimed,
	})
	p.admission.set(p.config.Limits)
	p.catalog.Store(buildCatalog(p.config, nil, nil, pageStyle{serverInfo: p.introduction()}))
	p.metrics = newMetrics(p)
	p.spawn(p.sweep)
	return p, nil
}

// introduction is how the proxy introduces itself to clients and backends.
func (p *Proxy) introduction() json.RawMessage {
	name := wire.Quote(cmp.Or(p.config.Name, "vmcp"))
	return wire.Set(wire.Set(nil, "name", name), "version", wire.Quote(cmp.Or(p.options.Version, "dev")))
}

// Handler is the HTTP endpoint: /mcp, /healthz, /readyz, /metrics.
func (p *Proxy) Handler() http.Handler { return p }

// Apply brings the proxy to a configuration: what did not change keeps running, what is
// new is brought up side by side, what is gone is closed. It does not wait for backends;
// their entries come with them. After an error the old configuration runs on untouched.
// Defaults are filled in in cfg, which must not change afterwards.
func (p *Proxy) Apply(ctx context.Context, cfg *config.Config) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	cfg.Complete()
	scripts, err := compileScripts(cfg)
	if err != nil {
		return err
	}
	if err := p.adopt(ctx, cfg, scripts); err != nil {
		return err
	}
	warnComposites(p.log, cfg)
	p.rebuild()
	return nil
}

// adopt makes cfg the configuration, unless its backends are refused. No catalog is
// built meanwhile: it would be of two configurations.
func (p *Proxy) adopt(ctx context.Context, cfg *config.Config, scripts []*scriptedTool) error {
	p.building.Lock()
	defer p.building.Unlock()
	p.backends.Tune(cfg.Operational.Timeouts.Default.Std(), cfg.Operational.FailureHandling)
	if err := p.backends.Apply(ctx, cfg.Backends); err != nil {
		return err
	}
	p.config, p.scripts = cfg, scripts
	p.settled = make(chan struct{})
	p.admission.set(cfg.Limits)
	return nil
}

// Check is Apply stopped before anything starts: scripts compile, definitions hold.
func Check(cfg *config.Config) error {
	cfg.Complete()
	_, err := compileScripts(cfg)
	return err
}

// rebuild makes the catalog anew, swaps it in and tells those who listen what changed:
// what reads differently, what a backend says has changed though it reads the same, and
// scripts that were edited.
func (p *Proxy) rebuild() {
	p.building.Lock()
	defer p.building.Unlock()
	old, settled := p.catalog.Load(), p.backendsSettled()
	now := buildCatalog(p.config, p.backends.All(), p.scripts, pageStyle{serverInfo: p.introduction()})
	p.catalog.Store(now)
	p.logProblems(old, now)
	if settled && !isClosed(p.settled) {
		close(p.settled)
	}
	for _, c := range []struct {
		method string
		same   bool
	}{
		{wire.ToolsChanged, now.said[0] <= old.said[0] && now.scripts == old.scripts && now.tools.equal(old.tools)},
		{wire.PromptsChanged, now.said[1] <= old.said[1] && now.prompts.equal(old.prompts)},
		{wire.ResChanged, now.said[2] <= old.said[2] && now.resources.equal(old.resources) && now.templates.equal(old.templates)},
	} {
		if !c.same {
			p.broadcast(c.method)
		}
	}
}

func (p *Proxy) backendsSettled() bool {
	for _, b := range p.backends.All() {
		if b.State().Status == backends.Connecting {
			return false
		}
	}
	return true
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Settled waits until every backend has answered or failed once and the catalog holds
// what they offer, or until ctx ends.
func (p *Proxy) Settled(ctx context.Context) error {
	p.building.Lock()
	settled := p.settled
	p.building.Unlock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logProblems says what is new in the list of problems.
func (p *Proxy) logProblems(old, now *catalog) {
	known := map[Problem]bool{}
	for _, pr := range old.problems {
		known[pr] = true
	}
	for _, pr := range now.problems {
		if !known[pr] {
			p.log.Warn(pr.Reason, "backend", pr.Backend, "entry", pr.Entry)
		}
	}
}

// eachSession visits the sessions on HTTP and stdio.
func (p *Proxy) eachSession(f func(*session)) {
	for _, s := range p.sessions.all() {
		f(s)
	}
	for _, s := range p.pipes.all() {
		f(s)
	}
}

// sweep ends sessions that nobody uses.
func (p *Proxy) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, s := range p.sessions.idle(now.Add(-sessionIdle)) {
				p.log.Info("session expired", "session", s.id[:6], "idle", sessionIdle)
				p.endSession(s)
			}
		case <-p.life.Done():
			return
		}
	}
}

// principal is who a request comes from. There is no authentication yet: everybody is
// the same.
func (p *Proxy) principal(*http.Request) string { return "" }

// Drain ends the streams on which clients only listen and lets no new ones begin, so
// that an HTTP server can shut down without breaking off a call.
func (p *Proxy) Drain() { p.drain() }

// Close ends every session, call and backend, and waits for all of it.
func (p *Proxy) Close() error {
	p.end()
	p.parked.close()
	p.eachSession(func(s *session) { p.endSession(s) })
	err := p.backends.Close()
	p.spawning.Lock()
	p.closed = true
	p.spawning.Unlock()
	p.work.Wait()
	return err
}

// spawn runs f on a goroutine that Close waits for; false once the proxy is closed.
func (p *Proxy) spawn(f func()) bool {
	p.spawning.Lock()
	defer p.spawning.Unlock()
	if p.closed {
		return false
	}
	p.work.Go(f)
	return true
}
