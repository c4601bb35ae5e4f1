package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// A Credential is one header of a request. The zero value is no credential.
type Credential struct{ Header, Value string }

// Set sets the credential in the headers of a request, replacing any value.
func (c Credential) Set(h http.Header) {
	if c.Header != "" {
		h[http.CanonicalHeaderKey(c.Header)] = []string{c.Value}
	}
}

// A Source returns the credential of one identity for one backend.
type Source interface {
	// Get returns the credential to use now. The error is an *Error, or the context's.
	Get(ctx context.Context) (Credential, error)
	// Refused is called when the backend has answered 401 to a credential. It reports whether Get may now
	// return a different one.
	Refused(Credential) bool
}

// User is the principal that a call is made for, as far as credentials need to know.
type User struct {
	// Key identifies the principal.
	Key             string
	Issuer, Subject string
	// Token is the client's bearer token if an issuer has vouched for it, else "".
	Token string
	// Expires is when the token expires; zero when that is not known.
	Expires time.Time
}

// Usable reports whether u is a user with a token that has not expired.
func (u *User) Usable(now time.Time) bool {
	return u != nil && u.Token != "" && (u.Expires.IsZero() || now.Before(u.Expires))
}

// Error is why there is no credential. Nothing in it is secret.
type Error struct {
	// Refused is set when a retry cannot help: an authorization server has refused, or a
	// login is needed. Otherwise the credential is not available now.
	Refused bool
	// Login is the login of a principal that would provide the credential; nil where none would.
	Login *LoginNeeded
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func unavailable(format string, args ...any) *Error { return &Error{Err: fmt.Errorf(format, args...)} }

func refused(format string, args ...any) *Error {
	return &Error{Refused: true, Err: fmt.Errorf(format, args...)}
}

// Options of a Pool. Zero values are fine.
type Options struct {
	Log *slog.Logger
	// Secrets is given each credential before its first use. It may be nil.
	Secrets *secret.Redactor
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// Pool has the providers of all backends and keeps them when the configuration changes.
type Pool struct {
	o      Options
	client *http.Client // for token endpoints
	ctx    context.Context
	end    context.CancelFunc
	logins logins       // of principals
	pages  http.Handler // of logins

	mu     sync.Mutex
	closed bool                      // guarded by mu: no fetch may start
	all    map[string]*Provider      // guarded by mu, by the backend's name
	at     map[string]config.Backend // guarded by mu, by name: the backends that logins are for
	kept   Keeper                    // guarded by mu: keeps the grants of logins; nil: no store is configured
	words  *board                    // guarded by mu: the notices of other replicas about logins; nil: there is one replica
	shared Keeper                    // guarded by mu: used instead of a file; nil: none
	where  config.TokenStore         // guarded by mu: the configuration that kept was opened with
	wg     sync.WaitGroup
}

// NewPool returns a pool without providers.
func NewPool(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Pool{o: o, client: issuerClient(), all: map[string]*Provider{}, at: map[string]config.Backend{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.logins = logins{pool: p, all: map[string]*PendingLogin{}, returns: map[string]*attempt{}}
	p.pages = p.logins.serveMux()
	return p
}

// Close cancels the running fetches and logins and waits for their goroutines.
func (p *Pool) Close() {
	p.end()
	p.logins.close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wg.Wait()
	p.client.CloseIdleConnections()
}

// spawn runs f on a goroutine that Close waits for; false once the pool is closed.
func (p *Pool) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}

// hide registers values as secrets with the redactor.
func (p *Pool) hide(values ...string) {
	if p.o.Secrets != nil {
		p.o.Secrets.Add(values...)
	}
}

// SetStore opens the store of a configuration for the logins of providers that are made from now on.
func (p *Pool) SetStore(cfg config.TokenStore) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared != nil {
		p.kept = p.shared
		return nil
	}
	if cfg == p.where {
		return nil
	}
	var kept Keeper
	if cfg.File != "" {
		s, err := OpenStore(cfg)
		if err != nil {
			return fmt.Errorf("tokenStore.keyEnv: %s: %w", cfg.KeyEnv, err)
		}
		kept = s
	}
	p.kept, p.where = kept, cfg
	return nil
}

// Share makes k keep the logins of providers that are made from now on, instead of a file. Replicas exchange notices
// about pending logins over b; nil: they do not.
func (p *Pool) Share(k Keeper, b Board) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared = k
	if b != nil {
		p.words = newBoard(p, b)
	}
}

// Provider returns the provider of a backend; nil for one without outgoingAuth. While strategy,
// URL, TLS and store of the backend are unchanged it returns the same provider, with its tokens.
func (p *Pool) Provider(b config.Backend) *Provider {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.Outgoing == nil {
		delete(p.all, b.Name)
		delete(p.at, b.Name)
		return nil
	}
	p.at[b.Name] = b
	if there := p.all[b.Name]; there != nil && there.store == p.kept && there.url == b.URL && there.tls == b.TLS && reflect.DeepEqual(there.strategy, b.Outgoing) {
		return there
	}
	made := newProvider(p, b)
	p.all[b.Name] = made
	return made
}

// Provider authenticates the requests to one backend. A nil *Provider has no credentials.
type Provider struct {
	strategy *config.OutgoingStrategy
	url      string // of the backend
	tls      config.BackendTLS
	store    Keeper      // of logins; nil: none
	shared   Source      // nil: none
	users    userSources // nil: principals have no credentials of their own
}

// userSources returns the source of each principal.
type userSources interface {
	of(*User) (Source, error)
}

func newProvider(p *Pool, b config.Backend) *Provider {
	s := b.Outgoing
	made := &Provider{strategy: s, url: b.URL, tls: b.TLS, store: p.kept}
	switch s.Type {
	case config.InjectHeader:
		made.shared = injected(p, s.HeaderInjection)
	case config.UseClientCredentials:
		made.shared = ownTokens(p, s.ClientCredentials)
	case config.Login:
		at := &loginAt{pool: p, client: p.client, store: p.kept, backend: b.Name, origin: originOf(b.URL)}
		if b.TLS != (config.BackendTLS{}) {
			at.client = issuerClientOf(b)
		}
		made.shared = at.granted("", needsLogin(b.Name))
		if s.OAuth.PerUser {
			made.users = &userLogins{at: at}
		}
	case config.ExchangeToken:
		made.users = newExchanger(p, s.TokenExchange)
		switch d := s.TokenExchange.Discovery; d.Type {
		case config.InjectHeader:
			made.shared = injected(p, d.HeaderInjection)
		case config.UseClientCredentials:
			made.shared = ownTokens(p, d.ClientCredentials)
		}
	}
	return made
}

// Shared is the source for shared connections; nil where these have no credential.
func (p *Provider) Shared() Source {
	if p == nil {
		return nil
	}
	return p.shared
}

// PerPrincipal reports whether each principal has its own credential; principals then share no
// connection.
func (p *Provider) PerPrincipal() bool { return p != nil && p.users != nil }

// NeedsCaller reports whether even shared work, such as listing tools, needs the credential of a principal.
func (p *Provider) NeedsCaller() bool {
	return p.PerPrincipal() && p.shared == nil && p.strategy.Type == config.ExchangeToken && p.strategy.TokenExchange.Discovery.Type == ""
}

// For returns the source for calls of a principal.
func (p *Provider) For(u *User) (Source, error) {
	if !p.PerPrincipal() {
		return p.Shared(), nil
	}
	return p.users.of(u)
}
