package proxy

import (
	"context"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// This part of the package is the part of a client's request that may be passed on to backends: the user, the configured
// headers, and the token, which goes to token endpoints only. It is in the context of the request, like the principal.

// outwardKey is the context key of a *Request.
type outwardKey struct{}

// outwardRequest is what may be passed on of a request.
type outwardRequest struct {
	User   *credentials.User // nil: anonymous
	Header http.Header       // headers to pass on
	Base   string            // URL without path at which the user's browser reaches the endpoint; "" on stdio
}

// outwardOf returns the Request of ctx; the zero value if there is none.
func outwardOf(ctx context.Context) outwardRequest {
	if r, ok := ctx.Value(outwardKey{}).(*outwardRequest); ok {
		return *r
	}
	return outwardRequest{}
}

// outwardRules are the settings of a configuration about that.
type outwardRules struct {
	headers []string // canonical names
	tokens  bool     // a backend's credentials are exchanged for those of principals
	names   bool     // a backend gets the name of the user
	base    string   // where browsers reach the endpoint; "": at the Host of the request
}

// rulesOf returns the rules of a configuration.
func rulesOf(cfg *config.Config) *outwardRules {
	o := &outwardRules{base: cfg.BrowsersAt()}
	for _, name := range cfg.PassthroughHeaders {
		o.headers = append(o.headers, http.CanonicalHeaderKey(name))
	}
	for i := range cfg.Backends {
		b := &cfg.Backends[i]
		o.tokens = o.tokens || b.Outgoing.PerPrincipal()
		o.names = o.names || b.PassPrincipal
	}
	return o
}

// PerPrincipal reports whether a backend uses credentials of principals. o is nil before the first configuration.
func (o *outwardRules) PerPrincipal() bool { return o != nil && o.tokens }

// Context adds the Request to the context of a client's request.
func (o *outwardRules) Context(r *http.Request, who *auth.Principal) context.Context {
	ctx := r.Context()
	if o == nil {
		return ctx
	}
	user, header := o.user(r, who), o.header(r)
	if user == nil && header == nil {
		return ctx
	}
	return context.WithValue(ctx, outwardKey{}, &outwardRequest{user, header, o.baseOf(r)})
}

// header returns the headers of r to pass on.
func (o *outwardRules) header(r *http.Request) (header http.Header) {
	for _, name := range o.headers {
		if values := r.Header[name]; len(values) > 0 {
			if header == nil {
				header = http.Header{}
			}
			header[name] = values
		}
	}
	return header
}

// user is the user of r, as far as backends need to know; nil if anonymous.
func (o *outwardRules) user(r *http.Request, who *auth.Principal) *credentials.User {
	if who == nil || !o.tokens && !o.names {
		return nil
	}
	user := &credentials.User{Key: who.Key(), Issuer: who.Issuer, Subject: who.Subject}
	if o.tokens && who.Claims != nil { // verified by an issuer
		user.Token, user.Expires = auth.TokenOf(r), who.Expires
	}
	return user
}

// baseOf is where the browser of r's user reaches the endpoint.
func (o *outwardRules) baseOf(r *http.Request) string {
	switch {
	case o.base != "" || !o.tokens || r.Host == "":
		return o.base
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
