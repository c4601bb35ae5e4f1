package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
)

// Elsewhere are the other replicas of a cluster: sessions and calls that wait are in the memory of one of them.
type Elsewhere interface {
	// Awake is called before a session of this process is used.
	Awake(ctx context.Context)
	// Opened is called for a new session before its client knows of it; said is what its text says.
	Opened(ctx context.Context, s *Session, said *ids.Session) error
	// Route is called for a request of a session that is not here, with what it brings. It returns the session if the
	// request is to be served here, since this process has adopted it, and nil when it has answered the request;
	// ErrNoSession when there is no such session.
	Route(w http.ResponseWriter, r *http.Request, body []byte, said *ids.Session) (*Session, error)
	// Holds is called for a stateless request that brings a state, and reports whether the call that waits for it is
	// elsewhere: the request was answered, unless there is an error.
	Holds(w http.ResponseWriter, r *http.Request, body []byte, asked Request) (bool, error)
	// Deleted is called for a session that is over for every replica.
	Deleted(s *Session)
}

// Join makes the process one of several: what is not here may be elsewhere. It is called before the first request.
func (v *Server) Join(e Elsewhere) { v.elsewhere.Store(&e) }

// others are the other replicas; nil without any.
func (v *Server) others() Elsewhere {
	if e := v.elsewhere.Load(); e != nil {
		return *e
	}
	return nil
}

// ErrNoSession is the one answer to everything that is wrong with the id of a session.
var ErrNoSession = wire.Errorf(wire.InvalidRequest, "session not found: begin a new one with initialize")

type passedKey struct{}

// ServePassed serves a request that another replica has passed on, which has found out that it comes from who. It is not
// passed on again.
func (v *Server) ServePassed(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	ctx := WithPrincipal(v.within(r, who), who)
	v.serveMCP(w, r.WithContext(context.WithValue(ctx, passedKey{}, true)))
}

// WasPassed reports whether another replica has passed on the request that ctx belongs to.
func WasPassed(ctx context.Context) bool { return ctx.Value(passedKey{}) != nil }

// claim finds the session that a request names, wherever it is; body is what the request brings. nil: the request is answered.
func (v *Server) claim(w http.ResponseWriter, r *http.Request, id json.RawMessage, body []byte) *Session {
	e := v.others()
	if e != nil {
		e.Awake(r.Context())
		if r.Method == http.MethodGet { // a stream that is passed on ends with Drain, as one of this process does
			ctx, done := v.untilDrained(r.Context())
			defer done()
			r = r.WithContext(ctx)
		}
	}
	s, said, status, err := v.sessionOf(r)
	if said != nil && e != nil {
		s, err = e.Route(w, r, body, said)
	}
	switch {
	case err == nil:
		return s
	case wire.AsError(err).Code == wire.Busy:
		refuseBusy(w, id, err)
	case errors.Is(err, ErrNoSession):
		refuse(w, http.StatusNotFound, id, err)
	default:
		refuse(w, status, id, err)
	}
	return nil
}

// An Adoption is what a session is begun anew from, beside what its text says.
type Adoption struct {
	Epoch        int64  // how often it was adopted
	Level        string // of log messages
	Capabilities json.RawMessage
}

// Adopt begins a session anew that was another replica's, for a request that names it. ready is called before
// anybody finds it; its error ends it.
func (v *Server) Adopt(r *http.Request, said *ids.Session, a Adoption, ready func(*Session) error) (*Session, error) {
	c := &Client{Principal: v.principal(r), Profile: said.Profile, Revision: said.Revision, Capabilities: a.Capabilities, Info: said.Info}
	s := &Session{ID: said.ID, Text: r.Header.Get(wire.HeaderSession), Client: c, opened: v.sealer.Load(), epoch: "e" + strconv.FormatInt(a.Epoch, 10) + ".", used: time.Now(), begun: true, ready: true, logLevel: a.Level}
	c.Session, s.budget = s, &budget{session: s, all: &v.replays}
	s.Peer = v.handler.Open(r.Context(), s)
	err := ready(s)
	if err == nil {
		err = v.admitSession(s, r)
	}
	if err == nil && v.life.Err() == nil {
		return s, nil
	}
	v.Lose(s)
	return nil, errors.Join(err, v.life.Err())
}

// Lose forgets a session that goes on at another replica: nothing ends but here.
func (v *Server) Lose(s *Session) {
	v.sessions.remove(s.ID)
	s.close()
	s.Peer.Left()
}

// passOn reports whether a stateless request brings the state of a call which waits elsewhere, and answers it.
func (h *httpReply) passOn(body []byte, asked Request) bool {
	e := h.server.others()
	if e == nil || WasPassed(h.r.Context()) || jsonscan.Get(asked.Params, "requestState") == nil {
		return false
	}
	elsewhere, err := e.Holds(h.w, h.r, body, asked)
	if err != nil {
		h.finish(h.id, nil, err)
	}
	return elsewhere
}

// MaxBody is how large the body of a request may be.
func (v *Server) MaxBody() int64 { return v.access.Load().maxBody }
