package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// jwtVerifier verifies access tokens that are JWTs of one issuer (RFC 9068, RFC 7519).
type jwtVerifier struct {
	keys       *keySet
	issuer     string
	audiences  audiences
	clientID   string
	algorithms []jose.SignatureAlgorithm
	skew       time.Duration
	claims     claimNames
	now        func() time.Time
}

// claimNames are the claims of a principal's fields; a name is a dotted path.
type claimNames struct {
	subject string
	groups  []string // the first one that exists is used
	role    string
}

// jwtHeader is the protected header. A token with an embedded or referenced key, or with
// critical extensions, is refused.
type jwtHeader struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`

	JWK  json.RawMessage `json:"jwk"`
	JKU  json.RawMessage `json:"jku"`
	X5U  json.RawMessage `json:"x5u"`
	X5C  json.RawMessage `json:"x5c"`
	Crit json.RawMessage `json:"crit"`
}

// looksLikeJWT reports whether a token has the form of a JWT: three parts, of which the first
// is an object in base64.
func looksLikeJWT(token string) bool {
	return strings.Count(token, ".") == 2 && strings.HasPrefix(token, "e")
}

// verify returns the principal of a token and the id of the key that signed it.
func (v *jwtVerifier) verify(ctx context.Context, token string) (*Principal, string, error) {
	head, err := v.header(token)
	if err != nil {
		return nil, "", err
	}
	// The issuer is checked before the key is looked up: a token of another issuer must not
	// cause a fetch of keys.
	if err := v.wellFormed(token); err != nil {
		return nil, "", err
	}
	parsed, err := jose.ParseSigned(token, v.algorithms)
	if err != nil {
		return nil, "", errMalformed.because(err)
	}
	payload, err := v.signed(ctx, parsed, head.KeyID)
	if err != nil {
		return nil, "", err
	}
	claims, err := decodeClaims(payload)
	if err != nil {
		return nil, "", err
	}
	p, err := v.principal(head, claims)
	return p, head.KeyID, err
}

func (v *jwtVerifier) header(token string) (jwtHeader, error) {
	var h jwtHeader
	raw, err := base64.RawURLEncoding.DecodeString(token[:strings.IndexByte(token, '.')])
	if err != nil || json.Unmarshal(raw, &h) != nil {
		return h, errMalformed
	}
	switch {
	case h.JWK != nil, h.JKU != nil, h.X5U != nil, h.X5C != nil, h.Crit != nil:
		return h, errHeader
	case !slices.Contains(v.algorithms, jose.SignatureAlgorithm(h.Algorithm)):
		return h, errAlgorithm
	}
	switch strings.ToLower(h.Type) {
	case "", "jwt", "at+jwt", "application/at+jwt":
		return h, nil
	}
	return h, errKind
}

// wellFormed checks the unverified issuer claim of a token.
func (v *jwtVerifier) wellFormed(token string) error {
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errMalformed
	}
	claims, err := decodeClaims(raw)
	if err != nil {
		return err
	}
	if claims["iss"] != v.issuer {
		return errIssuer
	}
	return nil
}

func decodeClaims(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var claims map[string]any
	if err := d.Decode(&claims); err != nil || claims == nil || d.More() {
		return nil, errMalformed
	}
	return claims, nil
}

// signed checks the signature and returns the payload.
func (v *jwtVerifier) signed(ctx context.Context, parsed *jose.JSONWebSignature, id string) ([]byte, error) {
	keys, err := v.keys.find(ctx, id)
	if err != nil {
		return nil, err
	}
	alg := parsed.Signatures[0].Header.Algorithm
	for _, k := range keys {
		if k.Algorithm != "" && k.Algorithm != alg {
			continue
		}
		if payload, err := parsed.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// principal checks the claims of a token with a valid signature.
func (v *jwtVerifier) principal(h jwtHeader, claims map[string]any) (*Principal, error) {
	if claims["iss"] != v.issuer {
		return nil, errIssuer
	}
	audiences, ok := texts(claims["aud"])
	only, accepted := v.audiences.accept(audiences)
	if !ok || !accepted {
		return nil, errAudience
	}
	if !isAccess(claims) || v.isIDToken(h, claims, audiences) {
		return nil, errKind
	}
	expires, err := v.times(claims)
	if err != nil {
		return nil, err
	}
	p, err := v.claims.principal(v.issuer, claims, expires)
	if err == nil {
		p.only = only
	}
	return p, err
}

// isIDToken reports whether a token is an ID token, which is not meant as a credential,
// instead of an access token.
func (v *jwtVerifier) isIDToken(h jwtHeader, claims map[string]any, audiences []string) bool {
	if strings.HasSuffix(strings.ToLower(h.Type), "at+jwt") {
		return false
	}
	return hasIDClaims(claims) || v.clientID != "" && len(audiences) == 1 && audiences[0] == v.clientID
}

// times checks exp and nbf, and returns when the token expires, including the clock skew.
func (v *jwtVerifier) times(claims map[string]any) (time.Time, error) {
	exp, ok := seconds(claims["exp"])
	if !ok {
		return time.Time{}, errClaims
	}
	now := v.now()
	end := exp.Add(v.skew)
	if !now.Before(end) {
		return time.Time{}, errExpired
	}
	if raw, has := claims["nbf"]; has {
		nbf, ok := seconds(raw)
		if !ok {
			return time.Time{}, errClaims
		}
		if now.Add(v.skew).Before(nbf) {
			return time.Time{}, errNotYet
		}
	}
	return end, nil
}

// seconds reads a NumericDate (RFC 7519, section 2).
func seconds(v any) (time.Time, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > 1e12 {
		return time.Time{}, false
	}
	return time.Unix(int64(f), 0), true
}

// principal returns the principal of claims.
func (c claimNames) principal(issuer string, claims map[string]any, expires time.Time) (*Principal, error) {
	subject, ok := at(claims, c.subject).(string)
	if !ok || subject == "" {
		return nil, errClaims
	}
	p := Principal{Issuer: issuer, Subject: subject, Claims: claims, Expires: expires}
	for _, name := range c.groups {
		if groups, ok := texts(at(claims, name)); ok {
			p.Groups = groups
			break
		}
	}
	if c.role != "" {
		roles, _ := texts(at(claims, c.role))
		p.Groups = append(p.Groups, roles...)
	}
	p.Scopes = scopesOf(claims)
	p.Client = clientOf(claims)
	return newPrincipal(p), nil
}

// clientOf is the client that a token was issued to; "" if the claims do not say.
func clientOf(claims map[string]any) string {
	for _, name := range []string{"client_id", "azp", "cid"} {
		if id, ok := claims[name].(string); ok {
			return id
		}
	}
	return ""
}

// scopesOf reads scope, a string with spaces (RFC 9068, section 2.2.3), or scp, a string or a list.
func scopesOf(claims map[string]any) []string {
	if s, ok := claims["scope"].(string); ok {
		return strings.Fields(s)
	}
	switch scp := claims["scp"].(type) {
	case string:
		return strings.Fields(scp)
	case []any:
		all, _ := texts(scp)
		return all
	}
	return nil
}

// at returns the claim at a dotted path; a claim with the dots in its name takes precedence.
func at(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	head, rest, ok := strings.Cut(path, ".")
	if !ok {
		return nil
	}
	inner, _ := claims[head].(map[string]any)
	return at(inner, rest)
}

// texts reads a string or a list of strings.
func texts(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// refusalOf returns err as a refusal: any other error counts as unavailable.
func refusalOf(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return unavailable(err)
}
