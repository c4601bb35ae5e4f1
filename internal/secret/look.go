package secret

import (
	"math"
	"net/url"
	"regexp"
	"strings"
)

var (
	telling = regexp.MustCompile(`(?i)(token|secret|passw|pwd|credential|api.?key|access.?key|private.?key|auth|signature|cookie|session)|(^|[^a-z])(key|pat|sig|pass)($|[^a-z])`)
	// issued matches the prefixes of credentials of well-known services.
	issued = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|sk_(live|test)_|rk_live_|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]+\.|npm_|pypi-|hf_|SG\.|dop_v1_|shpat_|lin_api_|ntn_|secret_|figd_|ATATT|-----BEGIN )`)
	// random matches texts of credential characters; a path, a URL or a sentence has others.
	random = regexp.MustCompile(`^[A-Za-z0-9_~+=.-]{20,}$`)
)

// Named reports whether a variable, header or parameter has the name of a secret.
func Named(name string) bool { return telling.MatchString(name) }

// Looks reports whether a value looks like a credential: it has the prefix of a known
// service, or is a random text of 20 characters or more.
func Looks(value string) bool {
	if issued.MatchString(value) {
		return true
	}
	return random.MatchString(value) && strings.ContainsAny(value, "0123456789") &&
		strings.ContainsFunc(value, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) && entropy(value) >= 3.5
}

// Issued reports whether a value has the prefix of a well-known service's credentials.
func Issued(value string) bool { return issued.MatchString(value) }

// entropy returns the entropy of s, in bits per character.
func entropy(s string) (bits float64) {
	var count [256]float64
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			p := n / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// InURL returns the secrets of a URL: the password, parts of the path that look like a
// credential, and query parameters that do or have the name of one.
func InURL(text string) (found []string) {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	if password, ok := u.User.Password(); ok {
		found = append(found, password)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if Looks(part) {
			found = append(found, part)
		}
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if Named(name) || Looks(v) {
				found = append(found, v)
			}
		}
	}
	return found
}
