package secret

import (
	"math"
	"net/url"
	"regexp"
	"strings"
)

var (
	telling = regexp.MustCompile(`(?i)(token|secret|passw|pwd|credential|api.?key|access.?key|private.?key|auth|signature|cookie|session)|(^|[^a-z])(key|pat|sig|pass)($|[^a-z])`)
	// issued are the beginnings of credentials that well-known services give out.
	issued = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|sk_(live|test)_|rk_live_|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]+\.|npm_|pypi-|hf_|SG\.|dop_v1_|shpat_|lin_api_|ntn_|secret_|figd_|ATATT|-----BEGIN )`)
	// random is what characters of a credential are; a path, a URL or a sentence has others.
	random = regexp.MustCompile(`^[A-Za-z0-9_~+=.-]{20,}$`)
)

// Named reports whether a variable, header or parameter of this name holds a secret.
func Named(name string) bool { return telling.MatchString(name) }

// Looks reports whether a value looks like a credential: as a known service writes
// them, or 20 characters or more at random.
func Looks(value string) bool {
	if issued.MatchString(value) {
		return true
	}
	return random.MatchString(value) && strings.ContainsAny(value, "0123456789") &&
		strings.ContainsFunc(value, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) && entropy(value) >= 3.5
}

// entropy is how many bits a character of s holds.
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

// InURL are the secrets of a URL: the password, and what looks like a secret in the path
// and the query, or has the name of one.
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
