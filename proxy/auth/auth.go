// Package auth authenticates requests. It knows HTTP and credentials, not MCP: static bearer
// tokens of a file, JWTs of an issuer, opaque tokens by introspection, and client certificates
// are verified to a [Principal], or to a [Refusal] with the HTTP response.
//
//	a, err := auth.New(cfg.IncomingAuth, auth.Options{Log: log})
//	defer a.Close()
//	principal, err := a.Authenticate(r)
//	var refusal *auth.Refusal
//	if errors.As(err, &refusal) {
//		refusal.SetHeader(w.Header(), a.MetadataURL(""))
//	}
//
// Tokens are looked up by their SHA-256 in a bounded cache of verdicts; only a miss costs a
// signature check or an introspection. A verdict ends with the token, after five minutes, when
// the key that signed the token is withdrawn, and when the tokens file changes.
package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

// Options of an Authenticator. Zero values are fine.
type Options struct {
	Log *slog.Logger
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Look is the interval at which the tokens file is checked for changes; a second by default.
	Look time.Duration
}

// Authenticator authenticates requests. It is safe for concurrent use.
type Authenticator struct {
	cfg        config.IncomingAuth
	log        *slog.Logger
	now        func() time.Time
	look       time.Duration
	tokens     *tokenTable   // nil: no static tokens
	own        *tokenTable   // the token of this machine's user; nil: none is required
	jwt        *jwtVerifier  // nil: no issuer
	introspect *introspector // nil: no introspection, opaque tokens are refused
	mtls       bool
	required   []string // scopes
	verdicts   verdicts
	watchers   watchers

	end  context.CancelFunc
	done sync.WaitGroup
}

// New makes an authenticator of a configuration that has been validated. It does not
// contact the issuer: while that is down, only its own tokens are refused.
func New(cfg config.IncomingAuth, o Options) (*Authenticator, error) {
	a := &Authenticator{cfg: cfg, log: o.Log, now: o.Now, look: cmp.Or(o.Look, time.Second)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.mtls = cfg.Type == "mtls" || cfg.MTLS.Subject != ""
	if cfg.Tokens.File != "" {
		var err error
		if a.tokens, err = openTokens(cfg.Tokens.File, ReadTokens, a.tokensChanged); err != nil {
			return nil, err
		}
	}
	if cfg.TokenFile != "" {
		var err error
		if a.own, err = openTokens(cfg.TokenFile, readOwnToken, a.tokensChanged); err != nil {
			return nil, err
		}
	}
	if cfg.Type == "oidc" {
		if err := a.openIssuer(); err != nil {
			return nil, err
		}
	}
	ctx, end := context.WithCancel(context.Background())
	a.end = end
	if !a.Open() {
		a.done.Go(func() { a.watch(ctx) })
	}
	if a.jwt != nil {
		a.done.Go(func() { a.watchIssuer(ctx) })
	}
	return a, nil
}

// Check returns the error of New for a configuration: a file that is missing or invalid.
func Check(cfg config.IncomingAuth) error {
	a, err := New(cfg, Options{})
	if err != nil {
		return fmt.Errorf("incomingAuth: %w", err)
	}
	a.Close()
	return nil
}

// Close ends the authenticator's goroutines and all watched contexts.
func (a *Authenticator) Close() {
	a.end()
	a.done.Wait()
	a.watchers.endAll()
}

// Open reports whether no credential is required: clients are anonymous, or the user of this
// machine.
func (a *Authenticator) Open() bool {
	return a.own == nil && a.asksNobody()
}

// asksNobody reports whether the configured type requires no credential.
func (a *Authenticator) asksNobody() bool {
	return a.cfg.Type == "" || a.cfg.Type == "anonymous" || a.cfg.Type == "local"
}

// Authenticate returns the principal of a request; nil, anonymous, without authentication.
// The error is a *Refusal.
func (a *Authenticator) Authenticate(r *http.Request) (*Principal, error) {
	return a.AuthenticateAt("", r)
}

func (a *Authenticator) authenticate(r *http.Request) (*Principal, error) {
	if a.Open() {
		return a.Unasked(), nil
	}
	token, refusal := bearer(r)
	if refusal != nil {
		return nil, a.challenged(refusal)
	}
	if token != "" {
		return a.verify(r.Context(), token)
	}
	if a.mtls {
		return a.fromCertificate(r)
	}
	return nil, a.challenged(errNoCredential)
}

// Unasked returns the principal of requests where no credential is required: the user of this
// machine, or nil.
func (a *Authenticator) Unasked() *Principal {
	if a.cfg.Type == "local" {
		return local()
	}
	return nil
}

// fromCertificate returns the principal of the client certificate of a request's
// connection. It checks the expiry, because a connection may outlive its certificate.
func (a *Authenticator) fromCertificate(r *http.Request) (*Principal, error) {
	p, err := certified(r, a.cfg.MTLS.Subject)
	if err == nil && p != nil {
		if a.now().Before(p.Expires) {
			return a.enough(p)
		}
		err = fmt.Errorf("the client certificate of %s has expired", p.Subject)
	}
	if a.cfg.Type == "mtls" {
		return nil, errNoCertificate.because(err)
	}
	return nil, a.challenged(errNoCredential).because(err)
}

// challenged returns a 401 refusal with the scopes that a token needs.
func (a *Authenticator) challenged(r *Refusal) *Refusal {
	if r.Status != http.StatusUnauthorized {
		return r
	}
	c := *r
	c.Scopes = a.advertised()
	return &c
}

// Verify returns the principal of a bearer token. The error is a *Refusal.
func (a *Authenticator) Verify(ctx context.Context, token string) (*Principal, error) {
	return a.VerifyAt(ctx, "", token)
}

func (a *Authenticator) verify(ctx context.Context, token string) (*Principal, error) {
	if token == "" && a.cfg.Type == "mtls" {
		return nil, errNoCertificate
	}
	if token == "" {
		return nil, a.challenged(errNoCredential)
	}
	hash := sha256.Sum256([]byte(token))
	v, epoch, ok := a.verdicts.find(hash, a.now())
	if !ok {
		v = a.judge(ctx, hash, token)
		if v.until.After(a.now()) {
			a.verdicts.put(hash, v, epoch)
		}
	}
	if v.refusal != nil {
		return nil, a.challenged(v.refusal)
	}
	return a.enough(v.principal)
}

// enough refuses a principal without the required scopes.
func (a *Authenticator) enough(p *Principal) (*Principal, error) {
	if len(a.required) == 0 || p.HasScopes(a.required) {
		return p, nil
	}
	return nil, a.StepUp(nil)
}

// StepUp returns the refusal (403, insufficient_scope) of an operation that needs these
// scopes, in addition to those that every request needs.
func (a *Authenticator) StepUp(scopes []string) *Refusal {
	return &Refusal{
		Status: http.StatusForbidden, Code: insufficientScope, Description: "more scopes are needed",
		Scopes: union(a.required, scopes),
	}
}

// advertised returns the scopes that a challenge names.
func (a *Authenticator) advertised() []string { return union(a.cfg.OIDC.Scopes, a.required) }

func union(a, b []string) []string {
	seen, out := map[string]bool{}, []string(nil)
	for _, list := range [][]string{a, b} {
		for _, s := range list {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// judge verifies a token without a cached verdict. A verdict that must not be cached has no
// until.
func (a *Authenticator) judge(ctx context.Context, hash [sha256.Size]byte, token string) verdict {
	now := a.now()
	if a.tokens != nil {
		if t, ok := a.tokens.find(hash); ok {
			if !t.Expires.IsZero() && !now.Before(t.Expires) {
				return verdict{refusal: errExpired}
			}
			return verdict{principal: t.principal(), until: earlier(now.Add(verdictLife), t.Expires)}
		}
	}
	if _, ok := a.own.find(hash); ok {
		return verdict{principal: ownPrincipal(hash, a.required), until: now.Add(verdictLife)}
	}
	switch {
	case a.jwt != nil && looksLikeJWT(token):
		p, key, err := a.jwt.verify(ctx, token)
		if err != nil {
			return verdict{refusal: refusalOf(err)}
		}
		until := earlier(now.Add(verdictLife), a.jwt.keys.due())
		return verdict{principal: p, until: earlier(until, p.Expires), keyID: key}
	case a.introspect != nil:
		p, life, err := a.introspect.ask(ctx, string(hash[:]), token)
		if err != nil {
			r := refusalOf(err)
			v := verdict{refusal: r}
			if r.Status == http.StatusUnauthorized {
				v.until = now.Add(refusedLife)
			}
			return v
		}
		return verdict{principal: p, until: earlier(now.Add(min(life, verdictLife)), p.Expires)}
	}
	return verdict{refusal: errUnknown}
}

// earlier returns the earlier of two times, of which b may be zero.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// openIssuer sets up the verification of the configured issuer's tokens.
func (a *Authenticator) openIssuer() error {
	o := a.cfg.OIDC
	client, err := issuerClient(o)
	if err != nil {
		return err
	}
	names := claimNames{subject: o.SubjectClaim, groups: []string{"groups", "roles", "cognito:groups"}, role: a.cfg.Authz.RoleClaimName}
	if names.subject == "" {
		names.subject = "sub"
	}
	if name := a.cfg.Authz.GroupClaimName; name != "" {
		names.groups = []string{name}
	}
	var accepted audiences
	for _, s := range []string{o.Audience, o.Resource} {
		if s != "" {
			accepted.endpoint = append(accepted.endpoint, s)
		}
	}
	if a.MetadataURL("") != "" {
		accepted.below = strings.TrimSuffix(a.resource(), "/") + "/"
	}
	a.required = o.RequiredScopes
	skew := o.ClockSkew.Std()
	a.jwt = &jwtVerifier{
		keys:   &keySet{issuer: o.Issuer, url: o.JWKSURL, client: client, every: o.JWKSRefresh.Std(), dropped: a.keysDropped, now: a.now},
		issuer: o.Issuer, audiences: accepted, clientID: o.ClientID, algorithms: algorithms(o.Algorithms), skew: skew, claims: names, now: a.now,
	}
	if o.IntrospectionURL != "" {
		a.introspect = &introspector{
			url: o.IntrospectionURL, client: client, clientID: o.ClientID, secret: o.Secret, issuer: o.Issuer, audiences: accepted,
			cache: o.IntrospectionCache.Std(), claims: names, skew: skew, now: a.now, clients: o.IntrospectionClients,
			withoutAudience: func() {
				a.log.Warn("a token was refused because the issuer's introspection response does not say whom it is for, as all such tokens are: have the issuer put aud into it, or see incomingAuth.oidc.introspectionAudience", "issuer", o.Issuer)
			},
		}
	}
	return nil
}

// tokensChanged drops all verdicts, because they do not show which of them are for tokens of the file.
func (a *Authenticator) tokensChanged() {
	a.verdicts.forget(func(verdict) bool { return true })
}

// keysDropped drops the verdicts on tokens that withdrawn keys have signed.
func (a *Authenticator) keysDropped(gone map[string]bool) {
	a.verdicts.forget(func(v verdict) bool {
		return v.keyID == "" && v.principal != nil && v.principal.Claims != nil || gone[v.keyID]
	})
}
