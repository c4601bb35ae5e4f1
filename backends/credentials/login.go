package credentials

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"
)

// granted is the source of the tokens of a login: of this proxy itself with a backend, or of one
// principal.
type granted struct {
	tokens
	store              *Store
	backend, principal string
	needs              func() error // why there is no token without a grant

	mu      sync.Mutex
	refused string // guarded by mu: the access token that the backend refused last
}

func newGranted(p *Pool, store *Store, backend, principal string, needs func() error) *granted {
	s := &granted{store: store, backend: backend, principal: principal, needs: needs}
	s.tokens.pool, s.tokens.fetch = p, s.renew
	return s
}

// needsLogin says what to do where this proxy is to log in.
func needsLogin(backend string) func() error {
	return func() error { return refused("needs login: vmcp login %s", backend) }
}

// Refused implements Source.
func (s *granted) Refused(c Credential) bool {
	s.tokens.mu.Lock()
	value := s.tokens.now.value
	s.tokens.mu.Unlock()
	if bearer(value) == c {
		s.mu.Lock()
		s.refused = value
		s.mu.Unlock()
	}
	return s.tokens.Refused(c)
}

// renew takes the token of the store, and a new one from the authorization server where that
// has ended or was refused. What is new is on disk before it is used: a refresh token that was
// rotated is the only one that is good.
func (s *granted) renew(ctx context.Context) (token, error) {
	if s.store == nil {
		return token{}, unavailable("no tokenStore is configured")
	}
	g, err := s.store.Find(s.backend, s.principal)
	switch {
	case err != nil:
		return token{}, unavailable("%w", err)
	case g == nil:
		return token{}, s.needs()
	}
	s.mu.Lock()
	bad := s.refused
	s.mu.Unlock()
	now := s.pool.o.Now()
	s.pool.hide(g.Access, g.Refresh, g.ClientSecret)
	switch {
	case g.Access == bad:
	case g.Expires.IsZero():
		return lasting(g.Access, now, time.Time{}), nil
	case now.Before(g.Renew), g.Refresh == "" && now.Before(g.Expires):
		return token{g.Access, g.Renew, g.Expires}, nil
	}
	if g.Refresh == "" {
		return token{}, s.needs()
	}
	e := &endpoint{pool: s.pool, url: g.TokenURL, id: g.ClientID, secret: g.ClientSecret}
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Resource != "" {
		params.Set("resource", g.Resource)
	}
	t, err := e.ask(ctx, nil, params)
	if err != nil {
		if is, ok := err.(*Error); ok && is.Refused {
			s.pool.o.Log.Warn("login has ended", "backend", s.backend, "err", err)
			return token{}, s.needs()
		}
		return token{}, err
	}
	next := *g
	next.Scopes = slices.Clone(g.Scopes)
	next.take(t.AccessToken, t.Expiry, s.pool.o.Now())
	if t.RefreshToken != "" {
		next.Refresh = t.RefreshToken
	}
	s.pool.hide(next.Access, next.Refresh)
	if err := s.store.Put(s.backend, s.principal, &next); err != nil {
		return token{}, unavailable("%w", err)
	}
	return lasting(next.Access, s.pool.o.Now(), next.Expires), nil
}

// take puts a token in, which was issued now.
func (g *Grant) take(access string, expires, now time.Time) {
	g.Access, g.Expires, g.Renew = access, expires, time.Time{}
	if !expires.IsZero() {
		g.Renew = lasting(access, now, expires).renew
	}
}
