// Package proxy is the MCP endpoint: the server side for clients over HTTP and stdio, the catalog of everything that
// they can name, the routes to backends and scripts, and the application of configurations.
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

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/cluster"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/operate"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/status"

	"github.com/vmcp-dev/vmcp/proxy/subscriptions"

	"github.com/vmcp-dev/vmcp/proxy/policy"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/proxy/isolate"
)

// Options configure a Proxy. The zero value works.
type Options struct {
	Log     *slog.Logger // nil: nothing is logged
	Version string       // shown to clients and backends
	// Secrets replaces the secrets of the configuration in what the proxy writes, including its log. A caller that
	// passes one uses it for what it writes itself. nil: the proxy makes one.
	Secrets *secret.Redactor
	// Tracer makes OpenTelemetry spans of requests, runs and calls; nil: there are none.
	Tracer trace.TracerProvider
	// OpenTracer is called with every configuration before it is applied; begin returns the new Tracer, and is called
	// once nothing can fail any more. An error refuses the configuration. nil: Tracer is used.
	OpenTracer func(*config.Config) (begin func() trace.TracerProvider, err error)
	// AuditOut is the output of an audit log without a file.
	AuditOut io.Writer
	// Workers executes the runs of isolated scripts; nil: a configuration that has some is refused.
	Workers *isolate.Workers
	// IsolateScripts isolates all scripts, regardless of the configuration.
	IsolateScripts bool
	// Recorded is called with every call of a scripted tool by a client, before it is answered; with nil and no error
	// if the call exceeds what may be recorded. nil: only what the configuration says is recorded.
	Recorded func(*cases.Case, error)
	// RecordFull keeps secrets in recordings, except those of the configuration.
	RecordFull bool
	// OpenStore opens the store of runs that the first configuration names; nil: runs are kept in memory regardless of
	// it.
	OpenStore func(*config.Config) (durable.Store, *durable.Ring, error)
	// Joined is called with the id of this replica when the first configuration has made it join a cluster. May be nil.
	Joined func(id string)
	// Profile is the profile of the client on stdio; a configuration that lacks it is refused. "": none.
	Profile string
	// Server is the name of this endpoint in logs and audit events, if the process has several; "": it is the only one.
	Server string
	// Process is what the endpoints of one process share; nil: nothing.
	Process *Process
	// Metrics is where the metrics are registered; nil: this endpoint has its own /metrics.
	Metrics prometheus.Registerer
	// Charged is called with the memory that all running scripts have reserved, in bytes, whenever that has changed by
	// a step. It must not block; if it returns a channel, a script that needs more waits until that is closed, and
	// tries again. May be nil.
	Charged func(bytes int64) (collecting <-chan struct{})
	// MemoryLimit is the memory limit of the process in bytes, for its metrics; 0: none.
	MemoryLimit int64
}

// Process is what the endpoints of one process share: limits.runs and limits.totalMemory apply to all of them together.
type Process struct{ admission *runs.Admission }

// NewProcess makes a Process; charged is Options.Charged of all its endpoints.
func NewProcess(charged func(bytes int64) (collecting <-chan struct{})) *Process {
	return &Process{runs.NewAdmission(charged)}
}

// Proxy is one endpoint over many backends. It is safe for concurrent use.
type Proxy struct {
	options   Options
	log       *slog.Logger
	secrets   *secret.Redactor
	spans     *observe.Spans
	backends  *backends.Set
	outward   atomic.Pointer[outwardRules]
	rules     atomic.Pointer[AccessRules] // nil: no policies
	catalog   atomic.Pointer[catalog.Catalog]
	edge      *edge.Server
	metrics   *observe.Metrics
	hidePage  atomic.Bool // /metrics is not served
	record    *recorder
	suspended *runs.Table
	runs      *runs.Keeper
	pings     pings
	durable   atomic.Pointer[changeable]      // settings of runs
	stored    *config.Config                  // the configuration with which the store was opened; nil: a store in memory. Guarded by applying
	notifier  *notifier                       // guarded by applying
	ring      *durable.Ring                   // of the store; nil without keys. Guarded by applying
	members   atomic.Pointer[cluster.Members] // nil: not in a cluster
	routing   atomic.Pointer[cluster.Set]     // to the other replicas; nil: not in a cluster
	tasks     Table
	admission *runs.Admission
	hosts     *runs.Shared
	quota     policy.Quota

	subscriptions *subscriptions.Set
	overlays      set
	pins          catalog.Report
	recording     *runs.Recorder

	console  *operate.Console // the page and the API for operators
	history  *runs.Runs
	catalogs atomic.Uint64 // number of catalogs so far
	server   atomic.Pointer[status.Server]
	applied  status.Applied
	shapes   status.Table     // of the last results of tools, without values
	lines    *backends.Log    // log lines about the backends
	named    *secret.Redactor // replaces secrets as secrets does, by the names of variables

	applying sync.Mutex // held while a configuration is applied
	building sync.Mutex // guards config, scripts and the replacement of the catalog
	config   *config.Config
	scripts  *catalog.Set

	settled chan struct{} // closed once no backend is on its first attempt; guarded by building

	started  chan struct{} // closed when settled was closed first, or after startup.wait
	starting sync.Once     // closes started
	young    *time.Timer   // calls start after startup.wait; guarded by building, nil before the first configuration
	waits    atomic.Int64  // operational.startup.wait, a time.Duration

	spawning sync.Mutex      // guards closed
	closed   bool            // Close is waiting for work
	work     sync.WaitGroup  // goroutines of spawn
	life     context.Context // cancelled by Close
	end      context.CancelFunc
}

// New makes a proxy without backends; Apply sets its configuration.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Secrets == nil {
		o.Secrets = &secret.Redactor{}
	}
	o.Log = slog.New(observe.LogHandler(secret.Handler(o.Log.Handler(), o.Secrets)))
	if o.Server != "" {
		o.Log = o.Log.With("server", o.Server)
	}
	p := &Proxy{options: o, log: o.Log, secrets: o.Secrets, config: &config.Config{}, named: &secret.Redactor{}, settled: make(chan struct{}), started: make(chan struct{})}
	p.lines = backends.New(func(s string) string { return p.secrets.Text(p.named.Text(s)) })
	p.life, p.end = context.WithCancel(context.Background())
	p.suspended = runs.NewSuspended(p.spawn)
	p.spans = observe.NewSpans(o.Tracer, p.secrets.Text)
	p.record = newRecord(recordOptions{Server: o.Server, Out: o.AuditOut, Log: o.Log, Secrets: o.Secrets, Address: func(r *http.Request) string { return p.edge.AddressOf(r) }})
	p.recording = runs.NewRecording(runs.RecordingOptions{Log: o.Log, Secrets: o.Secrets, Recorded: o.Recorded, Full: o.RecordFull})
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
	if p.admission = runs.NewAdmission(o.Charged); o.Process != nil {
		p.admission = o.Process.admission.Beside()
	}
	p.scripts = &catalog.Set{}
	p.catalog.Store(catalog.Build(p.config, nil, nil, p.scripts, p.introduction()))
	p.newRuns()
	p.notifier = newNotifier(notifierOptions{Log: p.log, Backends: p.backends.All, Spawn: p.spawn})
	p.metrics = observe.NewMetrics(p.state, o.Metrics, o.MemoryLimit)
	p.history = runs.NewHistory(runs.HistoryOptions{Secrets: p.secrets, Store: p.runs.Store, Changed: func() { p.console.Wake() }})
	p.hosts = p.newHosts()
	p.console = p.newConsole()
	p.spawn(p.subscriptions.Announce)
	return p
}

// introduction is the Implementation (name and version) of the proxy for clients and backends.
func (p *Proxy) introduction() json.RawMessage {
	return new(jsonscan.Object).Text("name", cmp.Or(p.config.Name, "vmcp")).Text("version", cmp.Or(p.options.Version, "dev")).JSON()
}

// Handler is the HTTP endpoint for clients; paths.go of package edge says what it serves.
func (p *Proxy) Handler() http.Handler { return p.edge }

// ServeHTTP serves the clients' port.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.edge.ServeHTTP(w, r) }

// Gatherer gathers the metrics of /metrics; nil if Options.Metrics is set.
func (p *Proxy) Gatherer() prometheus.Gatherer { return p.metrics.Gatherer }

// AdminHandler serves the port for operators: /metrics, /readyz with details, the page and its API, and /healthz. All
// but the last require the token of admin.tokenFile, if there is one. It never serves MCP.
func (p *Proxy) AdminHandler() http.Handler { return p.edge.AdminHandler() }

// ServeAdmin serves a request of the operators' port.
func (p *Proxy) ServeAdmin(w http.ResponseWriter, r *http.Request) {
	p.edge.AdminHandler().ServeHTTP(w, r)
}

// IsOperators reports whether a path is of the page or the API for operators, where these are served.
func IsOperators(path string) bool { return operate.ConsoleIs(path) }

// ServeStdio serves one client over newline-delimited frames until in ends or ctx does; see
// edge.Server.
func (p *Proxy) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return p.edge.ServeStdio(ctx, in, out)
}

// Verify checks the token of a client on stdio, which has it from the environment. Without authentication no token is
// needed.
func (p *Proxy) Verify(ctx context.Context, token string) error { return p.edge.Verify(ctx, token) }

// Held is the largest number of bytes that all clients together can occupy in bodies, suspended calls and streams.
const Held = edge.Held + runs.SuspendedMaxBytes

// Apply applies a configuration: what did not change keeps running, what is new is started, what was removed is closed.
// It does not wait for backends; their entries are added when they are ready. After an error the previous configuration
// stays in use, unchanged. Apply fills in defaults in cfg, which must not change afterwards.
func (p *Proxy) Apply(cfg *config.Config) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	cfg.Complete()
	scripts, problems := catalog.Compile(cfg, catalog.Known{})
	if len(problems) > 0 {
		return problems
	}
	rules, problems := Compile(cfg, p.log)
	mistakes, warnings := problems.Split()
	if len(mistakes) > 0 {
		return mistakes
	}
	if (scripts.Isolated() || p.options.IsolateScripts) && p.options.Workers == nil {
		return errors.New("the configuration isolates scripts, but this process has no worker processes for them")
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
	before, profiles, hash := p.rules.Load(), p.config.Profiles, Fingerprint(cfg)
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
	if before != nil && rules == nil {
		p.log.Warn("now permitted: everybody, everything: the configuration that was applied has no authorization", "file", cfg.Place("").File)
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

// openTracer prepares the Tracer of a configuration; begin sets it.
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

// adopt makes cfg the current configuration, unless package backends refuses it. No catalog is built meanwhile, which
// would mix two configurations.
func (p *Proxy) adopt(cfg *config.Config, scripts *catalog.Set, rules *AccessRules) error {
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
	p.rules.Store(rules) // not before, since without policies everything would be visible for a moment
	p.config, p.scripts = cfg, scripts
	p.lines.RetainOnly(names(p.backends.All()))
	p.outward.Store(rulesOf(cfg))
	p.settled = make(chan struct{})
	p.beginStart(cfg)
	p.admission.Set(cfg.Limits)
	p.console.Apply(cfg)
	p.useRuns(cfg)
	p.quota.Apply(cfg.RateLimiting)
	p.hidePage.Store(!cfg.Telemetry.MetricsPath())
	return nil
}

// warnComposites logs, once per tool and configuration, the command to migrate a tool of the legacy format.
func warnComposites(log *slog.Logger, cfg *config.Config) {
	for _, c := range cfg.CompositeTools {
		log.Warn("composite tools are deprecated; this one runs as a script",
			"tool", c.Name, "pos", fmt.Sprintf("%s:%d:%d", c.Pos.File, c.Pos.Line, c.Pos.Column),
			"migrate", "vmcp migrate-composite "+c.Name+" -f "+c.Pos.File)
	}
}

// rebuild builds the catalog, replaces the current one, and announces the differences.
func (p *Proxy) rebuild() {
	p.building.Lock()
	defer p.building.Unlock()
	old, replacing := p.catalog.Load(), p.backends.Replacing()
	now := catalog.Build(p.config, p.backends.All(), nil, p.scripts, p.introduction())
	p.metrics.SetCatalog(now, p.backends.All(), p.config.Telemetry.ToolLabels())
	p.catalog.Store(now)
	p.catalogs.Add(1)
	for _, method := range now.Changed(old) {
		p.subscriptions.ListChanged("", method)
	}
	p.logProblems(old, now)
	p.reportPins(now)
	if p.young != nil && !now.Starting() && !replacing {
		p.start() // first, so that /readyz is ready for those who waited for settled
		if !isClosed(p.settled) {
			close(p.settled)
		}
	}
	old.Replace() // last, with Wake: the announcements above were made
	p.console.Wake()
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Settled waits until every backend has connected or failed once and the catalog has its entries, or until ctx ends.
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

// logProblems logs the problems that the previous catalog did not have.
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
		if pr.Severity == diag.Warning || pr.File != "" { // a script with a mistake is served nevertheless
			level = slog.LevelWarn
		}
		about := []any{"entry", pr.Entry}
		if pr.Backend != "" {
			about = append([]any{"backend", pr.Backend}, about...)
		}
		p.log.Log(p.life, level, pr.Text(), about...)
	}
}

// sameProblem is equal for problems that are the same for an operator: those of one field of the configuration,
// whatever numbers the message has.
func sameProblem(pr *diag.Problem) [3]string {
	if pr.File == "" && pr.Path != "" {
		return [3]string{pr.Path, pr.Entry, ""}
	}
	return [3]string{pr.Backend, pr.Entry, pr.Text()}
}

// Stopping announces the shutdown: /readyz answers 503 from now on, and every response closes its connection, so that
// the next request of a client or a load balancer uses a new one and reaches another process. Everything is served as
// before.
func (p *Proxy) Stopping() {
	p.edge.Stopping()
	p.console.Wake()
}

// Drain ends the streams on which clients only listen, and accepts no new ones, so that an HTTP server can shut down
// without breaking off a call. ServeStdio returns once no request is in progress.
func (p *Proxy) Drain() {
	p.runs.Stop() // first: requests whose questions end say that this is why
	p.edge.Drain()
	if t := p.routing.Load(); t != nil {
		t.Leave()
	}
}

// Cut breaks off and answers the calls of sessions that still run when the time for the drain is over.
func (p *Proxy) Cut() { p.edge.Cut() }

// Drained waits until the requests that other replicas have forwarded to this one have ended, or ctx has.
func (p *Proxy) Drained(ctx context.Context) error {
	if t := p.routing.Load(); t != nil {
		return t.Shutdown(ctx)
	}
	return nil
}

// Close ends every session, call and backend, and waits until they have ended.
func (p *Proxy) Close() error {
	p.end()
	p.building.Lock()
	if p.young != nil {
		p.young.Stop()
	}
	p.building.Unlock()
	p.closeRuns()
	p.suspended.Close()
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
