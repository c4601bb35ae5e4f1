package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/config"
)

// How the service ends after the first signal; the second ends the process at once, see
// cancelOnSignal.
//
//	                  /readyz   new connections   calls
//	shutdown.delay    503       served            served, each answer closes its connection
//	shutdown.drainTime   -      refused           those that run may end
//	then                 -      refused           cut
//
// A load balancer learns of the end by /readyz or from its orchestrator, and goes on
// sending for a moment. With a delay that is longer than that moment it loses nothing. Over
// standard input and output there is one client, who knows: no delay.

// durationFlag is a flag that stays nil when it is not given.
func durationFlag(c *cobra.Command, name, usage string) *config.Duration {
	d := new(config.Duration)
	*d = notGiven
	c.Flags().VarP((*durationValue)(d), name, "", usage)
	return d
}

// notGiven is a duration that nobody gives.
const notGiven config.Duration = -1

// durationValue is a duration as in the configuration.
type durationValue config.Duration

func (d *durationValue) String() string {
	if config.Duration(*d) == notGiven {
		return ""
	}
	return config.Duration(*d).Std().String()
}

// Set reads the value of the flag.
func (d *durationValue) Set(text string) error {
	var v config.Duration
	if err := v.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("want 0s or more, have %s", text)
	}
	*d = durationValue(v)
	return nil
}

func (d *durationValue) Type() string { return "duration" }

// noteShutdown remembers how a configuration wants the end to be. The flags win.
func (s *served) noteShutdown(cfg *config.Config) { s.shutdown.Store(shutdownOf(cfg, s.flags)) }

// shutdownOf is how a configuration wants the end to be, or the flags.
func shutdownOf(cfg *config.Config, f serveFlags) *config.Shutdown {
	how := cfg.Operational.Shutdown
	if d := *f.delay; d != notGiven {
		how.Delay = d
	}
	if d := *f.drain; d != notGiven {
		how.DrainTime = d
	}
	return &how
}

// ending is what ends in an order: a *proxy.Proxy, or several.
type ending interface {
	Stopping()
	Drain()
}

// stopping is an endpoint that is about to end.
type stopping struct {
	endpoint ending
	how      *config.Shutdown
	listener net.Listener
	passed   func(context.Context) error // waits for what other replicas have passed on; nil: there are none
}

// stopServer ends an HTTP server after the first signal.
func (a *app) stopServer(s stopping, server *server, ended <-chan error) error {
	s.endpoint.Stopping()
	if delay := s.how.Delay.Std(); delay > 0 {
		a.say("serving on for %s, then stopping; interrupt again to stop at once", delay)
		late := time.NewTimer(delay)
		defer late.Stop()
		select {
		case <-late.C:
		case err := <-ended:
			return fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
		}
	}
	a.say("stopping; interrupt again to stop at once")
	s.endpoint.Drain()
	drain, cancel := context.WithTimeout(context.Background(), s.how.DrainTime.Std())
	defer cancel()
	_ = s.listener.Close()
	<-ended
	err := server.drain(drain)
	if err == nil && s.passed != nil {
		err = s.passed(drain)
	}
	if err != nil {
		a.say("some calls are cut: they took longer than %s", s.how.DrainTime.Std())
	}
	_ = server.Close()
	return nil
}

// server is an HTTP server that knows how many connections it has.
type server struct {
	http.Server
	open atomic.Int64
}

// newServer is an HTTP server for peers of any kind.
func newServer(h http.Handler, log *slog.Logger) *server {
	s := &server{Server: http.Server{
		Handler: brief(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: serverLog(log),
	}}
	s.ConnState = s.count
	return s
}

// unreadTime is how long the rest of a body may take that nobody wants: of a request that was answered without it.
const unreadTime = 2 * time.Second

// brief bounds how long a request that is answered waits for its body: the server reads that before the answer goes.
func brief(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
		}
	})
}

func (s *server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// drain waits for the connections to end once nothing is accepted any more. http.Server.Shutdown, which would do so,
// throws away a request that it has just read: a call on a new connection would be lost without an answer. Here each
// connection ends with the answer to its request, an idle one at once, and one that never sends any after 5 s.
func (s *server) drain(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		s.SetKeepAlivesEnabled(false) // each time: it closes those that are idle
		if s.open.Load() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
