package display

import (
	"cmp"
	"slices"
	"strings"
)

// This part of the package finds the probably intended name for a misspelled one.

// longest bounds the names that are compared, in bytes.
const longest = 64

// Nearest returns the candidate with the smallest edit distance from name (insertions,
// deletions, substitutions, transpositions), or "" if none is near enough. It ignores
// case.
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

// Only reports whether name certainly means its nearest candidate: no other is near, the edit distance
// is at most two, and the first letters of the words are equal: get_x is not set_x.
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

// words returns the words of a name.
func words(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

func bare(name string) string { return strings.Join(words(name), "") }

// initials returns the first letters of the words of a name.
func initials(name string) string {
	var b strings.Builder
	for _, w := range words(name) {
		b.WriteByte(w[0])
	}
	return b.String()
}

// Slip reports whether a name is probably a typo of another one: their edit distance is one, but they
// are neither short nor singular and plural.
func Slip(name, other string) bool {
	a, b := strings.ToLower(name), strings.ToLower(other)
	return min(len(a), len(b)) > 3 && max(len(a), len(b)) <= longest && a != b+"s" && b != a+"s" && distance(a, b) == 1
}

// Hint returns `; did you mean "x"?` with the candidate nearest to name, or "".
func Hint(name string, candidates []string) string {
	best := Nearest(name, candidates)
	if best == "" {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// Sorted returns the candidates in the order of their edit distance from name.
func Sorted(name string, candidates []string) []string {
	name = strings.ToLower(name[:min(len(name), longest)])
	away := make(map[string]int, len(candidates))
	for _, c := range candidates {
		away[c] = distance(name, strings.ToLower(c[:min(len(c), longest)]))
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b string) int { return cmp.Compare(away[a], away[b]) })
}

// distance returns the edit distance (optimal string alignment).
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
