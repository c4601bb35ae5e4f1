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

// LoginNeeded is a login that would give a principal the credential that is missing.
type LoginNeeded struct {
	Backend string
	User    *User
	// Scopes are wanted beside those that are asked for anyway.
	Scopes []string
}

// NeededLogin is the login that an error says is needed; nil for any other error.
func NeededLogin(err error) *LoginNeeded {
	var reason *Error
	if errors.As(err, &reason) {
		return reason.Login
	}
	return nil
}

// loginAt is what the logins at one backend have in common.
type loginAt struct {
	pool    *Pool
	client  *http.Client // for the token endpoint
	store   Keeper
	backend string
	origin  string // of the backend's URL: tokens for another one are not sent there
}

// granted is the source of the tokens of a login: of this proxy itself with a backend, or of one
// principal. The store has them; another process may change it, as vmcp login and logout do.
type granted struct {
	tokens
	*loginAt
	principal string
	needs     func(scopes []string) *Error // why there is no token, or none with these scopes

	mu      sync.Mutex
	refused string    // guarded by mu: the access token that the backend refused last
	looked  time.Time // guarded by mu: when the store was last looked at
}

// granted is the source of a principal's tokens; "" is this proxy itself.
func (l *loginAt) granted(principal string, needs func(scopes []string) *Error) *granted {
	s := &granted{loginAt: l, principal: principal, needs: needs}
	s.tokens.pool, s.tokens.fetch = l.pool, s.renew
	return s
}

// needsLogin says what to do where this proxy is to log in.
func needsLogin(backend string) func([]string) *Error {
	return func(scopes []string) *Error {
		if len(scopes) == 0 {
			return refused("needs login: vmcp login %s", backend)
		}
		return refused(`needs a login with more scopes: vmcp login %s --scope "%s"`, backend, strings.Join(scopes, " "))
	}
}

// userLogins are the logins of principals with a backend.
type userLogins struct {
	at    *loginAt
	users users[*granted]
}

var errNobody = refused("every principal logs in for itself here, and this caller is nobody: incomingAuth says how callers are told apart")

func (l *userLogins) of(u *User) (Source, error) {
	if u == nil || u.Key == "" {
		return nil, errNobody
	}
	return l.users.of(u.Key, func() (*granted, error) {
		who := &User{Key: u.Key, Issuer: u.Issuer, Subject: u.Subject}
		return l.at.granted(u.Key, func(scopes []string) *Error {
			e := refused("%s needs a login of its own", who.Subject)
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
		s.loginAt.pool.spawn(func() { s.lookLater(s.current()) })
	default:
		s.follow(ctx, s.current())
	}
	return s.tokens.Get(ctx)
}

// lookLater is follow for nobody who waits.
func (s *granted) lookLater(value string) {
	ctx, cancel := context.WithTimeout(s.loginAt.pool.ctx, issuerTimeout)
	defer cancel()
	s.follow(ctx, value)
}

// current is the token that is used now; "" for none.
func (s *granted) current() string {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return s.tokens.now.value
}

// follow forgets a token that is in use if the store has another one, or none any more. It
// reports whether there is another one.
func (s *granted) follow(ctx context.Context, value string) bool {
	if value == "" || s.store == nil {
		return false
	}
	g, err := s.store.Find(ctx, s.backend, s.principal)
	if err != nil || g != nil && g.Access == value {
		return false // a store that cannot be read now takes nothing away
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

// Insufficient is called when a backend has answered 403 to a credential. If it did so for want of
// scopes (RFC 6750, section 3.1) and its source is a login, it reports whether there is another
// credential by now, or which login is needed.
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
			if value := login.current(); bearer(value) != c || login.follow(ctx, value) {
				return true, nil
			}
			return false, login.needs(scopesIn(ch.Params["scope"]))
		}
	}
	return false, nil
}

// scopeName is a scope that may stand in a message, and in a command that somebody types.
var scopeName = regexp.MustCompile(`^[A-Za-z0-9._:/+@=~-]+$`)

const maxScopeName = 200

// maxScopes bounds the scopes that a backend may want at once.
const maxScopes = 50

func scopesIn(text string) []string {
	scopes := slices.DeleteFunc(strings.Fields(text), func(s string) bool { return len(s) > maxScopeName || !scopeName.MatchString(s) })
	return scopes[:min(len(scopes), maxScopes)]
}

// renew takes the token of the store, and a new one from the authorization server where that
// has ended or was refused. What is new is kept before it is used: a refresh token that was
// rotated is the only one that is good. No other process renews it meanwhile.
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

// idOf names the record in the names of files.
func idOf(backend, principal string) string {
	sum := sha256.Sum256(record{Backend: backend, Principal: principal}.bound())
	return hex.EncodeToString(sum[:6])
}

// usable is the token of a grant of the store if that can be used, else the grant that has to be renewed.
func (s *granted) usable(g *Grant) (token, *Grant, error) {
	if g == nil || g.Resource != "" && originOf(g.Resource) != s.origin { // none, or one for a URL that was configured before
		return token{}, nil, s.needs(nil)
	}
	s.mu.Lock()
	bad := s.refused
	s.mu.Unlock()
	now := s.loginAt.pool.o.Now()
	s.loginAt.pool.hide(g.Access, g.Refresh, g.ClientSecret)
	switch {
	case g.Access == bad:
	case g.Expires.IsZero():
		return lasting(g.Access, now, time.Time{}), nil, nil
	case now.Before(g.Renew), g.Refresh == "" && now.Before(g.Expires):
		return token{g.Access, g.Renew, g.Expires}, nil, nil
	}
	if g.Refresh == "" {
		return token{}, nil, s.needs(nil)
	}
	return token{}, g, nil
}

// refresh gets a new token for a grant, to be kept in its place.
func (s *granted) refresh(ctx context.Context, g *Grant) (*Grant, error) {
	e := &endpoint{pool: s.loginAt.pool, client: s.client, url: g.TokenURL, id: g.ClientID, secret: g.ClientSecret}
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Resource != "" {
		params.Set("resource", g.Resource)
	}
	t, err := e.ask(ctx, nil, params)
	var is *Error
	if errors.As(err, &is) && is.Refused {
		s.loginAt.pool.o.Log.Warn("login has ended", "backend", s.backend, "err", err)
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

// take puts a token in, which was issued now.
func (g *Grant) take(access string, expires, now time.Time) {
	g.Access, g.Expires, g.Renew = access, expires, time.Time{}
	if !expires.IsZero() {
		g.Renew = lasting(access, now, expires).renew
	}
}
