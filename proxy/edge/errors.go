package edge

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
)

// ErrCancelled answers a request that was cancelled: by its client, or by the end of the
// client's session.
var ErrCancelled = wire.Errorf(wire.RequestCancelled, "request cancelled")

// A Refusal is an error that we answer with, never a backend: it has an HTTP status of its own
// for clients of every revision. In a batch, on a stream and on stdio it is the JSON-RPC error.
type Refusal struct {
	Err    *wire.Error
	Status int
	Header http.Header // to set; nil for none
}

func (r *Refusal) Error() string { return r.Err.Message }

// Unwrap returns the JSON-RPC error.
func (r *Refusal) Unwrap() error { return r.Err }

// RefusalOf is the refusal that err is; nil if it is none.
func RefusalOf(err error) *Refusal {
	var r *Refusal
	errors.As(err, &r)
	return r
}

// write sets what a refusal wants of the answer's header.
func (r *Refusal) write(h http.Header) {
	for name, values := range r.Header {
		h[name] = values
	}
}

// StepUp is the refusal of what a token with further scopes may do: a challenge names all that
// are needed, so that the client can ask for them at once; profile is the one that it uses.
func (v *Server) StepUp(scopes []string, profile string) *Refusal {
	a, h := v.access.Load().auth, http.Header{}
	refusal := a.StepUp(scopes)
	refusal.SetHeader(h, a.MetadataURL(profile))
	err := wire.Errorf(wire.Denied, "%s", refusal.Error())
	err.Data = new(jsonscan.Object).Text("error", refusal.Code).Text("scope", strings.Join(refusal.Scopes, " ")).JSON()
	return &Refusal{Err: err, Status: refusal.Status, Header: h}
}

// ClientError is a backend's failure as the client sees it, and a Refusal as it is.
func ClientError(err error) error {
	if r := RefusalOf(err); r != nil {
		return r
	}
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc
	}
	var be *backends.Error
	if errors.As(err, &be) {
		e := wire.Errorf(wire.InternalError, "%v", be)
		e.Data = new(jsonscan.Object).Text("backend", be.Backend).Text("kind", be.Kind.String()).JSON()
		return e
	}
	if errors.Is(err, context.Canceled) {
		return ErrCancelled
	}
	return err
}

// busyRetry is the Retry-After of a refusal for want of room.
const busyRetry = "5"

func refuseBody(w http.ResponseWriter, err error) {
	status, code := http.StatusBadRequest, wire.ParseError
	switch {
	case errors.Is(err, body.ErrTooLarge):
		status, code = http.StatusRequestEntityTooLarge, wire.InvalidRequest
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
		err = errors.New("the body did not come within " + body.Time.String())
	case errors.Is(err, body.ErrBusy):
		refuseBusy(w, nil, err)
		return
	}
	w.Header().Set("Connection", "close")
	refuse(w, status, nil, wire.Errorf(code, "read request: %v", err))
}

// refuseBusy answers a request for which there is no room now.
func refuseBusy(w http.ResponseWriter, id []byte, err error) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", busyRetry)
	refuse(w, http.StatusServiceUnavailable, id, wire.Errorf(wire.Busy, "%v", err))
}
