package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// introspector verifies opaque tokens by introspection (RFC 7662).
type introspector struct {
	url              string
	client           *http.Client
	clientID, secret string
	issuer           string
	audiences        audiences
	cache            time.Duration // longest lifetime of a positive response
	claims           claimNames
	skew             time.Duration
	now              func() time.Time
	// clients are those whose tokens need no aud; nil: the tokens of every client need one.
	clients []string
	// withoutAudience is called at the first token that is refused because the issuer did not say whom it is for.
	withoutAudience func()
	once            sync.Once

	flight singleflight.Group
}

// refusedLife is how long a negative response is cached.
const refusedLife = 5 * time.Second

// ask returns the principal of a token and how long that may be cached. Concurrent calls with
// one token share one request.
func (i *introspector) ask(ctx context.Context, hash, token string) (*Principal, time.Duration, error) {
	type answer struct {
		p    *Principal
		life time.Duration
	}
	result := i.flight.DoChan(hash, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		p, life, err := i.askNow(ctx, token)
		return answer{p, life}, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, refusedLife, r.Err
		}
		a := r.Val.(answer)
		return a.p, a.life, nil
	case <-ctx.Done():
		return nil, 0, unavailable(ctx.Err())
	}
}

func (i *introspector) askNow(ctx context.Context, token string) (*Principal, time.Duration, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(i.clientID), url.QueryEscape(i.secret)) // RFC 6749, section 2.3.1
	var raw json.RawMessage
	if err := doJSON(i.client, req, &raw); err != nil {
		return nil, 0, unavailable(err)
	}
	claims, err := decodeClaims(raw)
	if err != nil {
		return nil, 0, unavailable(err)
	}
	return i.principal(claims)
}

func (i *introspector) principal(claims map[string]any) (*Principal, time.Duration, error) {
	if claims["active"] != true {
		return nil, 0, errInactive
	}
	if iss, has := claims["iss"]; has && iss != i.issuer {
		return nil, 0, errIssuer
	}
	if !isAccess(claims) || hasIDClaims(claims) {
		return nil, 0, errKind
	}
	only, err := i.audience(claims)
	if err != nil {
		return nil, 0, err
	}
	life, now := i.cache, i.now()
	var expires time.Time
	if raw, has := claims["exp"]; has {
		exp, ok := seconds(raw)
		if !ok {
			return nil, 0, errClaims
		}
		expires = exp.Add(i.skew)
		life = min(life, expires.Sub(now))
	}
	if life <= 0 {
		return nil, 0, errExpired
	}
	if raw, has := claims["nbf"]; has {
		nbf, ok := seconds(raw)
		if !ok {
			return nil, 0, errClaims
		}
		if now.Add(i.skew).Before(nbf) {
			return nil, 0, errNotYet
		}
	}
	p, err := i.claims.principal(i.issuer, claims, expires)
	if err == nil {
		p.only = only
	}
	return p, life, err
}

// audience returns the profiles that a token is for; nil: all. A response without aud does not show that the token was issued
// for this endpoint, which has to be verified (MCP authorization, Access Token Usage): it is accepted only for the clients that
// the configuration lists, and only if the response calls the token an access token.
func (i *introspector) audience(claims map[string]any) (only []string, err error) {
	if aud, has := claims["aud"]; has {
		list, ok := texts(aud)
		if only, has = i.audiences.accept(list); !ok || !has {
			return nil, errAudience
		}
		return only, nil
	}
	if slices.Contains(i.clients, clientOf(claims)) && claims["token_type"] != nil {
		return nil, nil
	}
	i.once.Do(i.withoutAudience)
	return nil, errAudience
}
