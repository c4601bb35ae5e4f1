package backends

import (
	"context"
	"errors"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/encode"
	"github.com/vmcp-dev/vmcp/internal/httpclient"
)

// What requests to a backend carry to say who sends them.
//
// A connection has one source of credentials from its beginning to its end: the backend's, or
// that of the principal whom it is for. Every HTTP request of it goes through roundTrip, which
// sets the credential last, over the configured headers. A credential that the backend refuses
// is forgotten, and the request is made once more with another one: 401 says that nothing was
// done.

// roundTrip makes an HTTP request with the credential of the connection, and once more where
// the backend refuses that one and there is another.
func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	if c.credential == nil {
		return c.httpConnections().RoundTrip(r)
	}
	resp, used, err := c.roundTripOnce(r)
	if err != nil || !refusesCredential(resp) {
		return resp, err
	}
	switch another, err := c.another(r.Context(), used, resp); {
	case err != nil:
		return nil, err
	case !another || !rewind(r):
		return resp, nil
	}
	discard(resp.Body)
	c.b.log.Debug("credential refused, one more is tried", "status", resp.StatusCode)
	resp, used, err = c.roundTripOnce(r)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		if _, err = c.another(r.Context(), used, resp); err != nil {
			return nil, err
		}
	}
	return resp, err
}

// refusesCredential reports whether an answer may be about the credential. Nothing was done then.
func refusesCredential(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// another reports whether there is another credential than the one that resp refuses. The error
// says which login is needed; resp is closed then.
func (c *conn) another(ctx context.Context, used credentials.Credential, resp *http.Response) (bool, error) {
	if resp.StatusCode == http.StatusUnauthorized {
		return c.credential.Refused(used), nil
	}
	is, err := credentials.Insufficient(c.credential, used, resp)
	if err != nil {
		discard(resp.Body)
		return false, c.b.noCredential(ctx, err)
	}
	return is, nil
}

// rewind makes a request one that can be sent again; false where it cannot.
func rewind(r *http.Request) bool {
	if r.GetBody == nil {
		return true
	}
	body, err := r.GetBody()
	if err == nil {
		r.Body = body
	}
	return err == nil
}

func (c *conn) roundTripOnce(r *http.Request) (*http.Response, credentials.Credential, error) {
	credential, err := c.credential.Get(r.Context())
	if err != nil {
		return nil, credential, c.b.noCredential(r.Context(), err)
	}
	with := *r
	with.Header = r.Header.Clone()
	credential.Set(with.Header)
	resp, err := c.httpConnections().RoundTrip(&with)
	return resp, credential, err
}

// authenticate gives a new connection its source of credentials: that of a principal, with a
// pool of HTTP connections of its own, or, for nil, the backend's.
func (c *conn) authenticate(principal credentials.Source) {
	if principal == nil {
		c.credential = c.b.credentials.Shared()
		return
	}
	c.credential = principal
	if c.b.http != nil {
		c.http = c.b.http.Clone()
	}
}

// httpConnections is the pool of HTTP connections that c uses.
func (c *conn) httpConnections() *httpclient.Transport {
	if c.http != nil {
		return c.http
	}
	return c.b.http
}

// sourceFor is the source of credentials for the calls of caller where each principal has one;
// else nil. One can be had: a principal that gets none is refused before the backend is
// contacted.
func (b *Backend) sourceFor(ctx context.Context, caller *Caller) (credentials.Source, error) {
	if !b.credentials.PerPrincipal() {
		return nil, nil
	}
	source, err := b.credentials.For(caller.User)
	if err == nil {
		_, err = source.Get(ctx)
	}
	if err != nil {
		return nil, b.noCredential(ctx, err)
	}
	return source, nil
}

// noCredential is the error of what was not sent for want of a credential.
func (b *Backend) noCredential(ctx context.Context, err error) error {
	var reason *credentials.Error
	if errors.As(err, &reason) {
		kind := Unavailable
		if reason.Refused {
			kind = Denied
		}
		return &Error{Backend: b.name, Kind: kind, Err: reason}
	}
	return b.failure(ctx, err, false)
}

// isCredentialError reports whether err is about a credential that is not to be had, and so
// nothing that the backend did.
func isCredentialError(err error) bool {
	var reason *credentials.Error
	return errors.As(err, &reason)
}

// BeginLogin asks a principal for a login that a call of it needs. base is where browsers reach
// this endpoint, without a path.
func (s *Set) BeginLogin(need *credentials.LoginNeeded, base string) (*credentials.PendingLogin, error) {
	for _, b := range s.All() {
		if b.name == need.Backend {
			return s.credentials.Begin(b.cfg, *need, base)
		}
	}
	return nil, errClosed
}

// PendingLogin is the login that a principal was asked for; nil when there is none of this id.
func (s *Set) PendingLogin(id string, user *credentials.User) *credentials.PendingLogin {
	return s.credentials.Pending(id, user)
}

// ServeLogin serves the pages of logins that principals are asked for.
func (s *Set) ServeLogin(w http.ResponseWriter, r *http.Request) { s.credentials.ServeHTTP(w, r) }

// passedHeader is what of the client's own headers goes on with a call. The headers of the
// configuration and of the protocol take the place of its.
func (c *call) passedHeader() http.Header {
	if c.caller == nil {
		return nil
	}
	return c.caller.Header
}

// principal is who calls, where the configuration wants the backend to know.
func (c *call) principal() *encode.Principal {
	if !c.conn.b.cfg.PassPrincipal || c.caller == nil || c.caller.User == nil {
		return nil
	}
	return &encode.Principal{Issuer: c.caller.User.Issuer, Subject: c.caller.User.Subject}
}
