package secret

import (
	"maps"
	"slices"
)

// A Replacer replaces each of several values by its mask, in all forms that a Redactor recognizes.
// Values shorter than Shortest are not replaced.
type Replacer struct{ patterns *patterns }

// NewReplacer makes a Replacer; masks has the replacements by the values. A form that two values share
// gets the mask of one of them.
func NewReplacer(masks map[string]string) *Replacer {
	values := slices.Sorted(maps.Keys(masks))
	p := compile(values)
	if p == nil {
		return &Replacer{}
	}
	p.masks = map[string]string{}
	for _, v := range values {
		for _, form := range forms(v) {
			if _, taken := p.masks[form]; !taken || form == v {
				p.masks[form] = masks[v]
			}
		}
	}
	return &Replacer{p}
}

// Text returns s with the values replaced.
func (r *Replacer) Text(s string) string { return r.patterns.replace(s) }
