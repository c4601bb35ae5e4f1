package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// The phases of shutdown after the first signal; the second ends the process at once, see
// cancelOnSignal.
//
//	                  /readyz   new connections   calls
//	shutdown.delay    503       served            served, each response closes its connection
//	shutdown.drainTime   -      refused           pending calls may end
//	then                 -      refused           cancelled; those of sessions are answered with an error
//
// A load balancer notices the shutdown by /readyz or through its orchestrator, and keeps sending
// requests until then. With a delay that is longer than that no request is lost. Over standard
// input and output there is only one client, and no delay.

// durationFlag is a flag whose value is nil if it is not given.
func durationFlag(c *cobra.Command, name, usage string) *config.Duration {
	d := new(config.Duration)
	*d = notGiven
	c.Flags().VarP((*durationValue)(d), name, "", usage)
	return d
}

// notGiven is the value of a flag that is not given.
const notGiven config.Duration = -1

// durationValue is a flag value in the format of durations in the configuration.
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

// noteShutdown stores operational.shutdown of a configuration. Flags take precedence.
func (s *served) noteShutdown(cfg *config.Config) { s.shutdown.Store(shutdownOf(cfg, s.flags)) }

// shutdownOf is operational.shutdown of a configuration, overridden by flags.
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

// ending is what is shut down in phases: a *proxy.Proxy, or several.
type ending interface {
	Stopping()
	Drain()
	Cut()
}

// stopping is an endpoint that is shut down.
type stopping struct {
	endpoint ending
	how      *config.Shutdown
	listener net.Listener
	passed   func(context.Context) error // waits for requests forwarded by other replicas; nil: there are none
}

// stopServer shuts an HTTP server down after the first signal.
func (a *app) stopServer(s stopping, server *server, ended <-chan error) error {
	s.endpoint.Stopping()
	if delay := s.how.Delay.Std(); delay > 0 {
		a.say("still serving for %s, then stopping; interrupt again to stop at once", delay)
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
	_ = s.listener.Close()
	<-ended
	if s.drained(server, s.how.DrainTime.Std()) != nil {
		a.say("some calls were cancelled: they took longer than %s", s.how.DrainTime.Std())
		s.endpoint.Cut()
		_ = s.drained(server, cutTime)
	}
	_ = server.Close()
	return nil
}

// cutTime is how long the answers to calls that were cut have to go out.
const cutTime = time.Second

// drained waits until the requests have ended that came here and that other replicas have passed on.
func (s *stopping) drained(server *server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := server.drain(ctx)
	if err == nil && s.passed != nil {
		err = s.passed(ctx)
	}
	return err
}

// server is an HTTP server that knows its connections.
type server struct {
	http.Server
	open     atomic.Int64 // how many there are
	listener atomic.Pointer[edge.TimedListener]
}

// newServer is an HTTP server with timeouts against slow or hostile peers.
func newServer(h http.Handler, log *slog.Logger) *server {
	s := &server{Server: http.Server{
		Handler: brief(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: serverLog(log),
	}}
	s.ConnState = s.count
	return s
}

// unreadTime is how long the unread rest of a request body may take after the response.
const unreadTime = 2 * time.Second

// brief bounds how long a response waits for the rest of its request's body, which net/http reads before it sends the response.
// There is no such bound behind a body that was read: net/http watches the connection then, and would take the end of the
// time for the end of the client, whose next request on the connection would be cancelled.
func brief(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body *readBody
		if r.ContentLength < 0 {
			body = &readBody{ReadCloser: r.Body}
			r.Body = body
		}
		h.ServeHTTP(w, r)
		if !wasRead(r, body) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
		}
	})
}

// wasRead reports whether the body of a request was read to its end; body is one without a Content-Length.
func wasRead(r *http.Request, body *readBody) bool {
	switch {
	case r.ContentLength == 0:
		return true
	case body != nil:
		return body.ended
	case r.ProtoMajor != 1: // the bound is that of a stream then, not of a connection
		return false
	}
	_, err := r.Body.Read(nil) // which does not wait where the length is known
	return err == io.EOF
}

// readBody notes the end of a body. It is read by one goroutine at a time, and by none after its handler.
type readBody struct {
	io.ReadCloser
	ended bool
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (s *server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// silentTime is how long drain waits for the first byte on a connection that was opened ahead of need: one that was
// sent before the drain has been read by then.
const silentTime = time.Second

// drain waits for the connections to end once nothing is accepted any more. http.Server.Shutdown, which would do so,
// throws away a request that it has just read: a call on a new connection would be lost without an answer. Here each
// connection ends with the answer to its request, an idle one at once, one on which nothing was ever sent after silentTime,
// and one that has sent less than a request after 5 s.
func (s *server) drain(ctx context.Context) error {
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		s.SetKeepAlivesEnabled(false) // in each iteration: it closes idle connections
		if l := s.listener.Load(); l != nil && time.Since(began) >= silentTime {
			l.CloseSilent()
		}
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
