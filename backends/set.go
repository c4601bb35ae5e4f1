// Package backends keeps the connections to the MCP servers behind the endpoint: child
// processes over stdio, Streamable HTTP of either era and the HTTP+SSE transport of
// 2024-11-05. It finds out which revision a backend speaks, keeps its lists, reconnects
// when it is lost, and makes calls whose params and results are bytes.
//
//	set := backends.NewSet(backends.Options{Changed: rebuild})
//	defer set.Close()
//	set.Apply(cfg)
//	resp, err := set.All()[0].Call(ctx, &backends.Request{Method: "tools/call", Params: params})
//
// A connection is shared between clients where it is certain to which call a message of
// the backend belongs, and exclusive to one client where it is not.
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
	"github.com/vmcp-dev/vmcp/backends/internal/settings"
	"github.com/vmcp-dev/vmcp/backends/lines"
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
	// session is the client's that it is for, or "" for all.
	Updated func(b *Backend, session, uri string, params json.RawMessage)
	// Notified is called for a notification that belongs to no call and no client.
	Notified func(b *Backend, method string, params json.RawMessage)
	// Pressure ends the one of these client sessions that has been unused longest, if any has
	// been unused for long enough and waits for nothing. b has no connection left for others.
	Pressure func(b *Backend, sessions []string) (ended bool)
	// ListChanged is called when a backend says, on the connection of one client's session,
	// that a list has changed; method is the notification.
	ListChanged func(b *Backend, session, method string)
	// Kept is told what a backend keeps for a client session, before anything is done in it: the name by which Resume goes on
	// with it in another process, "" where that cannot be. It may be nil.
	Kept func(session, backend, name string)
	// ClientInfo is how the proxy introduces itself. Default {"name":"vmcp","version":"0"}.
	ClientInfo json.RawMessage
	// MaxMessage bounds an answer that must be held in memory. Default 64MB.
	MaxMessage int64
	// Secrets are hidden in what is cut to fit a line; Log and the texts of errors are the
	// caller's to hide. It may be nil.
	Secrets *secret.Redactor
	// Lines keeps the last lines about each backend. It may be nil.
	Lines *lines.Log
	// Named is Secrets for what processes write to standard error: it says which variable a value came from. Default Secrets.
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

	privateLists atomic.Int64 // bytes that private sessions hold of lists of their own

	mu      sync.Mutex
	general settings.General    // guarded by mu: of the last Apply
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

// defaultIdle is how long unused sessions are kept where a configuration says nothing.
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

// Apply makes the set what cfg says of backends, timeouts, failures and unused sessions.
// After an error everything is as before. Backends keep their connections unless what they
// are started or reached with changes, and serve until their successors do; new ones
// connect side by side in the background; those that are gone are closed once their
// running calls have ended. It never waits for a backend.
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
	if err := s.credentials.Keep(cfg.TokenStore); err != nil {
		return err
	}
	s.general = settings.GeneralOf(cfg)
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

// Release closes what was exclusive to a client's session.
func (s *Set) Release(session string) {
	for _, b := range s.All() {
		b.closeSession(session)
	}
}

// Notify passes a client's notification on to the connections that are its session's own.
func (s *Set) Notify(session, method string, params json.RawMessage) {
	for _, b := range s.All() {
		b.notifySession(session, method, params)
	}
}

// Listen notes that a session's client has a stream open for what belongs to no call.
func (s *Set) Listen(session string) {
	for _, b := range s.All() {
		b.listenFor(session)
	}
}

// Unlisten notes that it has none any more.
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
