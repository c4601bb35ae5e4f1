package backends

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Bounds of our log for a backend's log messages that belong to no client and for the
// lines of its stderr: a burst, and lines per second.
const (
	messageBurst, messageRate = 20, 10
	stderrBurst, stderrRate   = 200, 20
)

// Backend is one MCP server behind the endpoint. Its run loop (run.go) keeps one main
// connection open and reopens it after a loss; private sessions of clients have their own
// connections (pool.go).
type Backend struct {
	name   string
	cfg    config.Backend
	set    *Set
	log    *slog.Logger
	dialer *conn.Dialer

	credentials *credentials.Provider            // nil: none
	lister      atomic.Pointer[credentials.User] // the principal whose credential the main connection uses; see arrive.go
	arrived     chan struct{}                    // cap 1: lister has changed

	settings  atomic.Pointer[Settings] // replaced, never changed
	successor atomic.Pointer[Backend]  // receives the calls once this one is replaced
	stats     counters
	outage    endpoint.Outage

	ctx    context.Context
	stop   context.CancelCauseFunc
	offer  atomic.Pointer[Offer]
	main   atomic.Pointer[conn.Conn] // the usable main connection; nil while there is none
	pool   pool
	shared sharedConn
	subs   subscriptions

	reopening chan struct{} // bounds the lost sessions that are reopened concurrently

	fetched time.Time // when the lists were last read; used by the run loop alone

	wake         chan struct{}    // cap 1: wakes the run loop, to check stale and suspicious
	stale        atomic.Int32     // the lists to read again, a bit for each
	changeCounts [3]atomic.Uint64 // list changed notifications of tools, prompts and resources
	suspicious   atomic.Bool      // a health check is due at once
	active       atomic.Int64     // when the backend last answered, in unix nanoseconds

	messages, stderr endpoint.Limiter

	retiring atomic.Bool
	quiet    chan struct{} // cap 1: the last call of a retiring backend has ended

	mu      sync.Mutex
	state   State         // guarded by mu
	changes chan struct{} // guarded by mu; closed and replaced when state changes
	closed  bool          // guarded by mu: no goroutine may start
	wg      sync.WaitGroup
}

// Status is whether a backend can be called.
type Status int

const (
	// Connecting: the first attempt to connect, or the first after a loss, is running.
	Connecting Status = iota
	// Ready: connected and initialized.
	Ready
	// Down: the last attempt failed; the next one is scheduled.
	Down
	// Disabled: disabled by the configuration.
	Disabled
)

func (s Status) String() string { return [...]string{"connecting", "ready", "down", "disabled"}[s] }

// State is a snapshot of a backend's connection.
type State struct {
	Status    Status
	Since     time.Time
	Err       error // the last failure; nil once ready
	Revision  string
	Transport string
	// Listening is whether a modern backend has acknowledged a subscriptions/listen stream.
	Listening bool
}

func (s *Set) newBackend(cfg config.Backend, t General) *Backend {
	b := &Backend{name: cfg.Name, cfg: cfg, set: s, log: slog.New(s.o.Lines.Handler(s.o.Log.Handler(), cfg.Name)).With("backend", cfg.Name),
		changes: make(chan struct{}), wake: make(chan struct{}, 1), quiet: make(chan struct{}, 1)}
	b.settings.Store(For(cfg, t, nil))
	b.credentials, b.arrived = s.credentials.Provider(cfg), make(chan struct{}, 1)
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	b.dialer = conn.NewDialer(b.ctx, cfg, conn.Options{
		Log: b.log, Info: s.o.ClientInfo, MaxMessage: s.o.MaxMessage, Secrets: s.o.Named, Guard: s.guard, Credentials: b.credentials,
		Timeout: b.Timeout, Spawn: b.spawn, Notified: b.notified, Streaming: b.streaming, Suspect: b.suspect, Idle: b.idle, Started: b.logStarted, Stderr: b.logStderr,
		Logged: func(params json.RawMessage) { s.o.Lines.Message(cfg.Name, params) },
	})
	b.shared.opening = make(chan struct{}, 1)
	b.reopening = make(chan struct{}, reopenAtOnce)
	b.pool.init(b)
	b.subs.renew = make(chan struct{}, 1)
	b.messages = endpoint.Limiter{Burst: messageBurst, Rate: messageRate, Report: b.leftOut("log messages")}
	b.stderr = endpoint.Limiter{Burst: stderrBurst, Rate: stderrRate, Report: b.leftOut("lines of stderr")}
	b.offer.Store(&Offer{})
	b.state = State{Since: time.Now(), Transport: b.dialer.Configured()}
	switch {
	case cfg.Disabled:
		b.state.Status = Disabled
	case cfg.Unusable != "":
		b.state.Status, b.state.Err = Down, errors.New(cfg.Unusable)
	default:
		b.wg.Go(b.run)
	}
	return b
}

// leftOut returns a function that logs how many messages were dropped from the log.
func (b *Backend) leftOut(what string) func(n int) {
	return func(n int) { b.log.Warn("messages of the backend dropped from the log", "what", what, "count", n) }
}

// Name is the backend's name in the configuration.
func (b *Backend) Name() string { return b.name }

// Timeout bounds a call; progress notifications extend it.
func (b *Backend) Timeout() time.Duration { return b.settings.Load().Timeout }

// Offer returns the current offer: never nil, empty while the backend is down, immutable.
func (b *Backend) Offer() *Offer { return b.offer.Load() }

// State is a snapshot of the connection.
func (b *Backend) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func (b *Backend) isReady() bool { return b.State().Status == Ready }

// Starting reports whether the first attempt to connect is still running, so that the
// offer is not known yet. A backend that reconnects after a loss is not starting: its
// offer is kept.
func (s State) Starting() bool { return s.Status == Connecting && s.Err == nil }

// Snapshot returns state and offer read together: the offer is complete if the state is Ready,
// empty if it is Down.
func (b *Backend) Snapshot() (State, *Offer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.offer.Load()
}

// setState changes the state and wakes those who watch it. Down empties the offer.
func (b *Backend) setState(s Status, err error) {
	b.mu.Lock()
	if s == Down {
		b.offer.Store(&Offer{})
	}
	if b.state.Status != s {
		b.state.Since = time.Now()
	}
	b.state.Status, b.state.Err = s, conn.Bare(err)
	b.state.Transport = b.dialer.Via()
	if c := b.main.Load(); c != nil {
		b.state.Revision = c.Peer.Revision
	}
	close(b.changes)
	b.changes = make(chan struct{})
	b.mu.Unlock()
	b.set.changed()
}

// setListening sets State.Listening.
func (b *Backend) setListening(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Listening = on
}

// watch returns the state and a channel that is closed when it changes.
func (b *Backend) watch() (State, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.changes
}

// spawn runs f on a goroutine that Close waits for; false once the backend is closed.
func (b *Backend) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.wg.Go(f)
	return true
}

// close closes all connections and waits for all goroutines.
func (b *Backend) close() {
	all := func(*private) bool { return true }
	b.stop(conn.ErrClosed)
	b.closePrivates(all) // concurrently
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.closePrivates(all) // those added since
	b.closeShared()
	b.wg.Wait()
	b.dialer.CloseIdle()
}

// notified handles a notification received on c that belongs to no call, or to all.
func (b *Backend) notified(c *conn.Conn, method string, params json.RawMessage) {
	switch method {
	case wire.ToolsChanged:
		b.listChangedOn(c, conn.Tools, method)
	case wire.PromptsChanged:
		b.listChangedOn(c, conn.Prompts, method)
	case wire.ResChanged:
		b.listChangedOn(c, conn.Resources, method)
	case wire.ResUpdated:
		b.updated(c.Session, params)
	case wire.Acknowledged:
		b.setListening(true)
		b.changed(conn.All) // earlier changes were not announced
	default:
		b.unrouted(c.Session, method, params)
	}
}

// unrouted forwards a notification that belongs to no call. session is the client session of
// the connection it was received on, which had no out-of-call sink (Caller.OutOfCall); "" for a
// shared connection.
func (b *Backend) unrouted(session, method string, params json.RawMessage) {
	if session == "" && method == wire.LogMessage && !b.messages.Allow() {
		return
	}
	if f := b.set.o.Notified; session == "" && f != nil {
		f(b, method, params)
	}
}

// updated forwards a resources/updated notification. session is the client session of the connection
// it was received on; "" for the main one.
func (b *Backend) updated(session string, params json.RawMessage) {
	if f := b.set.o.Updated; f != nil {
		f(b, session, jsonscan.GetString(params, "uri"), params)
	}
}

// hasBothEras reports whether the main connection is a modern one to a process that
// supports a revision with sessions as well.
func (b *Backend) hasBothEras() bool {
	c := b.usable()
	return c != nil && c.Modern && c.LegacyToo && b.dialer.Configured() == transportStdio
}

// logStarted logs that a process of the backend was started.
func (b *Backend) logStarted(pid int) {
	b.log.Log(b.ctx, b.outage.StartLevel(b.isReady()), "backend process started", "pid", pid, "command", b.cfg.Command)
}

// logStderr logs a line of a process's standard error. The error of a process that has ended quotes its last
// lines.
func (b *Backend) logStderr(line string) {
	b.set.o.Lines.Add(b.name, Stderr, "info", line)
	if b.set.o.Log.Enabled(b.ctx, slog.LevelDebug) && b.stderr.Allow() {
		b.log.Debug("stderr", "line", line)
	}
}

// NotUp returns the error of a call to a backend without a connection, in the state s.
func (b *Backend) NotUp(s State) *Error {
	return &Error{Backend: b.name, Kind: Unavailable, Err: &conn.NotUp{Starting: s.Status == Connecting, Disabled: s.Status == Disabled, Cause: s.Err}}
}
