package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"
)

// Issuers of principals that are not authenticated by an identity provider.
const (
	IssuerTokens = "vmcp:tokens" // static tokens
	IssuerMTLS   = "vmcp:mtls"   // client certificates
	IssuerLocal  = "vmcp:local"  // the user of this machine
)

// Principal is an authenticated identity: an issuer, and a subject that is unique with
// it. It is immutable. A nil *Principal is anonymous.
type Principal struct {
	Issuer, Subject string
	Groups, Scopes  []string
	// Client is the OAuth client that the token was issued to; "" when the token does not say.
	Client string
	// Claims are those of a JWT or of an introspection, as JSON values with numbers as
	// json.Number; nil for other credentials.
	Claims map[string]any
	// Expires is when the credential expires, including the clock skew; zero: never.
	Expires time.Time

	key   string
	token string   // the hash of a static one
	only  []string // profiles that the token is for; nil: the whole endpoint
}

// newPrincipal completes p with its key.
func newPrincipal(p Principal) *Principal {
	p.key = keyOf(p.Issuer, p.Subject)
	return &p
}

// Key identifies the principal as the owner of sessions, request states, tasks and
// connections. It is a hash over the length-prefixed issuer and subject, so that different
// pairs cannot be encoded alike. Anonymous has "".
func (p *Principal) Key() string {
	if p == nil {
		return ""
	}
	return p.key
}

// HasScopes reports whether the principal has every one of scopes.
func (p *Principal) HasScopes(scopes []string) bool {
	return len(p.missing(scopes)) == 0
}

func (p *Principal) missing(scopes []string) (missing []string) {
	for _, s := range scopes {
		if p == nil || !slices.Contains(p.Scopes, s) {
			missing = append(missing, s)
		}
	}
	return missing
}

func keyOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
}
