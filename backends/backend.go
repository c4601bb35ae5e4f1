package backends

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Transports of a backend.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "streamable-http"
	TransportSSE   = "sse"
)

const (
	defaultTimeout        = 30 * time.Second
	defaultMaxConnections = 64
)

// Backend is one MCP server behind the endpoint. Its run loop keeps one main connection
// open, whatever happens to the server; clients that can be called back get
// connections of their own.
type Backend struct {
	name      string
	cfg       config.Backend
	tuning    tuning
	set       *Set
	log       *slog.Logger
	transport string
	url       *url.URL
	headers   http.Header
	info      json.RawMessage // clientInfo of the proxy
	invalid   error           // why the configuration cannot work
	http      *http.Transport // nil for stdio

	timeout        time.Duration
	maxMessage     int64
	checkInterval  time.Duration
	checkThreshold int
	breaker        *breaker
	stats          counters

	ctx    context.Context
	stop   context.CancelCauseFunc
	nextID atomic.Int64
	era    atomic.Int32
	offer  atomic.Pointer[Offer]
	main   atomic.Pointer[conn] // the usable main connection; nil while there is none
	slots  chan struct{}        // one token per open connection
	leases leases
	subs   subscriptions

	sessionSubs sessionSubscriptions
	plain       plain

	fetched time.Time // when lists were last read; of the run loop

	wake       chan struct{}    // cap 1: look at stale lists and at suspicions
	stale      atomic.Int32     // lists to fetch again
	said       [3]atomic.Uint64 // announced changes of tools, prompts and resources
	suspicious atomic.Bool      // the connection should be checked at once
	active     atomic.Int64     // when the backend last answered, in unix nanoseconds

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
	// Connecting: the first attempt, or the first one after a loss, is running.
	Connecting Status = iota
	// Ready: connected and greeted.
	Ready
	// Down: the last attempt went wrong; the next one is scheduled.
	Down
)

func (s Status) String() string { return [...]string{"connecting", "ready", "down"}[s] }

// State is a snapshot of a backend's connection.
type State struct {
	Status    Status
	Since     time.Time
	Err       error // the last thing that went wrong; nil once ready
	Revision  string
	Transport string
	// Listening is whether a modern backend has acknowledged that it will announce changes.
	Listening bool
}

func (s *Set) newBackend(cfg config.Backend, t tuning) *Backend {
	b := &Backend{name: cfg.Name, cfg: cfg, tuning: t, set: s, log: s.o.Log.With("backend", cfg.Name), info: s.o.ClientInfo,
		timeout: cfg.Timeout.Std(), maxMessage: s.o.MaxMessage, changes: make(chan struct{}), wake: make(chan struct{}, 1), quiet: make(chan struct{}, 1)}
	if b.timeout <= 0 {
		b.timeout = t.timeout
	}
	b.configure()
	b.configureHealth(t.failures)
	n := cfg.MaxConnections
	if n <= 0 {
		n = defaultMaxConnections
	}
	b.slots = make(chan struct{}, n)
	b.plain.opening = make(chan struct{}, 1)
	b.leases.init()
	b.subs.renew = make(chan struct{}, 1)
	b.offer.Store(&Offer{})
	b.state = State{Since: time.Now(), Transport: b.transport}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	b.wg.Go(b.run)
	return b
}

// configure works out the transport.
func (b *Backend) configure() {
	if b.transport = b.cfg.Transport; b.transport == "" {
		b.transport = TransportHTTP
		if b.cfg.Command != "" {
			b.transport = TransportStdio
		}
	}
	b.headers = http.Header{}
	for name, v := range b.cfg.Headers {
		b.headers.Set(name, v)
	}
	if b.transport != TransportStdio {
		b.url, b.invalid = parseURL(b.cfg.URL)
		b.http = newTransport()
	}
}

// Name is the backend's name in the configuration.
func (b *Backend) Name() string { return b.name }

// Offer is what the backend offers now: never nil, empty while it is down, immutable.
func (b *Backend) Offer() *Offer { return b.offer.Load() }

// Set is the set that the backend belongs to.
func (b *Backend) Set() *Set { return b.set }

// State is a snapshot of the connection.
func (b *Backend) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// setState changes the state and tells who waits for that.
func (b *Backend) setState(s Status, err error) {
	b.mu.Lock()
	if b.state.Status != s {
		b.state.Since = time.Now()
	}
	b.state.Status, b.state.Err = s, bare(err)
	if c := b.main.Load(); c != nil {
		b.state.Revision = c.hello.Revision
	}
	close(b.changes)
	b.changes = make(chan struct{})
	b.mu.Unlock()
	b.set.changed()
}

// setListening notes whether a modern backend announces its changes.
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

// close ends everything and waits for it.
func (b *Backend) close() {
	all := func(*lease) bool { return true }
	b.stop(errClosed)
	b.closeLeases(all) // side by side
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.closeLeases(all) // what came in between
	b.closePlain()
	b.wg.Wait()
	if b.http != nil {
		b.http.CloseIdleConnections()
	}
}

// notified passes on what belongs to no call. session is the client's that it came for;
// "" when that is not known.
func (b *Backend) notified(session, method string, params json.RawMessage) {
	switch o := &b.set.o; {
	case session != "" && o.SessionNotified != nil:
		o.SessionNotified(b, session, method, params)
	case session == "" && o.Notified != nil:
		o.Notified(b, method, params)
	}
}

// updated passes on that a resource changed. session is whose connection said so; "" on
// the main one.
func (b *Backend) updated(session string, params json.RawMessage) {
	if f := b.set.o.Updated; f != nil {
		f(b, session, wire.GetString(params, "uri"), params)
	}
}

// hasBothEras reports whether the main connection is a modern one to a process that
// speaks a revision with sessions as well.
func (b *Backend) hasBothEras() bool {
	c := b.usable()
	return c != nil && c.modern && c.legacyToo && b.transport == TransportStdio
}

// maxJunk is how many pieces of junk are worth a warning.
const maxJunk = 20

// junk logs what a backend sent instead of a frame.
func (b *Backend) junk(frame []byte, err error) {
	level := slog.LevelWarn
	if b.stats.junk.Add(1) > maxJunk {
		level = slog.LevelDebug
	}
	b.log.Log(b.ctx, level, "not an MCP message", "err", err, "line", brief(frame))
}
