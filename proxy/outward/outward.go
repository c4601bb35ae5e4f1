// Package outward is what of a client's request goes on to backends: who asks, the headers that the configuration
// lists, and, to a token endpoint at most, the token. They travel with the context of the request, as the principal
// does.
package outward

import (
	"context"
	"net/http"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
)

// key is the key of a *Request in a context.
type key struct{}

// Request is what goes on of a request.
type Request struct {
	User   *credentials.User // nil: nobody
	Header http.Header       // to pass on
	Base   string            // where the user's browser reaches the endpoint, without a path; "" on stdio
}

// Of is what goes on of the request that ctx belongs to; nothing where nothing does.
func Of(ctx context.Context) Request {
	if r, ok := ctx.Value(key{}).(*Request); ok {
		return *r
	}
	return Request{}
}

// Rules say what a configuration lets out.
type Rules struct {
	headers []string // canonical names
	tokens  bool     // a backend's credentials are exchanged for those of clients
	names   bool     // a backend is told who calls
	base    string   // where browsers reach the endpoint; "": at the host that they name
}

// RulesOf are the rules of a configuration.
func RulesOf(cfg *config.Config) *Rules {
	o := &Rules{base: cfg.BrowsersAt()}
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

// PerPrincipal reports whether a backend's credentials are those of principals. There are no rules before the first
// configuration: o may be nil.
func (o *Rules) PerPrincipal() bool { return o != nil && o.tokens }

// Context is the context of a client's request with what backends may get of it.
func (o *Rules) Context(r *http.Request, who *auth.Principal) context.Context {
	ctx := r.Context()
	if o == nil {
		return ctx
	}
	user, header := o.user(r, who), o.header(r)
	if user == nil && header == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, &Request{user, header, o.baseOf(r)})
}

// header are the headers of r that are passed on.
func (o *Rules) header(r *http.Request) (header http.Header) {
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

// user is who sends r, as far as backends need to know; nil for nobody.
func (o *Rules) user(r *http.Request, who *auth.Principal) *credentials.User {
	if who == nil || !o.tokens && !o.names {
		return nil
	}
	user := &credentials.User{Key: who.Key(), Issuer: who.Issuer, Subject: who.Subject}
	if o.tokens && who.Claims != nil { // an issuer vouches for it
		user.Token, user.Expires = auth.TokenOf(r), who.Expires
	}
	return user
}

// baseOf is where the browser of who sends r reaches the endpoint.
func (o *Rules) baseOf(r *http.Request) string {
	switch {
	case o.base != "" || !o.tokens || r.Host == "":
		return o.base
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
