// Package authtest has an issuer of access tokens for tests: a real HTTP server with a
// discovery document, keys and introspection, and switches for failures.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an identity provider. Its URL is the issuer identifier.
type Issuer struct {
	*httptest.Server

	mu        sync.Mutex
	keys      []jose.JSONWebKey // private ones; the last signs. Guarded by mu, like all below
	down      bool
	fetches   int // of the key set
	questions int // introspections
	opaque    map[string]map[string]any
}

// NewIssuer starts an issuer with one RSA key. It is closed at the end of the test.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Server.Close)
	return i
}

// Start starts an issuer with one RSA key, for programs that are not tests.
func Start() (*Issuer, error) {
	i := &Issuer{opaque: map[string]map[string]any{}}
	if err := i.rotate(false); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.fetches++
		var set jose.JSONWebKeySet
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		i.mu.Unlock()
		i.answer(w, set)
	})
	mux.HandleFunc("/introspect", i.introspect)
	i.Server = httptest.NewServer(mux)
	return i, nil
}

func (i *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	i.mu.Lock()
	i.questions++
	claims, ok := i.opaque[r.PostFormValue("token")]
	i.mu.Unlock()
	switch {
	case id != "vmcp" || secret != "s3cret":
		w.WriteHeader(http.StatusUnauthorized)
	case !ok:
		i.answer(w, map[string]any{"active": false})
	default:
		answer := maps.Clone(claims)
		answer["active"] = true
		i.answer(w, answer)
	}
}

func (i *Issuer) answer(w http.ResponseWriter, v any) {
	i.mu.Lock()
	down := i.down
	i.mu.Unlock()
	if down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}

// SetDown makes the issuer respond 502 to all requests, or ends that.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Rotate makes a new signing key; withdraw removes the old ones from the set.
func (i *Issuer) Rotate(t testing.TB, withdraw bool) {
	t.Helper()
	if err := i.rotate(withdraw); err != nil {
		t.Fatal(err)
	}
}

func (i *Issuer) rotate(withdraw bool) error {
	key, err := rsaKey()
	if err == nil {
		i.add(key, jose.RS256, withdraw)
	}
	return err
}

// rsaKeys are generated once in a process, because one takes a fifth of a second. Each new
// issuer or rotation uses the next one.
var rsaKeys struct {
	mu   sync.Mutex
	next int                // guarded by mu, like keys
	keys [2]*rsa.PrivateKey // nil before the first use
}

func rsaKey() (*rsa.PrivateKey, error) {
	rsaKeys.mu.Lock()
	defer rsaKeys.mu.Unlock()
	slot := &rsaKeys.keys[rsaKeys.next%len(rsaKeys.keys)]
	rsaKeys.next++
	if *slot == nil {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		*slot = key
	}
	return *slot, nil
}

// UseECDSA makes a new signing key for ES256.
func (i *Issuer) UseECDSA(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.add(key, jose.ES256, false)
}

func (i *Issuer) add(key crypto.Signer, alg jose.SignatureAlgorithm, withdraw bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if withdraw {
		i.keys = nil
	}
	id := "k" + strconv.FormatInt(time.Now().UnixNano(), 36)
	i.keys = append(i.keys, jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(alg), Use: "sig"})
}

// Key returns the signing key.
func (i *Issuer) Key() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

// Fetches returns the number of requests for the keys.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// Questions returns the number of introspection requests.
func (i *Issuer) Questions() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.questions
}

// Opaque makes a token that only introspection can read.
func (i *Issuer) Opaque(token string, claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.opaque[token] = claims
}

// Revoke revokes an opaque token.
func (i *Issuer) Revoke(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.opaque, token)
}

// Claims returns the claims of a valid token for an audience, with changes; a nil value removes a claim.
func (i *Issuer) Claims(audience string, changes map[string]any) map[string]any {
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "alice", "iat": now, "exp": now + 600, "client_id": "agent", "scope": "mcp:tools files:read", "groups": []string{"dev"},
	}
	for name, v := range changes {
		if v == nil {
			delete(claims, name)
		} else {
			claims[name] = v
		}
	}
	return claims
}

// Token returns a valid token for an audience, with changes to its claims.
func (i *Issuer) Token(t testing.TB, audience string, changes map[string]any) string {
	t.Helper()
	return Sign(t, i.Key(), i.Claims(audience, changes), nil)
}

// Sign makes a JWT of claims; header changes members of the protected header.
func Sign(t testing.TB, key jose.JSONWebKey, claims any, header map[jose.HeaderKey]any) string {
	t.Helper()
	token, err := Signed(key, claims, header)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Signed is Sign for programs that are not tests.
func Signed(key jose.JSONWebKey, claims any, header map[jose.HeaderKey]any) (string, error) {
	o := (&jose.SignerOptions{}).WithType("at+jwt")
	for name, v := range header {
		o = o.WithHeader(name, v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, o)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
