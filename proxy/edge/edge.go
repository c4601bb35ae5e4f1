// Package edge is the server side of MCP: HTTP for both eras of the protocol, and stdio. It authenticates clients,
// checks what they may reach, reads their messages, keeps their sessions, and writes responses and events, also for
// clients that read slowly or reconnect. What the requests ask for is left to a Handler.
//
//	server := edge.New(edge.Options{Handler: proxy, Log: log, Page: pages, Refused: refused})
//	http.Serve(edge.Listener(l), server)
package edge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// A Handler serves the requests of clients. A Server has one.
type Handler interface {
	// Admit is called before the Server itself serves a request: it opens a session (initialize), receives a
	// notification, serves the stream of a session (GET) or ends a session (DELETE). Admit calls do, and returns its
	// error.
	Admit(ctx context.Context, r Request, do func(context.Context) error) error
	// Serve serves every other request. The errors that it returns are for the client.
	Serve(ctx context.Context, r Request) (*backends.Response, error)
	// Open is called for a new session before requests can name it, and returns its Peer.
	Open(ctx context.Context, s *Session) Peer
}

// A Peer is the Handler's state of a session.
type Peer interface {
	// Initialize is the result of the initialize that opened the session.
	Initialize() json.RawMessage
	// Notified is called for a notification of the client that is not about the session itself.
	Notified(method string, params json.RawMessage)
	// Listens is called when the client can receive what belongs to no request, StoppedListening when it no longer can.
	Listens()
	StoppedListening()
	// Ended is called last; or Left, if the session continues at another replica, which uses its backend sessions.
	Ended()
	Left()
}

// Held is the largest number of bytes that all clients together can occupy in bodies and streams.
const Held = most + streamHeld

// Options configure a Server.
type Options struct {
	Handler Handler
	Log     *slog.Logger
	Profile string // of the client on stdio; a configuration that lacks it is refused; "" is none
	// Page serves the other paths; details says whether the requester may see more than whether the endpoint is ready.
	Page func(w http.ResponseWriter, r *http.Request, details bool)
	// Operators serves the page and the API for operators; false if the request is for something else. May be nil.
	Operators func(http.ResponseWriter, *http.Request, Port, *Rules) bool
	// Login serves the pages for logins at backends; nil: there are none.
	Login http.HandlerFunc
	// Refused is called for every request with a refused credential.
	Refused func(*auth.Refusal)
	// Turned is called for every request that was refused before its body was read, and for requests that name another
	// principal's session. May be nil.
	Turned func(r *http.Request, status int, reason string)
	// Within returns the context for serving a request, derived from the request's; who is nil for an anonymous one.
	// Default: the context of the request.
	Within func(r *http.Request, who *auth.Principal) context.Context
}

// A Server receives the messages of clients over HTTP and stdio, and returns the responses of its Handler. It is safe
// for concurrent use.
type Server struct {
	handler   Handler
	log       *slog.Logger
	profile   string // on stdio
	page      func(w http.ResponseWriter, r *http.Request, details bool)
	login     http.HandlerFunc                                            // nil: none
	operators func(http.ResponseWriter, *http.Request, Port, *Rules) bool // nil: none
	refused   func(*auth.Refusal)
	turned    func(*http.Request, int, string)
	within    func(*http.Request, *auth.Principal) context.Context

	access    atomic.Pointer[access]
	elsewhere atomic.Pointer[Elsewhere] // nil: this process is the only one
	sealer    atomic.Pointer[Sealer]    // seals session ids; nil: they are random
	sessions  sessions                  // over HTTP
	pipes     sessions                  // over stdio
	bodies    Account                   // memory of large requests
	streams   pool                      // memory of streams
	stateless *set                      // streams of clients without a session
	idle      atomic.Pointer[config.SessionIdle]
	pressed   atomic.Uint64 // sessions ended by Pressure
	expired   atomic.Uint64 // sessions ended since they were idle

	work      sync.WaitGroup  // the goroutine of sweep
	life      context.Context // ends with Close
	end       context.CancelFunc
	pipe      atomic.Pointer[auth.Principal] // set by Verify, for stdio
	stopping  atomic.Bool                    // Stopping was called
	listening context.Context                // ends with Drain
	drain     context.CancelFunc
	whole     context.Context // ends with Cut
	cut       context.CancelCauseFunc
}

// New makes a Server without authentication; Apply gives it a configuration.
func New(o Options) *Server {
	v := &Server{handler: o.Handler, log: o.Log, profile: o.Profile, page: o.Page, login: o.Login, operators: o.Operators, refused: o.Refused, turned: o.Turned, within: o.Within}
	if v.turned == nil {
		v.turned = func(*http.Request, int, string) {}
	}
	if v.within == nil {
		v.within = func(r *http.Request, _ *auth.Principal) context.Context { return r.Context() }
	}
	v.bodies.Limit, v.stateless = most, newSet(&v.streams, "")
	v.life, v.end = context.WithCancel(context.Background())
	v.listening, v.drain = context.WithCancel(v.life)
	v.whole, v.cut = context.WithCancelCause(context.Background())
	v.idle.Store(&config.SessionIdle{Client: config.Duration(time.Hour), Pressure: config.Duration(time.Minute)})
	v.sessions.limits.Store(newSessionLimits(config.Default()))
	a, err := newAccess(&config.Config{}, nil, o.Log)
	if err != nil {
		panic(err) // a bug: an empty configuration is valid
	}
	v.access.Store(a)
	v.work.Go(v.sweep)
	return v
}

// Apply applies a configuration. adopt is called when the configuration is known to be applicable, before anything has
// changed; if it returns an error, nothing changes.
func (v *Server) Apply(cfg *config.Config, adopt func() error) error {
	old := v.access.Load()
	next, err := newAccess(cfg, old, v.log)
	if err != nil {
		return err
	}
	err = next.profiles.Check(v.profile)
	if err == nil {
		err = adopt()
	}
	if err != nil {
		next.retire(old)
		return err
	}
	v.idle.Store(&cfg.SessionIdle)
	v.access.Store(next)
	old.retire(next)
	v.sessions.limits.Store(newSessionLimits(cfg))
	v.EachSession(func(s *Session) {
		if next.profiles.Check(s.Client.Profile) != nil {
			v.endSession(s)
		}
	})
	return nil
}

// Seal sets the sealer of session ids. From then on only ids that it opens are accepted; other sessions have to begin
// anew. nil: session ids are random.
func (v *Server) Seal(by *Sealer) { v.sealer.Store(by) }

// EachSession calls f for the sessions over HTTP and stdio.
func (v *Server) EachSession(f func(*Session)) {
	for _, s := range v.sessions.all() {
		f(s)
	}
	for _, s := range v.pipes.all() {
		f(s)
	}
}

// Session finds a session over HTTP or stdio; nil if there is none.
func (v *Server) Session(id string) *Session {
	if s := v.sessions.find(id); s != nil {
		return s
	}
	return v.pipes.find(id)
}

// Stopping makes every response close its connection, so that the next request of a client or a load balancer uses a
// new one and reaches another process. Everything is served as before.
func (v *Server) Stopping() { v.stopping.Store(true) }

// Draining is closed by Drain or Close: streams on which clients only listen end then.
func (v *Server) Draining() <-chan struct{} { return v.listening.Done() }

// IsStopping reports whether Stopping or Drain was called.
func (v *Server) IsStopping() bool { return v.stopping.Load() }

// Drain ends the streams on which clients only listen, and accepts no new ones. Pending requests to clients with a session
// over HTTP fail: the port closes, so that no response can come. ServeStdio returns once no request is in progress.
func (v *Server) Drain() {
	v.Stopping()
	v.drain()
	for _, s := range v.sessions.all() {
		s.deafen()
	}
}

// Cut breaks off the requests of sessions over HTTP that still run, and answers them: a client of a session that only
// loses a stream waits for its answer. One whose session is at another replica can resume its stream there. One without a
// session sees that its connection has ended. Cut comes after Drain.
func (v *Server) Cut() {
	v.cut(errCut)
	for _, s := range v.sessions.all() {
		s.cancelAll()
	}
}

// whyCut is the error of a request, where it was cancelled by Cut the one that says so.
func (v *Server) whyCut(err error) error {
	if v.whole.Err() != nil && errors.Is(err, ErrCancelled) {
		return errCut
	}
	return err
}

// Close ends every session, and cancels its requests.
func (v *Server) Close() {
	v.end()
	v.EachSession(func(s *Session) {
		if s.out == nil && v.others() != nil {
			v.Lose(s)
			return
		}
		v.endSession(s)
	})
	v.access.Load().auth.Close()
	v.work.Wait()
}

// Stats are the current state and the counters of a Server.
type Stats struct {
	Sessions int // open ones

	// Sessions ended for want of room, since only an initialize had come, for another client's place at a backend, and
	// since they were idle.
	Evicted, Unused, Pressed, Expired uint64
	Refused                           uint64 // initialize requests for which there was no room

	StreamBytes                     int64  // in buffers of streams
	Dropped, Broken, EvictedStreams uint64 // notifications and responses that clients did not get
	BodyBytes                       int64  // of large requests
}

// Stats reads the current state.
func (v *Server) Stats() Stats {
	streams := v.streams.Stats()
	return Stats{
		Sessions: len(v.sessions.all()) + len(v.pipes.all()),
		Evicted:  v.sessions.evicted.Load(), Unused: v.sessions.ended.Load(), Pressed: v.pressed.Load(), Expired: v.expired.Load(),
		Refused: v.sessions.refused.Load(), StreamBytes: streams.Held,
		Dropped: streams.Dropped, Broken: streams.Broken, EvictedStreams: streams.Evicted,
		BodyBytes: v.bodies.Reserved(),
	}
}
