package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// glob is a pattern of Cedar's like operator: characters, and stars for any string.
type glob []rune

// star matches any string. It is not a valid character.
const star rune = -1

func exactly(text string) glob { return glob([]rune(text)) }

// globOf converts a pattern by its JSON form, the only one that distinguishes a wildcard from the character
// *.
func globOf(p types.Pattern) (g glob) {
	data, _ := p.MarshalJSON()
	var parts []any
	_ = json.Unmarshal(data, &parts) // cannot fail
	for _, part := range parts {
		if literal, ok := part.(map[string]any); ok {
			text, _ := literal["Literal"].(string)
			g = append(g, []rune(text)...)
		} else {
			g = append(g, star)
		}
	}
	return g
}

const (
	maxStates = 4000 // that distinguish visits
	maxTexts  = 256  // that it finds
)

// distinguish returns a string for each possible combination of matching globs: it searches the
// product of their automata. ok is false when that is too large.
func distinguish(globs []glob) (texts []string, ok bool) {
	var unique []glob
	for _, g := range globs {
		if !slices.ContainsFunc(unique, func(o glob) bool { return slices.Equal(o, g) }) {
			unique = append(unique, g)
		}
	}
	type state struct {
		at   [][]bool // by glob: the positions that may have been reached
		text string
	}
	start := state{}
	for _, g := range unique {
		at := make([]bool, len(g)+1)
		at[0] = true
		start.at = append(start.at, g.close(at))
	}
	alphabet := alphabetOf(unique)
	queue, seen, found := []state{start}, map[string]bool{}, map[string]bool{}
	seen[keyOf(start.at)] = true
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		var held strings.Builder
		for i, g := range unique {
			held.WriteByte(bit(s.at[i][len(g)]))
		}
		if !found[held.String()] {
			found[held.String()] = true
			texts = append(texts, s.text)
		}
		if len(texts) > maxTexts {
			return nil, false
		}
		for _, r := range alphabet {
			next := state{text: s.text + string(r)}
			for i, g := range unique {
				next.at = append(next.at, g.step(s.at[i], r))
			}
			key := keyOf(next.at)
			if seen[key] {
				continue
			}
			if len(seen) == maxStates {
				return nil, false
			}
			seen[key] = true
			queue = append(queue, next)
		}
	}
	return texts, true
}

// close adds the positions after stars, which match the empty string.
func (g glob) close(at []bool) []bool {
	for i, r := range g {
		if at[i] && r == star {
			at[i+1] = true
		}
	}
	return at
}

func (g glob) step(at []bool, r rune) []bool {
	next := make([]bool, len(at))
	for i, want := range g {
		switch {
		case !at[i]:
		case want == star:
			next[i] = true
		case want == r:
			next[i+1] = true
		}
	}
	return g.close(next)
}

// alphabetOf returns the characters of globs, and one that is in none.
func alphabetOf(globs []glob) (runes []rune) {
	for _, g := range globs {
		for _, r := range g {
			if r != star && !slices.Contains(runes, r) {
				runes = append(runes, r)
			}
		}
	}
	fresh := 'a'
	for slices.Contains(runes, fresh) {
		fresh++
	}
	return append(runes, fresh)
}

func keyOf(all [][]bool) string {
	var b strings.Builder
	for _, at := range all {
		for _, is := range at {
			b.WriteByte(bit(is))
		}
	}
	return b.String()
}

func bit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}
