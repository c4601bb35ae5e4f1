// Package backends keeps the connections to the MCP servers behind the endpoint: child
// processes over stdio, Streamable HTTP of either era and the HTTP+SSE transport of
// 2024-11-05. It negotiates the protocol revision, keeps the lists of each backend,
// reconnects, and makes calls whose params and results are bytes.
//
//	set := backends.NewSet(backends.Options{Changed: rebuild})
//	defer set.Close()
//	set.Apply(cfg)
//	resp, err := set.All()[0].Call(ctx, &backends.Request{Method: "tools/call", Params: params})
//
// A connection is shared between clients where each message of the backend can be
// attributed to a call, and private to one client where it cannot.
package backends

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/child"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Options of a Set. Zero values are fine.
type Options struct {
	Log *slog.Logger
	// Changed is called when any Offer or State has changed: one call for many changes,
	// on a goroutine of the Set, never while another one runs.
	Changed func()
	// Updated is called when a resource that was subscribed to has changed.
	// session is the client session that it is for, or "" for all.
	Updated func(b *Backend, session, uri string, params json.RawMessage)
	// Notified is called for a notification that belongs to no call and no client.
	Notified func(b *Backend, method string, params json.RawMessage)
	// Pressure is called when all connections or sessions of b are in use. It ends the one of these
	// client sessions that has been unused longest, if it has been unused for sessionIdle.pressure
	// and waits for nothing.
	Pressure func(b *Backend, sessions []string) (ended bool)
	// ListChanged is called for a list changed notification on the connection of one client
	// session; method is that of the notification.
	ListChanged func(b *Backend, session, method string)
	// Kept is called with the name of each new backend session of a client session, before its first call: Resume takes
	// it in another process. The name is "" where the session cannot be resumed. Kept may be nil.
	Kept func(session, backend, name string)
	// ClientInfo is how the proxy introduces itself. Default {"name":"vmcp","version":"0"}.
	ClientInfo json.RawMessage
	// MaxMessage bounds a response held in memory, in bytes. Default 64 MiB.
	MaxMessage int64
	// Secrets are hidden in texts before they are cut to a line's length; the caller hides
	// them in Log and in errors. It may be nil.
	Secrets *secret.Redactor
	// Lines keeps the last lines about each backend. It may be nil.
	Lines *Log
	// Named is Secrets for the standard error of processes: it replaces a value by the name of its variable. Default
	// Secrets.
	Named *secret.Redactor
}

// Set is the backends of one configuration.
type Set struct {
	o      Options
	notify chan struct{} // cap 1
	done   chan struct{}
	guard  *child.Guard // of all child processes
	idle   atomic.Pointer[config.SessionIdle]

	credentials *credentials.Pool

	privateLists atomic.Int64 // bytes of the lists of private sessions

	mu      sync.Mutex
	general General             // guarded by mu: of the last Apply
	all     []*Backend          // guarded by mu; replaced, never changed
	next    map[string]*Backend // guarded by mu: successors of backends in all that are not ready yet, by name
	closed  bool                // guarded by mu
	wg      sync.WaitGroup
}

// NewSet returns an empty set.
func NewSet(o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ClientInfo == nil {
		o.ClientInfo = json.RawMessage(`{"name":"vmcp","version":"0"}`)
	}
	if o.Named == nil {
		o.Named = o.Secrets
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 64 << 20
	}
	s := &Set{o: o, notify: make(chan struct{}, 1), done: make(chan struct{}), guard: child.NewGuard(o.Log), next: map[string]*Backend{}}
	s.credentials = credentials.NewPool(credentials.Options{Log: o.Log, Secrets: o.Secrets})
	s.idle.Store(&defaultIdle)
	s.wg.Go(s.announce)
	return s
}

// defaultIdle is the default of sessionIdle.
var defaultIdle = config.SessionIdle{Client: config.Duration(time.Hour), Pressure: config.Duration(time.Minute)}

// announce calls Changed until the set is closed.
func (s *Set) announce() {
	for {
		select {
		case <-s.notify:
			if s.o.Changed != nil {
				s.o.Changed()
			}
		case <-s.done:
			return
		}
	}
}

func (s *Set) changed() {
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

// Apply applies the backends, timeouts and session limits of a configuration. After an error
// nothing has changed. A backend keeps its connections unless its command, environment or URL
// changes, and then serves until its successor does (replace.go); new ones connect
// concurrently in the background; removed ones are closed once their running calls have ended.
// Apply never waits for a backend.
func (s *Set) Apply(cfg *config.Config) error {
	cfgs := cfg.Backends
	if err := distinct(cfgs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return conn.ErrClosed
	}
	if err := s.credentials.SetStore(cfg.TokenStore); err != nil {
		return err
	}
	s.general = GeneralOf(cfg)
	idle := cmp.Or(cfg.SessionIdle, defaultIdle)
	s.idle.Store(&idle)
	old := map[string]*Backend{}
	for _, b := range s.all {
		old[b.name] = b
	}
	next := make([]*Backend, 0, len(cfgs))
	for _, cfg := range cfgs {
		b := s.createOrUpdate(cfg, old[cfg.Name])
		if b == old[cfg.Name] {
			delete(old, cfg.Name)
		}
		next = append(next, b)
	}
	s.all = next
	for name := range s.next {
		if !slices.ContainsFunc(cfgs, func(c config.Backend) bool { return c.Name == name }) {
			s.giveUp(name)
		}
	}
	for _, b := range old {
		b.retiring.Store(true)
		s.wg.Go(b.retire)
	}
	s.changed()
	return nil
}

func distinct(cfgs []config.Backend) error {
	seen := map[string]bool{}
	for _, cfg := range cfgs {
		if cfg.Name == "" || seen[cfg.Name] {
			return fmt.Errorf("backends: name %q is empty or used twice", cfg.Name)
		}
		seen[cfg.Name] = true
	}
	return nil
}

// All returns the backends in the order of the configuration.
func (s *Set) All() []*Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// Release closes the private sessions of a client session, each after its last running call.
func (s *Set) Release(session string) {
	for _, b := range s.All() {
		b.endSession(session, false)
	}
}

// Notify forwards a client's notification to the private sessions of its session.
func (s *Set) Notify(session, method string, params json.RawMessage) {
	for _, b := range s.All() {
		b.notifySession(session, method, params)
	}
}

// Listen records that the client of a session has a GET stream open, for messages that belong to no call.
func (s *Set) Listen(session string) {
	for _, b := range s.All() {
		b.listenFor(session)
	}
}

// Unlisten records that the client of a session has closed its GET stream.
func (s *Set) Unlisten(session string) {
	for _, b := range s.All() {
		b.pool.unlisten(session)
	}
}

// Close ends all children, connections and goroutines, and waits for them.
func (s *Set) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	all := slices.AppendSeq(slices.Clone(s.all), maps.Values(s.next))
	s.mu.Unlock()
	for _, b := range all {
		s.wg.Go(b.close)
	}
	s.wg.Wait()
	s.credentials.Close()
	s.guard.Close()
	return nil
}
