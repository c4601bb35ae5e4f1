package proxy

import (
	"context"
	"net/http"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
)

// What of a client's request goes on to backends: who asks, the headers that the configuration
// lists, and, to a token endpoint at most, the token. They travel with the context of the
// request, as the principal does.

// outwardKey is the key of an *outward in a context.
type outwardKey struct{}

type outward struct {
	user   *credentials.User // nil: nobody
	header http.Header       // to pass on
	base   string            // where the user's browser reaches the endpoint, without a path; "" on stdio
}

// outwardRules say what a configuration lets out.
type outwardRules struct {
	headers []string // canonical names
	tokens  bool     // a backend's credentials are exchanged for those of clients
	names   bool     // a backend is told who calls
	base    string   // where browsers reach the endpoint; "": at the host that they name
}

func outwardRulesOf(cfg *config.Config) *outwardRules {
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

// outwardContext is the context of a client's request with what backends may get of it.
func (p *Proxy) outwardContext(r *http.Request, who *auth.Principal) context.Context {
	ctx, rules := r.Context(), p.outward.Load()
	if rules == nil {
		return ctx
	}
	var header http.Header
	for _, name := range rules.headers {
		if values := r.Header[name]; len(values) > 0 {
			if header == nil {
				header = http.Header{}
			}
			header[name] = values
		}
	}
	var user *credentials.User
	if who != nil && (rules.tokens || rules.names) {
		user = &credentials.User{Key: who.Key(), Issuer: who.Issuer, Subject: who.Subject}
		if rules.tokens && who.Claims != nil { // an issuer vouches for it
			user.Token, user.Expires = auth.TokenOf(r), who.Expires
		}
	}
	if user == nil && header == nil {
		return ctx
	}
	if user != nil && user.Token != "" && p.backends.Arrive(ctx, user) {
		p.rebuild() // with what was waiting for a first caller
	}
	return context.WithValue(ctx, outwardKey{}, &outward{user, header, rules.baseOf(r)})
}

// baseOf is where the browser of who sends r reaches the endpoint.
func (o *outwardRules) baseOf(r *http.Request) string {
	switch {
	case o.base != "" || !o.tokens || r.Host == "":
		return o.base
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// callerIn describes the client to a backend, for a request of ctx.
func (x *exchange) callerIn(ctx context.Context) *backends.Caller {
	c := x.caller()
	if o, ok := ctx.Value(outwardKey{}).(*outward); ok {
		c.User, c.Header = o.user, o.header
	}
	return c
}
