package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// LoginNeeded is the login of a principal that would provide a missing credential.
type LoginNeeded struct {
	Backend string
	User    *User
	// Scopes are requested in addition to those of the configuration.
	Scopes []string
}

// NeededLogin returns the login that err says is needed; nil for any other error.
func NeededLogin(err error) *LoginNeeded {
	var reason *Error
	if errors.As(err, &reason) {
		return reason.Login
	}
	return nil
}

// loginAt has what all logins at one backend share.
type loginAt struct {
	pool    *Pool
	client  *http.Client // for the token endpoint
	store   Keeper
	backend string
	origin  string // of the backend's URL: tokens for another origin are not sent to it
}

// granted is the source of the tokens of a login, of this proxy itself or of one principal. They are
// in the store, which other processes change, too (vmcp login, vmcp logout, replicas). See the
// package comment.
type granted struct {
	tokens
	*loginAt
	principal string
	needs     func(scopes []string) *Error // the error for no token, or none with these scopes

	mu      sync.Mutex
	refused string    // guarded by mu: the access token that the backend refused last
	looked  time.Time // guarded by mu: when the token was last compared with the store
	spent   string    // guarded by mu: the refresh token that the authorization server refused last
	retryAt time.Time // guarded by mu: when it may be sent once more
}

// granted returns the source of a principal's tokens; "" is this proxy itself.
func (l *loginAt) granted(principal string, needs func(scopes []string) *Error) *granted {
	s := &granted{loginAt: l, principal: principal, needs: needs}
	s.tokens.pool, s.tokens.fetch = l.pool, s.renew
	return s
}

// needsLogin returns the error for a missing login of this proxy itself.
func needsLogin(backend string) func([]string) *Error {
	return func(scopes []string) *Error {
		if len(scopes) == 0 {
			return refused("needs login: vmcp login %s", backend)
		}
		return refused(`needs a login with more scopes: vmcp login %s --scope "%s"`, backend, strings.Join(scopes, " "))
	}
}

// userLogins has the logins of principals at one backend.
type userLogins struct {
	at    *loginAt
	users users[*granted]
}

var errNobody = refused("this backend needs a login of each principal, and this caller is not authenticated; configure incomingAuth")

func (l *userLogins) of(u *User) (Source, error) {
	if u == nil || u.Key == "" {
		return nil, errNobody
	}
	return l.users.of(u.Key, func() (*granted, error) {
		who := &User{Key: u.Key, Issuer: u.Issuer, Subject: u.Subject}
		return l.at.granted(u.Key, func(scopes []string) *Error {
			e := refused("%s has to log in at this backend", who.Subject)
			e.Login = &LoginNeeded{Backend: l.at.backend, User: who, Scopes: scopes}
			return e
		}), nil
	})
}

// Get implements Source.
func (s *granted) Get(ctx context.Context) (Credential, error) {
	now := s.loginAt.pool.o.Now()
	s.mu.Lock()
	due := now.Sub(s.looked) >= lookEvery
	if due {
		s.looked = now
	}
	s.mu.Unlock()
	switch {
	case !due:
	case s.store != nil && s.store.remote():
		s.loginAt.pool.spawn(func() { s.dropStaleLater(s.current()) })
	default:
		s.dropStale(ctx, s.current())
	}
	return s.tokens.Get(ctx)
}

// dropStaleLater is dropStale in the background.
func (s *granted) dropStaleLater(value string) {
	ctx, cancel := context.WithTimeout(s.loginAt.pool.ctx, issuerTimeout)
	defer cancel()
	s.dropStale(ctx, value)
}

// current returns the token in memory; "" for none.
func (s *granted) current() string {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return s.tokens.now.value
}

// dropStale drops the token value from memory if the store has a different one or none. It
// reports whether the store has a different one.
func (s *granted) dropStale(ctx context.Context, value string) bool {
	if value == "" || s.store == nil {
		return false
	}
	g, err := s.store.Find(ctx, s.backend, s.principal)
	if err != nil || g != nil && g.Access == value {
		return false // while the store cannot be read, the token stays in use
	}
	s.tokens.Refused(bearer(value))
	return g != nil
}

// Refused implements Source.
func (s *granted) Refused(c Credential) bool {
	if value := s.current(); bearer(value) == c {
		s.mu.Lock()
		s.refused = value
		s.mu.Unlock()
	}
	return s.tokens.Refused(c)
}

// Insufficient is called when a backend has answered 403 to a credential. If the response says
// insufficient_scope (RFC 6750, section 3.1) and the source is a login, it reports that another
// credential is available by now, or returns an error with the login that is needed.
func Insufficient(ctx context.Context, s Source, c Credential, resp *http.Response) (another bool, err error) {
	login, ok := s.(*granted)
	if !ok || resp.StatusCode != http.StatusForbidden {
		return false, nil
	}
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header["Www-Authenticate"])
	if err != nil {
		return false, nil
	}
	for _, ch := range challenges {
		if ch.Scheme == "bearer" && ch.Params["error"] == "insufficient_scope" {
			if value := login.current(); bearer(value) != c || login.dropStale(ctx, value) {
				return true, nil
			}
			return false, login.needs(scopesIn(ch.Params["scope"]))
		}
	}
	return false, nil
}

// scopeName matches scopes that are safe to show in a message and in a shell command.
var scopeName = regexp.MustCompile(`^[A-Za-z0-9._:/+@=~-]+$`)

const maxScopeName = 200

// maxScopes bounds the scopes of one challenge.
const maxScopes = 50

func scopesIn(text string) []string {
	scopes := slices.DeleteFunc(strings.Fields(text), func(s string) bool { return len(s) > maxScopeName || !scopeName.MatchString(s) })
	return scopes[:min(len(scopes), maxScopes)]
}

// renew fetches the token: from the store, or, where that one has ended or was refused, from the
// authorization server, holding the lock of the grant. A new grant is stored before it is used:
// after rotation its refresh token is the only valid one.
func (s *granted) renew(ctx context.Context) (t token, err error) {
	if s.store == nil {
		return token{}, unavailable("no tokenStore is configured")
	}
	g, err := s.store.Find(ctx, s.backend, s.principal)
	if err != nil {
		return token{}, unavailable("%w", err)
	}
	if t, g, err = s.usable(g); g == nil {
		return t, err
	}
	err = s.store.renew(ctx, s.backend, s.principal, func(g *Grant) (*Grant, error) {
		var err error
		if t, g, err = s.usable(g); g == nil { // another process was first
			return nil, err
		}
		if g, err = s.refresh(ctx, g); err == nil {
			t = lasting(g.Access, s.loginAt.pool.o.Now(), g.Expires)
		}
		return g, err
	})
	if err != nil {
		return token{}, err
	}
	return t, nil
}

// idOf returns a short hash of a grant's backend and principal, for names of lock files.
func idOf(backend, principal string) string {
	sum := sha256.Sum256(record{Backend: backend, Principal: principal}.bound())
	return hex.EncodeToString(sum[:6])
}

// usable returns the token of a stored grant if it can be used, else the grant, to be renewed, or the error
// that a login is needed.
func (s *granted) usable(g *Grant) (token, *Grant, error) {
	if g == nil || g.Resource != "" && originOf(g.Resource) != s.origin { // none, or one for a previous URL of the backend
		return token{}, nil, s.needs(nil)
	}
	now := s.loginAt.pool.o.Now()
	s.mu.Lock()
	bad, ended := s.refused, g.Refresh == s.spent && now.Before(s.retryAt)
	s.mu.Unlock()
	s.loginAt.pool.hide(g.Access, g.Refresh, g.ClientSecret)
	switch {
	case g.Access == bad:
	case g.Expires.IsZero():
		return lasting(g.Access, now, time.Time{}), nil, nil
	case now.Before(g.Renew), g.Refresh == "" && now.Before(g.Expires):
		return token{g.Access, g.Renew, g.Expires}, nil, nil
	}
	if g.Refresh == "" || ended {
		return token{}, nil, s.needs(nil)
	}
	return token{}, g, nil
}

// refusedTime is how long a refresh token that was refused is not sent again: calls get the login that is needed at once.
const refusedTime = time.Minute

// refresh sends the refresh token of a grant and returns the new grant, which replaces it.
func (s *granted) refresh(ctx context.Context, g *Grant) (*Grant, error) {
	e := &endpoint{pool: s.loginAt.pool, client: s.client, url: g.TokenURL, id: g.ClientID, secret: g.ClientSecret}
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Resource != "" {
		params.Set("resource", g.Resource)
	}
	t, err := e.ask(ctx, nil, params)
	var is *Error
	if errors.As(err, &is) && is.Refused {
		s.loginAt.pool.o.Log.Warn("login has ended: refresh token refused", "backend", s.backend, "err", err)
		s.mu.Lock()
		s.spent, s.retryAt = g.Refresh, s.loginAt.pool.o.Now().Add(refusedTime)
		s.mu.Unlock()
		return nil, s.needs(nil)
	}
	if err != nil {
		return nil, err
	}
	next := *g
	next.Scopes = slices.Clone(g.Scopes)
	next.take(t.AccessToken, t.Expiry, s.loginAt.pool.o.Now())
	if t.RefreshToken != "" {
		next.Refresh = t.RefreshToken
	}
	s.loginAt.pool.hide(next.Access, next.Refresh)
	return &next, nil
}

// take sets the access token of the grant, issued now.
func (g *Grant) take(access string, expires, now time.Time) {
	g.Access, g.Expires, g.Renew = access, expires, time.Time{}
	if !expires.IsZero() {
		g.Renew = lasting(access, now, expires).renew
	}
}
