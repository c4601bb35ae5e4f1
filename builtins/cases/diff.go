package cases

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// Difference is one difference between two JSON values.
type Difference struct {
	Pointer    string // "" is the whole value
	Have, Want string // as shown to the user; "nothing" for a missing value
}

// String returns "pointer: want → have".
func (d Difference) String() string {
	text := d.Want + " → " + d.Have
	if d.Pointer != "" {
		text = d.Pointer + ": " + text
	}
	return text
}

const (
	// maxDifferences bounds the differences that are collected.
	maxDifferences = 20
	// maxShown bounds the part of a value that is shown, in characters.
	maxShown = 100
)

// Diff returns the differences between two values: members of objects in any order, elements of lists in order,
// numbers by their value. It returns at most maxDifferences.
func Diff(want, have json.RawMessage) []Difference {
	w, err := parseTree(orNull(want))
	if err != nil {
		return []Difference{{Have: shown(have), Want: "broken JSON"}}
	}
	h, err := parseTree(orNull(have))
	if err != nil {
		return []Difference{{Have: "broken JSON", Want: shown(want)}}
	}
	d := &differ{}
	d.values("", w, h)
	return d.found
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// Explain returns the first difference, and the number of the others.
func Explain(all []Difference) string {
	switch n := len(all) - 1; {
	case n < 0:
		return ""
	case n == 0:
		return all[0].String()
	case n+1 == maxDifferences:
		return fmt.Sprintf("%s, and many more", all[0])
	default:
		return fmt.Sprintf("%s, and %d more", all[0], n)
	}
}

type differ struct{ found []Difference }

func (d *differ) add(at string, want, have *node) {
	if len(d.found) < maxDifferences {
		d.found = append(d.found, Difference{display.VisibleLine(at), shownNode(have), shownNode(want)})
	}
}

func (d *differ) values(at string, want, have *node) {
	switch {
	case len(d.found) == maxDifferences:
	case want.object && have.object:
		d.objects(at, want, have)
	case want.array && have.array:
		for i := range max(len(want.parts), len(have.parts)) {
			d.optional(at+"/"+strconv.Itoa(i), element(want, i), element(have, i))
		}
	case want.isText && have.isText && want.text == have.text:
	case want.isNumber() && have.isNumber() && sameNumber(string(want.scalar), string(have.scalar)):
	case want.scalar != nil && string(want.scalar) == string(have.scalar):
	default:
		d.add(at, want, have)
	}
}

func element(n *node, i int) *node {
	if i < len(n.parts) {
		return n.parts[i]
	}
	return nil
}

func (d *differ) objects(at string, want, have *node) {
	parts := map[string]*node{} // of have
	for i, name := range have.names {
		parts[name] = have.parts[i]
	}
	known := map[string]bool{}
	for i, name := range want.names {
		known[name] = true
		d.optional(at+"/"+escape(name), want.parts[i], parts[name])
	}
	for i, name := range have.names {
		if !known[name] {
			d.optional(at+"/"+escape(name), nil, have.parts[i])
		}
	}
}

func (d *differ) optional(at string, want, have *node) {
	if want == nil || have == nil {
		d.add(at, want, have)
		return
	}
	d.values(at, want, have)
}

// sameNumber compares numbers by their value: 1 equals 1.0. Integers are not rounded.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a, ".eE") && !strings.ContainsAny(b, ".eE") {
		return a == "-0" && b == "0" || a == "0" && b == "-0"
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && x < 1<<53 && x > -1<<53
}

func shownNode(n *node) string {
	if n == nil {
		return "nothing"
	}
	return shown(n.appendJSON(nil))
}

func shown(raw []byte) string {
	return display.ClipLine(display.VisibleLine(string(display.Bytes(string(raw), 4*maxShown))), maxShown)
}

// Near returns the effect of a case that is most similar to one that was not recorded, with the differences: of the
// same kind and name with the fewest differences of its arguments, otherwise of the same kind. nil when there is none.
func (c *Case) Near(kind, name string, args json.RawMessage) (near *Effect, differences []Difference) {
	best := -1
	for i := range c.Effects {
		e := &c.Effects[i]
		if e.Kind != kind || e.Nested() {
			continue
		}
		found := Diff(e.Args, args)
		weight := len(found)
		if e.Name != name {
			weight += 2 * maxDifferences
		}
		if best < 0 || weight < best {
			best, near, differences = weight, e, found
		}
	}
	return near, differences
}
