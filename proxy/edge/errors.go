package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ErrCancelled is the response to a request that was cancelled by its client, or by the end of the client's session.
var ErrCancelled = wire.Errorf(wire.RequestCancelled, "request cancelled")

// errCut answers a request that was broken off by the end of the process; see Cut.
var errCut = &wire.Error{
	Code: wire.InternalError, Message: "the server is shutting down: the call was cancelled before its response came",
	Data: json.RawMessage(`{"reason":"stopping"}`),
}

// A Refusal is an error of the proxy itself, never of a backend. It has an HTTP status for clients of every revision.
// In a batch, on a stream and on stdio it is the JSON-RPC error alone.
type Refusal struct {
	Err    *wire.Error
	Status int
	Header http.Header // to add to the response; nil for none
}

func (r *Refusal) Error() string { return r.Err.Message }

// Unwrap returns the JSON-RPC error.
func (r *Refusal) Unwrap() error { return r.Err }

// RefusalOf is err as a Refusal; nil if it is none.
func RefusalOf(err error) *Refusal {
	var r *Refusal
	errors.As(err, &r)
	return r
}

// write sets the headers of a refusal.
func (r *Refusal) write(h http.Header) {
	for name, values := range r.Header {
		h[name] = values
	}
}

// StepUp is the refusal of a call that needs a token with further scopes. The challenge lists all that are needed, so
// that the client can request them at once; profile is the client's.
func (v *Server) StepUp(scopes []string, profile string) *Refusal {
	a, h := v.access.Load().auth, http.Header{}
	refusal := a.StepUp(scopes)
	refusal.SetHeader(h, a.MetadataURL(profile))
	err := wire.Errorf(wire.Denied, "%s", refusal.Error())
	err.Data = new(jsonscan.Object).Text("error", refusal.Code).Text("scope", strings.Join(refusal.Scopes, " ")).JSON()
	return &Refusal{Err: err, Status: refusal.Status, Header: h}
}

// ClientError is a backend's error in the form for the client; a Refusal is returned unchanged.
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

// busyRetry is the Retry-After, in seconds, when an endpoint has no room.
const busyRetry = "5"

func refuseBody(w http.ResponseWriter, err error) {
	status, code := http.StatusBadRequest, wire.ParseError
	switch {
	case errors.Is(err, errTooLarge):
		status, code = http.StatusRequestEntityTooLarge, wire.InvalidRequest
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
		err = errors.New("the body did not arrive within " + bodyTime.String())
	case errors.Is(err, errBusy):
		refuseBusy(w, nil, err)
		return
	}
	w.Header().Set("Connection", "close")
	refuse(w, status, nil, wire.Errorf(code, "read request: %v", err))
}

// refuseBusy answers a request for which there is no room.
func refuseBusy(w http.ResponseWriter, id []byte, err error) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", busyRetry)
	refuse(w, http.StatusServiceUnavailable, id, wire.Errorf(wire.Busy, "%v", err))
}
