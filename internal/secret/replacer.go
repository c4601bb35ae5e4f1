package secret

import (
	"maps"
	"slices"
)

// A Replacer puts a text of its own in the place of each of several values, in whatever form of
// those that a Redactor knows they stand. Values that are shorter than Shortest are left alone.
type Replacer struct{ patterns *patterns }

// NewReplacer makes one; masks are the texts by the values. A form that two values have gets the mask
// of one of them.
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

// Text is s with the values replaced.
func (r *Replacer) Text(s string) string { return r.patterns.replace(s) }
