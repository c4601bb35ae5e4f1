package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// Elsewhere is the access to the other replicas of a cluster: each session and each suspended call is in the memory of
// one.
type Elsewhere interface {
	// Awake is called before a session of this process is used.
	Awake(ctx context.Context)
	// Opened is called for a new session before its client gets the id; said is the content of the id.
	Opened(ctx context.Context, s *Session, said *IDSession) error
	// Route is called for a request of a session that is not here, with the request's body. It returns the session if
	// this process has adopted it and is to serve the request, nil if it has answered the request, and ErrNoSession if
	// there is no such session.
	Route(w http.ResponseWriter, r *http.Request, body []byte, said *IDSession) (*Session, error)
	// Holds is called for a stateless request with a requestState. It returns true if another replica has the suspended
	// call; the request was answered then, unless there is an error.
	Holds(w http.ResponseWriter, r *http.Request, body []byte, asked Request) (bool, error)
	// Deleted is called for a session that a client has ended.
	Deleted(s *Session)
}

// Join makes the Server one of several replicas. It is called before the first request.
func (v *Server) Join(e Elsewhere) { v.elsewhere.Store(&e) }

// others are the other replicas; nil without any.
func (v *Server) others() Elsewhere {
	if e := v.elsewhere.Load(); e != nil {
		return *e
	}
	return nil
}

// ErrNoSession is the one error for every session id that is not accepted.
var ErrNoSession = wire.Errorf(wire.InvalidRequest, "session not found: begin a new one with initialize")

type passedKey struct{}

// ServePassed serves a request that another replica has forwarded and authenticated as who. It is not forwarded again.
func (v *Server) ServePassed(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	ctx := WithPrincipal(v.within(r, who), who)
	v.serveMCP(w, r.WithContext(context.WithValue(ctx, passedKey{}, true)))
}

// WasPassed reports whether the request to which ctx belongs was forwarded by another replica.
func WasPassed(ctx context.Context) bool { return ctx.Value(passedKey{}) != nil }

// acquire finds the session that a request names, here or at another replica; body is the request's body. nil: the
// request was answered.
func (v *Server) acquire(w http.ResponseWriter, r *http.Request, id json.RawMessage, body []byte) *Session {
	e := v.others()
	if e != nil {
		e.Awake(r.Context())
	}
	s, said, status, err := v.sessionOf(r)
	if said != nil && e != nil {
		ends := v.whole // like a request of a session of this process, a forwarded one ends with Cut, and a GET stream with Drain
		if r.Method == http.MethodGet {
			ends = v.listening
		}
		ctx, done := until(r.Context(), ends)
		defer done()
		s, err = e.Route(w, r.WithContext(ctx), body, said)
	}
	switch {
	case err == nil:
		return s
	case errors.Is(err, errCut):
		refuse(w, http.StatusOK, id, err)
	case wire.AsError(err).Code == wire.Busy:
		refuseBusy(w, id, err)
	case errors.Is(err, ErrNoSession):
		refuse(w, http.StatusNotFound, id, err)
	default:
		refuse(w, status, id, err)
	}
	return nil
}

// An Adoption is what a session is restored from, beside what its id contains.
type Adoption struct {
	Epoch        int64  // number of adoptions
	Level        string // of log messages
	Capabilities json.RawMessage
}

// Adopt restores a session of another replica for a request that names it. ready is called before other requests can
// find the session; if it returns an error, the session ends.
func (v *Server) Adopt(r *http.Request, said *IDSession, a Adoption, ready func(*Session) error) (*Session, error) {
	c := &Client{Principal: v.principal(r), Profile: said.Profile, Revision: said.Revision, Capabilities: a.Capabilities, Info: said.Info}
	s := &Session{ID: said.ID, Text: r.Header.Get(wire.HeaderSession), Client: c, opened: v.sealer.Load(), used: time.Now(), begun: true, ready: true, logLevel: a.Level}
	c.Session, s.streams = s, newSet(&v.streams, "e"+strconv.FormatInt(a.Epoch, 10)+".")
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

// Lose removes a session that continues at another replica: it ends only here.
func (v *Server) Lose(s *Session) {
	v.sessions.remove(s.ID)
	s.close()
	s.Peer.Left()
}

// passOn forwards a stateless request that resumes a call suspended at another replica, and reports whether it did.
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

// MaxBody is the size limit of a request's body, in bytes.
func (v *Server) MaxBody() int64 { return v.access.Load().maxBody }
