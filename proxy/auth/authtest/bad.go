package authtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A BadRequest is a request whose credential must be refused.
type BadRequest struct {
	Name          string
	Authorization []string // the headers
	Query         string   // of the URL, with its question mark
	// Want is the HTTP status and the challenge: 401 Bearer error="invalid_token", …
	Want string
}

// Descriptions that a client receives.
const (
	malformed = "the token is malformed"
	algorithm = "the signature algorithm is not accepted"
	claims    = "a claim is missing or of the wrong type"
	audienceX = "the token is for another audience"
	issuerX   = "the issuer is not accepted"
	kind      = "this is not an access token"
	headerX   = "the token's header has members that are not accepted"
	signature = "the signature is not valid"
	unknown   = "the token is unknown"
	keyX      = "the signing key is unknown"
)

// BadRequests returns requests for an audience whose credentials must be refused, each for a
// different reason. challenge is the part that every challenge of a 401 has: scope and
// resource_metadata.
func (i *Issuer) BadRequests(t testing.TB, audience, challenge string) []BadRequest {
	t.Helper()
	good := i.Token(t, audience, nil)
	_, metadata, _ := strings.Cut(challenge, ", ")
	refused := func(description string) string {
		return fmt.Sprintf(`400 Bearer error="invalid_request", error_description=%q, %s`, description, metadata)
	}
	all := []BadRequest{
		{"no header", nil, "", "401 Bearer " + challenge},
		{"another scheme", []string{"Basic YTpi"}, "", "401 Bearer " + challenge},
		{"two headers", []string{"Bearer " + good, "Bearer " + good}, "", refused("more than one Authorization header")},
		{"in the query", nil, "?access_token=" + good, refused("a token in the query string is not accepted: use the Authorization header")},
		{"in the query, escaped", nil, "?acc%65ss_token=x", refused("a token in the query string is not accepted: use the Authorization header")},
		{"no space", []string{"Bearer"}, "", invalid(malformed, challenge)},
	}
	for _, group := range [][]badToken{i.malformed(t, audience), i.badHeaders(t, audience), i.badSignatures(t, audience), i.badClaims(t, audience)} {
		for _, b := range group {
			all = append(all, BadRequest{b.name, []string{"Bearer " + b.token}, "", invalid(b.why, challenge)})
		}
	}
	return all
}

func invalid(description, challenge string) string {
	return fmt.Sprintf(`401 Bearer error="invalid_token", error_description=%q, %s`, description, challenge)
}

// badToken is a token, and the description in the response.
type badToken struct{ name, token, why string }

func (i *Issuer) malformed(t testing.TB, audience string) []badToken {
	return []badToken{
		{"empty", "", malformed},
		{"a text", "hello", unknown},
		{"with a space", "a b", malformed},
		{"not ASCII", "é", malformed},
		{"64 kB", strings.Repeat("a", 64<<10), malformed},
		{"dots", "ey..", malformed},
		{"a dot more", i.Token(t, audience, nil) + ".x", unknown},
	}
}

// raw returns a token of any header and payload with an invalid signature.
func raw(header string, payload []byte) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(payload) + ".x"
}

func (i *Issuer) badHeaders(t testing.TB, audience string) []badToken {
	payload, err := json.Marshal(i.Claims(audience, nil))
	if err != nil {
		t.Fatal(err)
	}
	with := func(name jose.HeaderKey, v any) string {
		return Sign(t, i.Key(), i.Claims(audience, nil), map[jose.HeaderKey]any{name: v})
	}
	return []badToken{
		{"none", raw(`{"alg":"none"}`, payload), algorithm},
		{"None", raw(`{"alg":"None"}`, payload), algorithm},
		{"nOnE, no signature", strings.TrimSuffix(raw(`{"alg":"nOnE"}`, payload), "x"), algorithm},
		{"no algorithm", raw(`{}`, payload), algorithm},
		{"jku", with("jku", i.URL+"/keys"), headerX},
		{"x5u", with("x5u", i.URL), headerX},
		{"jwk", raw(`{"alg":"RS256","jwk":{"kty":"RSA"}}`, payload), headerX},
		{"x5c", raw(`{"alg":"RS256","x5c":[]}`, payload), headerX},
		{"crit", raw(`{"alg":"RS256","crit":["exp"],"exp":1}`, payload), headerX},
		{"another type", raw(`{"alg":"RS256","typ":"logout+jwt"}`, payload), kind},
	}
}

func (i *Issuer) badSignatures(t testing.TB, audience string) []badToken {
	key, claims := i.Key(), i.Claims(audience, nil)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	stranger := key
	stranger.Key = foreign
	public, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	hmac := jose.JSONWebKey{Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), KeyID: key.KeyID, Algorithm: "HS256"}
	good := i.Token(t, audience, nil)
	parts := strings.Split(good, ".")
	other := strings.Split(i.Token(t, audience, map[string]any{"sub": "root"}), ".")
	return []badToken{
		{"HS256 with the public key", Sign(t, hmac, claims, nil), algorithm},
		{"no signature", parts[0] + "." + parts[1] + ".", signature},
		{"signature of other claims", parts[0] + "." + other[1] + "." + parts[2], signature},
		{"a changed signature", good[:len(good)-8] + "AAAAAAAA", signature},
		{"a foreign key with our kid", Sign(t, stranger, claims, nil), signature},
		{"kid as a path", Sign(t, WithID(stranger, "../../dev/null"), claims, nil), keyX},
	}
}

func (i *Issuer) badClaims(t testing.TB, audience string) []badToken {
	now := time.Now().Unix()
	with := func(name string, v any) string { return i.Token(t, audience, map[string]any{name: v}) }
	id := func(name string) string {
		return Sign(t, i.Key(), i.Claims(audience, map[string]any{name: "n"}), map[jose.HeaderKey]any{"typ": "JWT"})
	}
	return []badToken{
		{"expired", with("exp", now-60), "the token has expired"},
		{"not yet", with("nbf", now+300), "the token is not valid yet"},
		{"no exp", with("exp", nil), claims},
		{"exp as a text", with("exp", fmt.Sprint(now+60)), claims},
		{"nbf as a text", with("nbf", "now"), claims},
		{"exp beyond all time", with("exp", json.Number("1e300")), claims},
		{"no sub", with("sub", nil), claims},
		{"sub as a number", with("sub", 7), claims},
		{"empty sub", with("sub", ""), claims},
		{"another issuer", with("iss", "https://evil.example"), issuerX},
		{"an issuer with a slash more", with("iss", i.URL+"/"), issuerX},
		{"no issuer", with("iss", nil), issuerX},
		{"another audience", with("aud", "https://other.example"), audienceX},
		{"a longer audience", with("aud", audience+"/x"), audienceX},
		{"no audience", with("aud", nil), audienceX},
		{"audience of numbers", with("aud", []any{audience, 7}), audienceX},
		{"an ID token by nonce", id("nonce"), kind},
		{"an ID token by at_hash", id("at_hash"), kind},
		{"an ID token by c_hash", id("c_hash"), kind},
	}
}

// WithID returns a key with another key id.
func WithID(k jose.JSONWebKey, id string) jose.JSONWebKey {
	k.KeyID = id
	return k
}
