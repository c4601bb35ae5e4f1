// Package backends keeps the connections to the MCP servers behind the endpoint: child
// processes over stdio, Streamable HTTP of either era and the HTTP+SSE transport of
// 2024-11-05. It finds out which revision a backend speaks, keeps its lists, reconnects
// when it is lost, and makes calls whose params and results are bytes.
//
//	set := backends.NewSet(backends.Options{Changed: rebuild})
//	defer set.Close()
//	set.Apply(ctx, cfg.Backends)
//	resp, err := set.All()[0].Call(ctx, &backends.Request{Method: "tools/call", Params: params})
//
// A connection is shared between clients where it is certain to which call a message of
// the backend belongs, and exclusive to one client where it is not.
package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
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
	// SessionNotified is called for a notification that belongs to no running call but
	// came on the connection of one client's session, such as the end of an elicitation
	// by URL.
	SessionNotified func(b *Backend, session, method string, params json.RawMessage)
	// ClientInfo is how the proxy introduces itself. Default {"name":"vmcp","version":"0"}.
	ClientInfo json.RawMessage
	// Timeout bounds a call to a backend that has none of its own. Default 30s.
	Timeout time.Duration
	// MaxMessage bounds an answer that must be held in memory. Default 64 MiB.
	MaxMessage int64
	// FailureHandling says when a backend counts as down.
	FailureHandling config.FailureHandling
}

// Set is the backends of one configuration.
type Set struct {
	o      Options
	notify chan struct{} // cap 1
	done   chan struct{}
	guard  guard

	mu     sync.Mutex
	tuning tuning     // guarded by mu: for the next Apply
	all    []*Backend // guarded by mu; replaced, never changed
	closed bool       // guarded by mu
	wg     sync.WaitGroup
}

// NewSet returns an empty set.
func NewSet(o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ClientInfo == nil {
		o.ClientInfo = json.RawMessage(`{"name":"vmcp","version":"0"}`)
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 64 << 20
	}
	s := &Set{o: o, notify: make(chan struct{}, 1), done: make(chan struct{}), guard: guard{log: o.Log}}
	s.Tune(o.Timeout, o.FailureHandling)
	s.wg.Go(s.announce)
	return s
}

// tuning is what holds for all backends of a set.
type tuning struct {
	timeout  time.Duration
	failures config.FailureHandling
}

// Tune replaces Options.Timeout and Options.FailureHandling as of the next Apply.
func (s *Set) Tune(timeout time.Duration, f config.FailureHandling) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tuning = tuning{timeout, f}
}

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

// Apply makes the set what cfgs says. Backends whose configuration did not change keep
// their connections; new ones connect side by side in the background; those that are
// gone are closed once their running calls have ended. It never waits for a backend.
func (s *Set) Apply(_ context.Context, cfgs []config.Backend) error {
	if err := distinct(cfgs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	old := map[string]*Backend{}
	for _, b := range s.all {
		old[b.name] = b
	}
	next := make([]*Backend, 0, len(cfgs))
	for _, cfg := range cfgs {
		b := old[cfg.Name]
		if b != nil && reflect.DeepEqual(b.cfg, cfg) && reflect.DeepEqual(b.tuning, s.tuning) {
			delete(old, cfg.Name)
		} else {
			b = s.newBackend(cfg, s.tuning)
		}
		next = append(next, b)
	}
	s.all = next
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
		b.sessionSubs.forget(session)
		b.release(session)
	}
}

// Notify passes a client's notification on to the connections that are its session's own.
func (s *Set) Notify(session, method string, params json.RawMessage) {
	for _, b := range s.All() {
		for _, c := range b.leases.of(session) {
			b.spawn(func() { c.tell(method, params) })
		}
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
	all := s.all
	s.mu.Unlock()
	for _, b := range all {
		s.wg.Go(b.close)
	}
	s.wg.Wait()
	s.guard.close()
	return nil
}
