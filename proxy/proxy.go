// Package proxy is the one MCP endpoint: the edges that clients speak to over HTTP and
// stdio, the catalog of everything they can name, the routes to backends and scripts,
// and the life of a configuration.
//
//	p := proxy.New(proxy.Options{Log: log})
//	err := p.Apply(cfg)
//	http.ListenAndServe(cfg.Listen, p)
package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/lines"
	"github.com/vmcp-dev/vmcp/cases"
	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/fingerprint"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy/access"
	"github.com/vmcp-dev/vmcp/proxy/admission"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/console"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/history"
	"github.com/vmcp-dev/vmcp/proxy/host"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/proxy/notifier"
	"github.com/vmcp-dev/vmcp/proxy/outward"
	"github.com/vmcp-dev/vmcp/proxy/overlay"
	"github.com/vmcp-dev/vmcp/proxy/parked"
	"github.com/vmcp-dev/vmcp/proxy/record"
	"github.com/vmcp-dev/vmcp/proxy/recording"
	"github.com/vmcp-dev/vmcp/proxy/routing"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/shape"
	"github.com/vmcp-dev/vmcp/proxy/spans"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/proxy/subscriptions"
	"github.com/vmcp-dev/vmcp/proxy/tasks"
	"github.com/vmcp-dev/vmcp/quota"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/script/isolate"
)

// Options are what a Proxy takes from its surroundings. The zero value works.
type Options struct {
	Log     *slog.Logger // nothing is logged by default
	Version string       // shown to clients and backends
	// Secrets hides the secrets of the configuration in what the proxy writes, its log
	// included. Whoever brings one hides them in what else is written. nil: one of its own.
	Secrets *secret.Redactor
	// Tracer makes OpenTelemetry spans of requests, runs and calls; nil makes none.
	Tracer trace.TracerProvider
	// OpenTracer gets every configuration that is applied, and says who makes spans from then on; begin is called
	// when nothing can go wrong any more. An error refuses the configuration. nil: Tracer makes them.
	OpenTracer func(*config.Config) (begin func() trace.TracerProvider, err error)
	// AuditOut is where the audit goes that has no file.
	AuditOut io.Writer
	// Workers compute the runs of isolated scripts; nil: a configuration that has some is refused.
	Workers *isolate.Workers
	// IsolateScripts isolates all scripts, whatever the configuration says of them.
	IsolateScripts bool
	// Recorded gets every call of a scripted tool that a client makes, before the call is answered:
	// nil and no error when it was more than may be recorded. nil: only what the configuration wants
	// is recorded.
	Recorded func(*cases.Case, error)
	// RecordFull leaves secrets in what is recorded, but for those of the configuration.
	RecordFull bool
	// OpenStore opens the store of runs that the first configuration names; nil: runs are kept in memory,
	// whatever it names.
	OpenStore func(*config.Config) (store.Store, *seal.Ring, error)
	// Joined is told the id of this replica once the first configuration has made it one. May be nil.
	Joined func(id string)
	// Profile is the profile of the client on standard input; a configuration without it is refused. "": none.
	Profile string
	// Server is the name of this endpoint where the process has several: in lines of the log and the audit. "": it
	// is the only one.
	Server string
	// Process is what the endpoints of one process share; nil: this one shares with nobody.
	Process *Process
	// Metrics gets the metrics; nil: they are on a page of this endpoint alone.
	Metrics prometheus.Registerer
	// Charged is told what all scripts that run have been charged for memory, whenever that
	// has changed by a step. It must not wait. May be nil.
	Charged func(bytes int64)
	// MemoryLimit is the memory that the process may have, for its metrics; 0: as much as there is.
	MemoryLimit int64
}

// Process is what the endpoints of one process share: limits.runs and limits.totalMemory count over all of them.
type Process struct{ admission *admission.Admission }

// NewProcess makes one; charged is Options.Charged of all endpoints.
func NewProcess(charged func(bytes int64)) *Process { return &Process{admission.New(charged)} }

// Proxy is one endpoint over many backends. It is safe for concurrent use.
type Proxy struct {
	options   Options
	log       *slog.Logger
	secrets   *secret.Redactor
	spans     *spans.Spans
	backends  *backends.Set
	outward   atomic.Pointer[outward.Rules]
	rules     atomic.Pointer[access.Rules] // nil: no policy decides
	catalog   atomic.Pointer[catalog.Catalog]
	edge      *edge.Server
	metrics   *metrics.Metrics
	hidePage  atomic.Bool // there is no /metrics
	record    *record.Recorder
	parked    *parked.Table
	runs      *runs.Keeper
	durable   atomic.Pointer[durable]         // what the configuration says of runs
	stored    *config.Config                  // whose store is open; nil: one in memory. Guarded by applying
	notifier  *notifier.Notifier              // guarded by applying
	ring      *seal.Ring                      // of that store; nil: it has none. Guarded by applying
	members   atomic.Pointer[cluster.Members] // nil: this process is alone
	routing   atomic.Pointer[routing.Set]     // to the other replicas; nil: there are none
	tasks     tasks.Table
	admission *admission.Admission
	hosts     *host.Shared
	quota     quota.Quota

	subscriptions *subscriptions.Set
	overlays      overlay.Set
	pins          catalog.PinReport
	recording     *recording.Recorder

	console  *console.Console // the page and the API for operators
	history  *history.Runs
	catalogs atomic.Uint64 // how many there were
	server   atomic.Pointer[status.Server]
	applied  status.Applied
	shapes   shape.Table      // of the last results of tools
	lines    *lines.Log       // about the backends
	named    *secret.Redactor // hides as secrets does, with the names of variables

	applying sync.Mutex // held while a configuration is applied
	building sync.Mutex // guards config, scripts and the swap of the catalog
	config   *config.Config
	scripts  *catalog.Scripts

	settled chan struct{} // closed when no backend is on its first attempt any more; guarded by building

	started  chan struct{} // closed when settled was for the first time, or after startup.wait
	starting sync.Once     // closes started
	young    *time.Timer   // calls start; guarded by building, nil before the first configuration
	waits    atomic.Int64  // operational.startup.wait, a time.Duration

	spawning sync.Mutex      // guards closed
	closed   bool            // Close waits for work
	work     sync.WaitGroup  // goroutines of ours
	life     context.Context // ends with Close
	end      context.CancelFunc
}

// New makes a proxy without backends; Apply gives it some.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Secrets == nil {
		o.Secrets = &secret.Redactor{}
	}
	o.Log = slog.New(spans.LogHandler(secret.Handler(o.Log.Handler(), o.Secrets)))
	if o.Server != "" {
		o.Log = o.Log.With("server", o.Server)
	}
	p := &Proxy{options: o, log: o.Log, secrets: o.Secrets, config: &config.Config{}, named: &secret.Redactor{}, settled: make(chan struct{}), started: make(chan struct{})}
	p.lines = lines.New(func(s string) string { return p.secrets.Text(p.named.Text(s)) })
	p.life, p.end = context.WithCancel(context.Background())
	p.parked = parked.New(p.spawn)
	p.spans = spans.New(o.Tracer, p.secrets.Text)
	p.record = record.New(record.Options{Server: o.Server, Out: o.AuditOut, Log: o.Log, Secrets: o.Secrets, Address: func(r *http.Request) string { return p.edge.AddressOf(r) }})
	p.recording = recording.New(recording.Options{Log: o.Log, Secrets: o.Secrets, Recorded: o.Recorded, Full: o.RecordFull})
	p.edge = edge.New(edge.Options{Handler: p, Log: o.Log, Profile: o.Profile, Page: p.servePage, Operators: p.serveOperators, Login: p.serveLogin, Refused: p.refused, Turned: p.record.Refused, Within: p.within})
	p.subscriptions = subscriptions.New(subscriptions.Options{
		Log: o.Log, Server: p.edge, Catalog: p.catalogOfSession, Followed: func(s *edge.Session) *subscriptions.Followed { return &peerOf(s).followed },
		View: p.viewOfSession, Started: p.started, Life: p.life, Spawn: p.spawn,
	})
	p.backends = backends.NewSet(backends.Options{
		Log:        o.Log,
		Secrets:    o.Secrets,
		Lines:      p.lines,
		Named:      p.named,
		ClientInfo: p.introduction(),
		Changed:    p.rebuild,
		Updated:    p.resourceUpdated,
		Notified:   p.unrouted,

		Pressure:    func(be *backends.Backend, ids []string) bool { return p.edge.Pressure(be.Name(), ids) },
		ListChanged: p.sessionListChanged,
		Kept:        p.keptByBackend,
	})
	if p.admission = admission.New(o.Charged); o.Process != nil {
		p.admission = o.Process.admission.Beside()
	}
	p.scripts = &catalog.Scripts{}
	p.catalog.Store(catalog.Build(p.config, nil, nil, p.scripts, p.introduction()))
	p.newRuns()
	p.notifier = notifier.New(notifier.Options{Log: p.log, Backends: p.backends.All, Spawn: p.spawn})
	p.metrics = metrics.New(p.state, o.Metrics, o.MemoryLimit)
	p.history = history.New(history.Options{Secrets: p.secrets, Store: p.runs.Store, Changed: func() { p.console.Poke() }})
	p.hosts = p.newHosts()
	p.console = p.newConsole()
	p.spawn(p.subscriptions.Announce)
	return p
}

// introduction is how the proxy introduces itself to clients and backends.
func (p *Proxy) introduction() json.RawMessage {
	return new(jsonscan.Object).Text("name", cmp.Or(p.config.Name, "vmcp")).Text("version", cmp.Or(p.options.Version, "dev")).JSON()
}

// Handler is the HTTP endpoint for clients; paths.go of package edge says what it serves.
func (p *Proxy) Handler() http.Handler { return p.edge }

// ServeHTTP serves the port for clients.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.edge.ServeHTTP(w, r) }

// Gatherer gathers the metrics that /metrics shows; none where Options.Metrics got them.
func (p *Proxy) Gatherer() prometheus.Gatherer { return p.metrics.Gatherer }

// AdminHandler is the port for operators: /metrics, /readyz with details, /healthz. All but
// the last ask for the token of admin.tokenFile, if there is one. It never serves MCP.
func (p *Proxy) AdminHandler() http.Handler { return p.edge.AdminHandler() }

// ServeAdmin serves a request of that port.
func (p *Proxy) ServeAdmin(w http.ResponseWriter, r *http.Request) {
	p.edge.AdminHandler().ServeHTTP(w, r)
}

// IsOperators reports whether a path is of the page or the API for operators, where these are served.
func IsOperators(path string) bool { return console.Is(path) }

// ServeStdio serves one client over newline-delimited frames until in ends or ctx does; see
// edge.Server.
func (p *Proxy) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return p.edge.ServeStdio(ctx, in, out)
}

// Verify says whether a token lets its bearer in; it is for a client without a port, who
// brings it in the environment. Without authentication none is needed.
func (p *Proxy) Verify(ctx context.Context, token string) error { return p.edge.Verify(ctx, token) }

// Held is what clients together can make the endpoint hold, as far as it is much: bodies,
// suspended calls and streams.
const Held = edge.Held + parked.MaxBytes

// Apply brings the proxy to a configuration: what did not change keeps running, what is
// new is brought up side by side, what is gone is closed. It does not wait for backends;
// their entries come with them. After an error the old configuration runs on untouched.
// Defaults are filled in in cfg, which must not change afterwards.
func (p *Proxy) Apply(cfg *config.Config) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	cfg.Complete()
	scripts, problems := catalog.Compile(cfg)
	if len(problems) > 0 {
		return problems
	}
	rules, problems := access.Compile(cfg, p.log)
	mistakes, warnings := problems.Split()
	if len(mistakes) > 0 {
		return mistakes
	}
	if (scripts.Isolated() || p.options.IsolateScripts) && p.options.Workers == nil {
		return errors.New("scripts are to be isolated, and there are no worker processes here to run them in")
	}
	target, err := p.recording.Open(cfg.Recording)
	if err != nil {
		return err
	}
	trace, err := p.openTracer(cfg)
	if err == nil {
		err = p.useStore(cfg)
	}
	if err != nil {
		p.recording.Discard(target)
		return err
	}
	before, profiles, hash := p.rules.Load(), p.config.Profiles, fingerprint.Of(cfg)
	if err := p.adopt(cfg, scripts, rules); err != nil {
		p.recording.Discard(target)
		return err
	}
	p.spawn(p.recording.Use(target))
	trace()
	p.applied.Apply(cfg.Place("").File, hash)
	if m := p.members.Load(); m != nil {
		m.Serves(hash)
	}
	warnComposites(p.log, cfg)
	for _, w := range warnings {
		p.log.Warn("policy", "warning", w)
	}
	p.rebuild()
	p.runs.Ready()
	if p.decided(before); !reflect.DeepEqual(profiles, cfg.Profiles) {
		p.subscriptions.ViewsChanged()
		p.spawn(p.subscriptions.Recheck)
	}
	p.record.Applied(cfg)
	return nil
}

// openTracer makes ready who makes the spans of a configuration; begin lets it.
func (p *Proxy) openTracer(cfg *config.Config) (begin func(), err error) {
	if p.options.OpenTracer == nil {
		return func() {}, nil
	}
	open, err := p.options.OpenTracer(cfg)
	if err != nil {
		return nil, err
	}
	return func() { p.spans.Use(open()) }, nil
}

// adopt makes cfg the configuration, unless its backends are refused. No catalog is
// built meanwhile: it would be of two configurations.
func (p *Proxy) adopt(cfg *config.Config, scripts *catalog.Scripts, rules *access.Rules) error {
	p.building.Lock()
	defer p.building.Unlock()
	err := p.edge.Apply(cfg, func() error {
		lines, err := p.record.Open(cfg)
		if err != nil {
			return err
		}
		p.secrets.Use(cfg.Secrets())
		p.named.UseNamed(cfg.Secrets(), cfg.Variables())
		if err := p.backends.Apply(cfg); err != nil {
			p.secrets.Use(p.config.Secrets())
			p.record.Discard(lines)
			return err
		}
		p.record.Use(lines)
		if rules != nil {
			p.rules.Store(rules)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.rules.Store(rules) // not before: without policies, those decide who comes in
	p.config, p.scripts = cfg, scripts
	p.lines.Keep(names(p.backends.All()))
	p.outward.Store(outward.RulesOf(cfg))
	p.settled = make(chan struct{})
	p.beginStart(cfg)
	p.admission.Set(cfg.Limits)
	p.console.Apply(cfg)
	p.useRuns(cfg)
	p.quota.Apply(cfg.RateLimiting)
	p.hidePage.Store(!cfg.Telemetry.MetricsPath())
	return nil
}

// warnComposites says, once per tool and configuration, how to leave the old format.
func warnComposites(log *slog.Logger, cfg *config.Config) {
	for _, c := range cfg.CompositeTools {
		log.Warn("composite tools are deprecated; this one runs as a script",
			"tool", c.Name, "pos", fmt.Sprintf("%s:%d:%d", c.Pos.File, c.Pos.Line, c.Pos.Column),
			"migrate", "vmcp migrate-composite "+c.Name+" -f "+c.Pos.File)
	}
}

// rebuild makes the catalog anew, swaps it in and announces what changed.
func (p *Proxy) rebuild() {
	p.building.Lock()
	defer p.building.Unlock()
	old, replacing := p.catalog.Load(), p.backends.Replacing()
	now := catalog.Build(p.config, p.backends.All(), nil, p.scripts, p.introduction())
	p.metrics.Use(now, p.backends.All(), p.config.Telemetry.ToolLabels())
	p.catalog.Store(now)
	p.catalogs.Add(1)
	old.Replace()
	p.console.Poke()
	p.logProblems(old, now)
	p.reportPins(now)
	if p.young != nil && !now.Starting() && !replacing {
		if !isClosed(p.settled) {
			close(p.settled)
		}
		p.start()
	}
	for _, method := range now.Changed(old) {
		p.subscriptions.ListChanged("", method)
	}
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
func (p *Proxy) logProblems(old, now *catalog.Catalog) {
	known := map[[3]string]bool{}
	for i := range old.Problems {
		known[sameProblem(&old.Problems[i])] = true
	}
	for i := range now.Problems {
		pr := &now.Problems[i]
		if known[sameProblem(pr)] {
			continue
		}
		level := slog.LevelError
		if pr.Severity == diag.Warning || pr.File != "" { // a script with a mistake is served
			level = slog.LevelWarn
		}
		about := []any{"entry", pr.Entry}
		if pr.Backend != "" {
			about = append([]any{"backend", pr.Backend}, about...)
		}
		p.log.Log(p.life, level, pr.Text(), about...)
	}
}

// sameProblem is equal for problems that are one to an operator: what is wrong with a field of the configuration by
// what backends offer is, whatever the numbers in it are by now.
func sameProblem(pr *diag.Problem) [3]string {
	if pr.File == "" && pr.Path != "" {
		return [3]string{pr.Path, pr.Entry, ""}
	}
	return [3]string{pr.Backend, pr.Entry, pr.Text()}
}

// Stopping says that the process is about to end: /readyz answers 503 from now on, and
// every answer closes its connection, so that the next request of a client or a load
// balancer comes over a new one and goes elsewhere. Everything is served as before.
func (p *Proxy) Stopping() { p.edge.Stopping() }

// Drain ends the streams on which clients only listen and lets no new ones begin, so
// that an HTTP server can shut down without breaking off a call. ServeStdio returns once
// nothing is running.
func (p *Proxy) Drain() {
	p.edge.Drain()
	p.runs.Stop()
	if t := p.routing.Load(); t != nil {
		t.Leave()
	}
}

// Drained waits until the requests have ended that other replicas have passed on to this one, or ctx has.
func (p *Proxy) Drained(ctx context.Context) error {
	if t := p.routing.Load(); t != nil {
		return t.Shutdown(ctx)
	}
	return nil
}

// Close ends every session, call and backend, and waits for all of it.
func (p *Proxy) Close() error {
	p.end()
	p.building.Lock()
	if p.young != nil {
		p.young.Stop()
	}
	p.building.Unlock()
	p.closeRuns()
	p.parked.Close()
	p.edge.Close()
	p.console.Close()
	err := p.backends.Close()
	if t := p.routing.Load(); t != nil {
		t.Close()
	}
	p.spawning.Lock()
	p.closed = true
	p.spawning.Unlock()
	p.work.Wait()
	p.record.Close()
	p.recording.Close()
	if m := p.members.Load(); m != nil {
		m.Close()
	}
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
