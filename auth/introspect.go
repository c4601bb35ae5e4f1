package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
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
	var only []string
	if aud, has := claims["aud"]; has {
		list, ok := texts(aud)
		if only, has = i.audiences.accept(list); !ok || !has {
			return nil, 0, errAudience
		}
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
	p, err := i.claims.principal(i.issuer, claims, expires)
	if err == nil {
		p.only = only
	}
	return p, life, err
}
