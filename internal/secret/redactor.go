// Package secret hides the secrets of a configuration in all output of the program: a
// Redactor replaces their values by ***, and Named and Looks recognize secret values of a
// configuration that are not marked as such.
//
//	r := &secret.Redactor{}
//	r.Use(cfg.Secrets())
//	log := slog.New(secret.Handler(h, r))
//	r.Text("HTTP 401: bad token s3cr3t-token") // HTTP 401: bad token ***
package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Shortest is the least length of a value that is hidden: shorter ones occur in too many
	// texts by chance.
	Shortest = 6
	// Mask replaces a secret.
	Mask = "***"
	// former is how long the secrets of a replaced configuration stay hidden: running calls
	// that use them have ended by then.
	former = time.Hour
)

// Redactor hides secrets in texts. The zero value and nil hide none. It is safe for
// concurrent use. A text without secrets and escapes costs one pass and no allocation.
type Redactor struct {
	patterns atomic.Pointer[patterns]
	added    added

	mu    sync.Mutex
	now   []string             // guarded by mu
	last  map[string]time.Time // former secrets, and until when they are hidden; guarded by mu
	names map[string]string    // of values, for UseNamed; guarded by mu
}

// Use sets the secrets. Previous ones stay hidden for an hour.
func (r *Redactor) Use(values []string) { r.use(values, nil, time.Now()) }

// UseNamed is Use with the names of variables by their values: the value of a variable is replaced by
// ***NAME***.
func (r *Redactor) UseNamed(values []string, names map[string]string) {
	r.use(values, names, time.Now())
}

func (r *Redactor) use(values []string, names map[string]string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.names, func(value, _ string) bool { return r.last[value].Before(at) && !slices.Contains(r.now, value) })
	if r.names == nil && names != nil {
		r.names = map[string]string{}
	}
	maps.Copy(r.names, names)
	last := map[string]time.Time{}
	for v, until := range r.last {
		if until.After(at) {
			last[v] = until
		}
	}
	for _, v := range r.now {
		last[v] = at.Add(former)
	}
	r.now, r.last = slices.Clone(values), last
	p := compile(slices.AppendSeq(slices.Clone(r.now), maps.Keys(last)))
	p.name(r.names)
	r.patterns.Store(p)
}

// name sets the masks of values that have a name.
func (p *patterns) name(names map[string]string) {
	if p == nil || len(names) == 0 {
		return
	}
	p.masks = map[string]string{}
	for _, value := range slices.Sorted(maps.Keys(names)) {
		for _, form := range forms(value) {
			if _, taken := p.masks[form]; !taken || form == value {
				p.masks[form] = Mask + names[value] + Mask
			}
		}
	}
}

// Text returns s with its secrets hidden.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return r.added.replace(r.patterns.Load().replace(s))
}

// none reports whether there are no secrets.
func (r *Redactor) none() bool { return r == nil || r.patterns.Load() == nil && !r.added.some.Load() }

// Pieces hides the secrets of a long text that is received in pieces: ready can be written,
// and rest, which may end with the beginning of a secret, must be prepended to the next
// piece.
func (r *Redactor) Pieces(s string) (ready, rest string) {
	s = r.Text(s)
	if r.none() {
		return s, ""
	}
	longest := r.added.longest()
	if p := r.patterns.Load(); p != nil {
		longest = max(longest, p.longest)
	}
	cut := max(0, len(s)-longest+1)
	return s[:cut], s[cut:]
}

// JSON returns a JSON value with the secrets in its strings hidden, however they are
// escaped. A value without secrets is returned itself.
func (r *Redactor) JSON(raw []byte) []byte {
	if r.none() {
		return raw
	}
	var out []byte
	done := 0 // raw[:done] is in out
	for i := 0; i < len(raw); {
		end := tokenEnd(raw, i)
		if hidden := r.token(raw[i:end]); hidden != nil {
			out = append(append(out, raw[done:i]...), hidden...)
			done = end
		}
		i = end
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// tokenEnd returns the end of the string, number or word at i; i+1 for other bytes.
func tokenEnd(raw []byte, i int) int {
	const between = " \t\r\n{}[]:,"
	end := i + 1
	switch {
	case raw[i] == '"':
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		return min(end+1, len(raw))
	case strings.IndexByte(between, raw[i]) >= 0:
		return end
	}
	for end < len(raw) && raw[end] != '"' && strings.IndexByte(between, raw[end]) < 0 {
		end++
	}
	return end
}

// token returns a string or number with its secrets hidden, as a string; nil when there are none.
func (r *Redactor) token(raw []byte) []byte {
	if len(raw) < Shortest {
		return nil
	}
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		text = string(raw[1:])
	}
	hidden := r.Text(text)
	if hidden == text {
		return nil
	}
	quoted, _ := json.Marshal(hidden) // cannot fail
	return quoted
}

// patterns are the texts to hide, indexed by their first bytes.
type patterns struct {
	longest int
	first   [256]bool                   // first bytes of patterns
	by      map[[Shortest]byte][]string // by prefix; the longest first
	masks   map[string]string           // masks of patterns other than Mask
}

func compile(values []string) *patterns {
	p := &patterns{by: map[[Shortest]byte][]string{}}
	for _, v := range values {
		for _, form := range forms(v) {
			key := [Shortest]byte([]byte(form))
			if !slices.Contains(p.by[key], form) {
				p.by[key] = append(p.by[key], form)
				p.first[form[0]] = true
				p.longest = max(p.longest, len(form), len(v)*longestEscape)
			}
		}
	}
	if len(p.by) == 0 {
		return nil
	}
	for _, all := range p.by {
		slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	return p
}

// stretch is a part of a text that matches a pattern.
type stretch struct {
	from, to int
	form     string
}

// replace hides every pattern in s; overlapping patterns become one mask.
func (p *patterns) replace(s string) string {
	if p == nil {
		return s
	}
	hide := p.find(s, nil, nil)
	decoded, origin := unescape(s, nil)
	for depth := 1; origin != nil && depth <= maxEscaped; depth++ {
		hide = p.find(decoded, origin, hide)
		decoded, origin = unescape(decoded, origin)
	}
	if hide == nil {
		return s
	}
	slices.SortFunc(hide, func(a, b stretch) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var out strings.Builder
	done, next := 0, hide[0]
	for _, h := range hide[1:] {
		if h.from < next.to {
			next.to = max(next.to, h.to)
			continue
		}
		out.WriteString(s[done:next.from] + p.mask(next.form))
		done, next = next.to, h
	}
	out.WriteString(s[done:next.from] + p.mask(next.form) + s[next.to:])
	return out.String()
}

// find appends the matches of patterns in s. origin has the positions of the bytes of s in
// the text that s was unescaped from; nil for the same positions.
func (p *patterns) find(s string, origin []int, found []stretch) []stretch {
	for i := 0; i+Shortest <= len(s); i++ {
		form := p.match(s[i:])
		n := len(form)
		switch {
		case n == 0:
		case origin == nil:
			found = append(found, stretch{i, i + n, form})
		default:
			found = append(found, stretch{origin[i], origin[i+n], form})
		}
	}
	return found
}

// match returns the longest pattern that s begins with, or "".
func (p *patterns) match(s string) string {
	if !p.first[s[0]] {
		return ""
	}
	for _, form := range p.by[[Shortest]byte([]byte(s[:Shortest]))] {
		if strings.HasPrefix(s, form) {
			return form
		}
	}
	return ""
}

// mask returns the replacement of a pattern.
func (p *patterns) mask(form string) string { return cmp.Or(p.masks[form], Mask) }

// forms returns the encodings in which a value can occur in a text.
func forms(value string) []string {
	if len(strings.TrimSpace(value)) < Shortest {
		return nil
	}
	all := []string{value, strings.TrimSpace(value), strings.ReplaceAll(value, "+", " ")} // the last: an unescaped query after decoding
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value)} {
		all = append(all, escaped, lowerHex(escaped))
	}
	quoted, _ := json.Marshal(value) // cannot fail
	all = append(all, inner(string(quoted)), inner(strconv.Quote(value)))
	all = append(all, encoded(value)...)
	for line := range strings.Lines(value) { // a program may write the lines separately
		if line = strings.TrimSpace(line); len(line) >= longLine {
			all = append(all, line)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < Shortest })
}

// longLine is the least length of a line of a secret that is hidden by itself.
const longLine = 16

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// lowerHex returns s with the hexadecimal digits of its URL escapes in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// encoded returns the base64 forms of a value: alone, and inside of a longer text, where
// it may begin at any of three positions in a group. The outer characters that depend on
// neighbouring bytes are left out.
func encoded(value string) (all []string) {
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := e.EncodeToString(append(make([]byte, before), value...))
			if (before+len(value))%3 != 0 {
				text = text[:len(text)-1]
			}
			all = append(all, text[[]int{0, 2, 3}[before]:])
		}
	}
	return all
}
