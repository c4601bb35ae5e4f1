package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// Authentication.
//
// A request is authenticated once, before its body is read. Its principal is in its context. Sessions, states, streams,
// tasks and connections belong to a principal's key; for another principal the response is the same as if they did not
// exist.

type principalKey struct{}

// authenticate finds the principal of a request. If it refuses the request, it answers it and returns false.
func (v *Server) authenticate(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	a := v.access.Load().auth
	who, err := a.AuthenticateAt(profileOf(r), r)
	if err != nil {
		v.refuseAccess(w, r, a, err)
		return nil, false
	}
	ctx := v.within(r, who)
	switch {
	case who != nil:
		ctx = context.WithValue(ctx, principalKey{}, who)
	case ctx == r.Context():
		return r, true
	}
	return r.WithContext(ctx), true
}

// refuseAccess answers with the challenge of a refusal.
func (v *Server) refuseAccess(w http.ResponseWriter, r *http.Request, a *auth.Authenticator, err error) {
	var refusal *auth.Refusal
	if !errors.As(err, &refusal) {
		refusal = &auth.Refusal{Status: http.StatusServiceUnavailable, Cause: err}
	}
	v.refused(refusal)
	v.turned(r, refusal.Status, refusal.Error())
	refusal.SetHeader(w.Header(), a.MetadataURL(profileOf(r)))
	refuse(w, refusal.Status, nil, wire.Errorf(wire.InvalidRequest, "%s", refusal.Error()))
}

// PrincipalOf is the principal of the request to which ctx belongs; nil is anonymous.
func PrincipalOf(ctx context.Context) *auth.Principal {
	who, _ := ctx.Value(principalKey{}).(*auth.Principal)
	return who
}

// WithPrincipal is ctx with a principal; nil is anonymous.
func WithPrincipal(ctx context.Context, who *auth.Principal) context.Context {
	if who == nil {
		return ctx
	}
	return context.WithValue(ctx, principalKey{}, who)
}

// principal is the key of a request's principal; "" is anonymous.
func (v *Server) principal(r *http.Request) string { return PrincipalOf(r.Context()).Key() }

// whileTrusted is the context of a long request: it also ends when the credential expires.
func (v *Server) whileTrusted(r *http.Request) (context.Context, func()) {
	return v.access.Load().auth.Watch(r.Context(), PrincipalOf(r.Context()), auth.TokenOf(r))
}

// whileListening is the context of a request on which a client only listens: it also ends when the credential expires,
// when the profile is removed, and with Drain.
func (v *Server) whileListening(r *http.Request) (context.Context, func()) {
	trusted, done := v.whileTrusted(r)
	there, left := v.access.Load().lives.While(trusted, profileOf(r))
	ctx, cancel := v.untilDrained(there)
	return ctx, func() { cancel(); left(); done() }
}

// untilDrained is ctx, ended also by Drain.
func (v *Server) untilDrained(ctx context.Context) (context.Context, func()) {
	return until(ctx, v.listening)
}

// until is ctx, ended also by the end of other, and then with its cause.
func until(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

// authenticator makes the authenticator of a configuration, or keeps the old one if nothing about it changed.
func authenticator(cfg *config.Config, old *access, log *slog.Logger) (*auth.Authenticator, error) {
	if old != nil && reflect.DeepEqual(old.incoming.Authentication(), cfg.IncomingAuth.Authentication()) {
		return old.auth, nil
	}
	return auth.New(cfg.IncomingAuth, auth.Options{Log: log})
}

// Verify checks the token of a client on stdio, which has it from the environment. Without authentication no token is
// needed. Requests on stdio come from the principal that was verified last.
func (v *Server) Verify(ctx context.Context, token string) error {
	a := v.access.Load().auth
	var who *auth.Principal
	var err error
	if a.Open() {
		who = a.Unasked()
	} else {
		who, err = a.VerifyAt(ctx, v.profile, token)
	}
	if err == nil {
		v.pipe.Store(who)
	}
	return err
}

// onPipe is the context of a request on stdio.
func (v *Server) onPipe(ctx context.Context) context.Context {
	if who := v.pipe.Load(); who != nil {
		return context.WithValue(ctx, principalKey{}, who)
	}
	return ctx
}
