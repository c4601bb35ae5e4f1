// Package spell guesses which name was meant.
package spell

import (
	"cmp"
	"slices"
	"strings"
)

// longest is the longest name that is guessed for.
const longest = 64

// Nearest returns the candidate that was probably meant by name, or "": the one with
// the fewest letters to insert, delete, change or swap, if those are few enough.
// Upper and lower case are the same.
func Nearest(name string, candidates []string) string {
	best, most := "", max(2, len(name)/3)
	if len(name) > longest {
		return ""
	}
	for _, c := range candidates {
		if d := len(c) - len(name); d > most || -d > most {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d <= most && d < len(name) {
			best, most = c, d-1
		}
	}
	return best
}

// Only reports whether one of the candidates must have been meant by name: no other is near, and no
// more than a letter or two of it are wrong, none of which begins a word: get_x is not set_x.
func Only(name string, candidates []string) bool {
	near := Nearest(name, candidates)
	if near == "" {
		return false
	}
	a, b := strings.ToLower(name), strings.ToLower(near)
	if distance(a, b) > min(2, len(a)/4) || initials(a) != initials(b) && bare(a) != bare(b) {
		return false
	}
	for _, c := range candidates {
		if c != near && Nearest(name, []string{c}) != "" {
			return false
		}
	}
	return true
}

// words separates the words of a name.
func words(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

func bare(name string) string { return strings.Join(words(name), "") }

// initials are the first letters of the words of a name.
func initials(name string) string {
	var b strings.Builder
	for _, w := range words(name) {
		b.WriteByte(w[0])
	}
	return b.String()
}

// Slip reports whether a name can hardly be anything else than another one with one letter that is
// wrong, missing, too many or swapped: short names, and one of many things, can.
func Slip(name, other string) bool {
	a, b := strings.ToLower(name), strings.ToLower(other)
	return min(len(a), len(b)) > 3 && max(len(a), len(b)) <= longest && a != b+"s" && b != a+"s" && distance(a, b) == 1
}

// Hint is `; did you mean "x"?` with the candidate nearest to name, or "".
func Hint(name string, candidates []string) string {
	best := Nearest(name, candidates)
	if best == "" {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// Sorted returns the candidates, those first that were more probably meant by name.
func Sorted(name string, candidates []string) []string {
	name = strings.ToLower(name[:min(len(name), longest)])
	away := make(map[string]int, len(candidates))
	for _, c := range candidates {
		away[c] = distance(name, strings.ToLower(c[:min(len(c), longest)]))
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b string) int { return cmp.Compare(away[a], away[b]) })
}

// distance counts the letters to insert, delete, change or swap.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
