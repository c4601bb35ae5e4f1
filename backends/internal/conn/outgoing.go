package conn

import (
	"context"
	"errors"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/credentials"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
)

// Credentials and identity in requests to a backend.
//
// A connection has one source of credentials for all its life: the shared one, or that of its
// principal. Each of its HTTP requests goes through roundTrip, which sets the credential last,
// over the configured headers. A credential that the backend refuses with 401 is dropped, and the
// request is retried once with another one: with 401 nothing was executed.

// roundTrip makes an HTTP request with the credential of the connection, and retries it once
// when the backend refuses that one and there is another.
func (c *Conn) roundTrip(r *http.Request) (*http.Response, error) {
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
	c.d.o.Log.Debug("credential refused, retrying with another one", "status", resp.StatusCode)
	resp, used, err = c.roundTripOnce(r)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		if _, err = c.another(r.Context(), used, resp); err != nil {
			return nil, err
		}
	}
	return resp, err
}

// refusesCredential reports whether a response may refuse the credential. The request was not executed then.
func refusesCredential(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// another reports whether there is another credential than the one that resp refuses. An error says
// which login is needed; the body of resp is closed then.
func (c *Conn) another(ctx context.Context, used credentials.Credential, resp *http.Response) (bool, error) {
	if resp.StatusCode == http.StatusUnauthorized {
		return c.credential.Refused(used), nil
	}
	is, err := credentials.Insufficient(ctx, c.credential, used, resp)
	if err != nil {
		discard(resp.Body)
		return false, c.d.noCredential(ctx, err)
	}
	return is, nil
}

// rewind resets the body of a request for a retry; false when that is not possible.
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

func (c *Conn) roundTripOnce(r *http.Request) (*http.Response, credentials.Credential, error) {
	credential, err := c.credential.Get(r.Context())
	if err != nil {
		return nil, credential, c.d.noCredential(r.Context(), err)
	}
	with := *r
	with.Header = r.Header.Clone()
	credential.Set(with.Header)
	resp, err := c.httpConnections().RoundTrip(&with)
	return resp, credential, err
}

// authenticate sets the source of credentials of a new connection: that of a principal, with a
// separate pool of HTTP connections, or, for nil, the shared one.
func (c *Conn) authenticate(principal credentials.Source) {
	if principal == nil {
		c.credential = c.d.o.Credentials.Shared()
		return
	}
	c.credential = principal
	if c.d.http != nil {
		c.http = c.d.http.Clone()
	}
}

// httpConnections returns the pool of HTTP connections that c uses.
func (c *Conn) httpConnections() *httpclient.Transport {
	if c.http != nil {
		return c.http
	}
	return c.d.http
}

// SourceFor returns the source of credentials for the calls of user where each principal has
// one, else nil. It gets a credential first: a principal without one is refused before the
// backend is contacted.
func (d *Dialer) SourceFor(ctx context.Context, user *credentials.User) (credentials.Source, error) {
	if !d.o.Credentials.PerPrincipal() {
		return nil, nil
	}
	source, err := d.o.Credentials.For(user)
	if err == nil {
		_, err = source.Get(ctx)
	}
	if err != nil {
		return nil, d.noCredential(ctx, err)
	}
	return source, nil
}

// noCredential returns the error of a request that was not sent because there is no credential.
func (d *Dialer) noCredential(ctx context.Context, err error) error {
	var reason *credentials.Error
	if errors.As(err, &reason) {
		kind := Unavailable
		if reason.Refused {
			kind = Denied
		}
		return &Error{Backend: d.name, Kind: kind, Err: reason}
	}
	return d.Failure(ctx, err, false)
}

// IsCredentialError reports whether err is a missing credential, and so no failure of the
// backend.
func IsCredentialError(err error) bool {
	var reason *credentials.Error
	return errors.As(err, &reason)
}

// passedHeader returns the client's headers that are forwarded with a call. Headers of the
// configuration and of the protocol replace them.
func (c *call) passedHeader() http.Header {
	if c.caller == nil {
		return nil
	}
	return c.caller.Header
}

// principal returns the caller's principal where passPrincipal is configured, else nil.
func (c *call) principal() *Principal {
	if !c.conn.d.cfg.PassPrincipal || c.caller == nil || c.caller.User == nil {
		return nil
	}
	return &Principal{Issuer: c.caller.User.Issuer, Subject: c.caller.User.Subject}
}
