package credentials

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

const grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"

// exchanger exchanges the token of each principal's client for one for the backend (RFC 8693).
type exchanger struct {
	pool     *Pool
	cfg      config.TokenExchange
	endpoint *endpoint
	users    users[*userTokens]
}

func newExchanger(p *Pool, t config.TokenExchange) *exchanger {
	e := &endpoint{pool: p, url: t.TokenURL, id: t.ClientID, secret: secretOf(t.Secret, t.ClientSecret), file: t.ClientSecretFile}
	return &exchanger{pool: p, cfg: t, endpoint: e}
}

// userTokens is the source of one principal's token.
type userTokens struct {
	tokens

	subject sync.Mutex
	brought string    // guarded by subject: the newest token of the principal's client
	expires time.Time // guarded by subject
}

// of returns the source of a principal's token and gives it the token of the current request:
// always the newest token of the client is exchanged.
func (x *exchanger) of(u *User) (Source, error) {
	if u == nil || u.Key == "" {
		return nil, errNeedsIssuer
	}
	s, err := x.users.of(u.Key, func() (*userTokens, error) {
		if u.Token == "" {
			return nil, errNeedsIssuer
		}
		s := &userTokens{}
		s.pool, s.fetch = x.pool, func(ctx context.Context) (token, error) { return x.exchange(ctx, s) }
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	s.bring(u)
	return s, nil
}

var errNeedsIssuer = refused("token exchange needs a JWT or an introspected token of the caller; this caller has none")

// bring records the token of a request.
func (s *userTokens) bring(u *User) {
	if u.Token == "" {
		return
	}
	s.subject.Lock()
	defer s.subject.Unlock()
	if s.brought == u.Token {
		return
	}
	s.brought, s.expires = u.Token, u.Expires
	s.pool.hide(u.Token)
}

// exchange requests a token for the newest token of the principal's client. The result is used no
// longer than that token is valid, and for tokenLife at most.
func (x *exchanger) exchange(ctx context.Context, s *userTokens) (token, error) {
	s.subject.Lock()
	brought, end := s.brought, s.expires
	s.subject.Unlock()
	now := x.pool.o.Now()
	if !end.IsZero() && !now.Before(end) {
		return token{}, refused("the caller's token has expired")
	}
	params := url.Values{
		"grant_type":           {grantExchange},
		"subject_token":        {brought},
		"subject_token_type":   {x.cfg.SubjectToken()},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	}
	for name, value := range map[string]string{"audience": x.cfg.Audience, "resource": x.cfg.Resource} {
		if value != "" {
			params.Set(name, value)
		}
	}
	t, err := x.endpoint.ask(ctx, x.cfg.Scopes, params)
	if err != nil {
		return token{}, err
	}
	now = x.pool.o.Now()
	until := now.Add(tokenLife)
	for _, other := range []time.Time{t.Expiry, end} {
		if !other.IsZero() && other.Before(until) {
			until = other
		}
	}
	return lasting(t.AccessToken, now, until), nil
}
