package auth

import (
	"slices"
	"strings"
)

// kinds are the values with which issuers mark an access token, in lower case, in its claims as in the response of its
// introspection: token_type (RFC 7662, section 2.2, with the values of RFC 6749, section 7.1), token_use and typ in the
// practice of issuers. A token of the type DPoP is none: its proof is not checked.
var kinds = map[string][]string{
	"token_type": {"bearer", "access", "access_token"},
	"token_use":  {"access", "access_token"},
	"typ":        {"bearer", "at+jwt", "application/at+jwt", "jwt"},
}

// others are values with which issuers mark other tokens, in claims that may as well say something else of an access token.
var others = []string{"refresh", "refresh_token", "refresh+jwt", "id", "id_token", "logout", "logout_token", "logout+jwt"}

// otherNames are the names of such claims.
var otherNames = []string{"type", "tokenType", "use"}

// isAccess reports whether no claim says that a token is another one than an access token: a refresh token, an ID token, or
// a security event, such as a logout token (RFC 8417, section 2.2). It holds for signed and for introspected tokens.
func isAccess(claims map[string]any) bool {
	for name, values := range kinds {
		if v, has := claims[name]; has {
			text, ok := v.(string)
			if !ok || !slices.Contains(values, strings.ToLower(text)) {
				return false
			}
		}
	}
	for _, name := range otherNames {
		if text, ok := claims[name].(string); ok && slices.Contains(others, strings.ToLower(text)) {
			return false
		}
	}
	_, event := claims["events"]
	return !event
}

// hasIDClaims reports whether a token has claims of ID tokens (OpenID Connect Core, sections 2 and 3.3.2.11).
func hasIDClaims(claims map[string]any) bool {
	for _, name := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
		if _, has := claims[name]; has {
			return true
		}
	}
	return false
}
