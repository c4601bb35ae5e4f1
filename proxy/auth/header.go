package auth

import (
	"net/http"
	"net/url"
	"strings"
)

// maxToken bounds a bearer token, in bytes.
const maxToken = 16 << 10

// bearer returns the bearer token of a request; "" when it has no Authorization header, or
// one of another scheme.
func bearer(r *http.Request) (string, *Refusal) {
	if hasTokenInQuery(r.URL) {
		return "", errInQuery
	}
	lines := r.Header["Authorization"]
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", errTwoHeaders
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	token = strings.Trim(token, " ")
	if token == "" || len(token) > maxToken || strings.IndexFunc(token, isNoTokenChar) >= 0 {
		return "", errMalformed
	}
	return token, nil
}

// TokenOf returns the token of a request that was authenticated by it.
func TokenOf(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.Trim(token, " ")
}

// isNoTokenChar reports whether a character cannot be in a b64token (RFC 6750, section 2.1).
func isNoTokenChar(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~+/=", c)
}

// hasTokenInQuery reports whether a URL has a token, which logs and browsers would keep.
func hasTokenInQuery(u *url.URL) bool {
	if u.RawQuery == "" || !strings.Contains(u.RawQuery, "oken") && !strings.Contains(u.RawQuery, "%") {
		return false
	}
	return u.Query().Has("access_token")
}
