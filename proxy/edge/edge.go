// Package edge is where clients come in: HTTP for both eras of MCP, and stdio. It checks who they
// are and what they may reach, reads what they send, keeps their sessions, and writes answers and
// events back, to those who read slowly or come again, too. What clients ask for it leaves to a
// Handler.
//
//	server := edge.New(edge.Options{Handler: proxy, Log: log, Page: pages, Refused: refused})
//	http.Serve(edge.Listener(l), server)
package edge

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
	"github.com/vmcp-dev/vmcp/proxy/gate"
)

// A Handler does what clients ask for. A Server has one.
type Handler interface {
	// Admit is asked before a Server does something by itself: it opens a session
	// (initialize), takes a notification, serves the stream of a session (GET) or ends a session
	// (DELETE). do does it, and Admit returns the error of do.
	Admit(ctx context.Context, r Request, do func(context.Context) error) error
	// Serve answers every other request. The errors that it returns are for the client.
	Serve(ctx context.Context, r Request) (*backends.Response, error)
	// Open is called for a new session before anybody can find it, and returns who is notified of the rest.
	Open(ctx context.Context, s *Session) Peer
}

// A Peer is what a Handler keeps of a session.
type Peer interface {
	// Initialize is the result of the initialize that opened the session.
	Initialize() json.RawMessage
	// Notified takes a notification of the client that is not about the session itself.
	Notified(method string, params json.RawMessage)
	// Listens is called when the client can get what belongs to no request, StoppedListening when
	// it cannot any more.
	Listens()
	StoppedListening()
	// Ended is called last, or Left: the session goes on at another replica, with what backends keep for it.
	Ended()
	Left()
}

// Held is what clients together can make the edges hold, as far as it is much: bodies
// and streams.
const Held = body.Most + streamsTotal + replayTotal

// Options are what a Server takes from its surroundings.
type Options struct {
	Handler Handler
	Log     *slog.Logger
	Profile string // of the client on stdio; a configuration without it is refused. "" is none
	// Page serves the other paths; details says whether who asks may see more than whether it is ready.
	Page func(w http.ResponseWriter, r *http.Request, details bool)
	// Operators serves the page and the API for operators; false says that the request is for something else. May be nil.
	Operators func(http.ResponseWriter, *http.Request, gate.Port, *gate.Rules) bool
	// Login serves the pages on which people log in at backends. nil: there are none.
	Login http.HandlerFunc
	// Refused is called for every request whose credential was refused.
	Refused func(*auth.Refusal)
	// Turned is called for every request that was refused before it was read, and of one for a
	// session of somebody else. May be nil.
	Turned func(r *http.Request, status int, reason string)
	// Within returns the context in which a request is served that came in, one of the
	// request's; who is nil for nobody. It is that of the request by default.
	Within func(r *http.Request, who *auth.Principal) context.Context
}

// A Server takes in what clients send, over HTTP and stdio, and returns what its Handler
// answers. It is safe for concurrent use.
type Server struct {
	handler   Handler
	log       *slog.Logger
	profile   string // on stdio
	page      func(w http.ResponseWriter, r *http.Request, details bool)
	login     http.HandlerFunc                                                      // nil: none
	operators func(http.ResponseWriter, *http.Request, gate.Port, *gate.Rules) bool // nil: none
	refused   func(*auth.Refusal)
	turned    func(*http.Request, int, string)
	within    func(*http.Request, *auth.Principal) context.Context

	access    atomic.Pointer[access]
	elsewhere atomic.Pointer[Elsewhere]  // nil: this process is alone
	sealer    atomic.Pointer[ids.Sealer] // of what sessions are named by; nil: they have no seal
	sessions  sessions                   // over HTTP
	pipes     sessions                   // over stdio
	bodies    body.Account               // of large requests
	replays   replays                    // what streams hold
	stateless budget                     // of streams without a session
	idle      atomic.Pointer[config.SessionIdle]
	pressed   atomic.Uint64 // sessions that were ended for their place at a backend
	expired   atomic.Uint64 // sessions that nobody had used

	work      sync.WaitGroup  // the sweep
	life      context.Context // ends with Close
	end       context.CancelFunc
	pipe      atomic.Pointer[auth.Principal] // who Verify let in, for stdio
	stopping  atomic.Bool                    // Stopping was called
	listening context.Context                // ends with Drain
	drain     context.CancelFunc
}

// New makes a Server that lets everybody in; Apply gives it a configuration.
func New(o Options) *Server {
	v := &Server{handler: o.Handler, log: o.Log, profile: o.Profile, page: o.Page, login: o.Login, operators: o.Operators, refused: o.Refused, turned: o.Turned, within: o.Within}
	if v.turned == nil {
		v.turned = func(*http.Request, int, string) {}
	}
	if v.within == nil {
		v.within = func(r *http.Request, _ *auth.Principal) context.Context { return r.Context() }
	}
	v.bodies.Limit, v.stateless.all = body.Most, &v.replays
	v.life, v.end = context.WithCancel(context.Background())
	v.listening, v.drain = context.WithCancel(v.life)
	v.idle.Store(&config.SessionIdle{Client: config.Duration(time.Hour), Pressure: config.Duration(time.Minute)})
	v.sessions.limits.Store(newSessionLimits(config.Default()))
	a, err := newAccess(&config.Config{}, nil, o.Log)
	if err != nil {
		panic(err) // a configuration that says nothing lets everybody in
	}
	v.access.Store(a)
	v.work.Go(v.sweep)
	return v
}

// Apply brings the server to a configuration. adopt is called when all of that can be done,
// and before it is: its error leaves everything as it was.
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

// Seal has sessions named by texts that by seals, and no other ones accepted: those that are named otherwise have to begin
// anew. nil: by random texts.
func (v *Server) Seal(by *ids.Sealer) { v.sealer.Store(by) }

// EachSession visits the sessions over HTTP and stdio.
func (v *Server) EachSession(f func(*Session)) {
	for _, s := range v.sessions.all() {
		f(s)
	}
	for _, s := range v.pipes.all() {
		f(s)
	}
}

// Session finds a session over HTTP or stdio; nil when it is over.
func (v *Server) Session(id string) *Session {
	if s := v.sessions.find(id); s != nil {
		return s
	}
	return v.pipes.find(id)
}

// Stopping has every answer close its connection, so that the next request of a client or a
// load balancer comes over a new one and goes elsewhere. Everything is served as before.
func (v *Server) Stopping() { v.stopping.Store(true) }

// Draining is closed when Drain or Close is called: what only listens ends then.
func (v *Server) Draining() <-chan struct{} { return v.listening.Done() }

// IsStopping reports whether Stopping or Drain was called.
func (v *Server) IsStopping() bool { return v.stopping.Load() }

// Drain ends the streams on which clients only listen and lets no new ones begin.
// ServeStdio returns once nothing is running.
func (v *Server) Drain() {
	v.Stopping()
	v.drain()
}

// Close ends every session, and with it its requests.
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

// Stats are what a Server holds and has counted.
type Stats struct {
	Sessions int // open ones

	// Sessions that were ended for want of room, because nothing but an initialize had come, for
	// another client's place at a backend, and because nobody had used them.
	Evicted, Unused, Pressed, Expired uint64
	Refused                           uint64 // clients that found no room for a session

	StreamBytes                     int64  // that streams hold
	Dropped, Broken, EvictedStreams uint64 // notifications and answers that clients did not get
	BodyBytes                       int64  // of large requests
}

// Stats reads what there is now.
func (v *Server) Stats() Stats {
	return Stats{
		Sessions: len(v.sessions.all()) + len(v.pipes.all()),
		Evicted:  v.sessions.evicted.Load(), Unused: v.sessions.ended.Load(), Pressed: v.pressed.Load(), Expired: v.expired.Load(),
		Refused: v.sessions.refused.Load(), StreamBytes: v.replays.held.Load(),
		Dropped: v.replays.dropped.Load(), Broken: v.replays.broken.Load(), EvictedStreams: v.replays.evicted.Load(),
		BodyBytes: v.bodies.Held(),
	}
}
