package lock

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// A Change is an entry, or the server information of a backend, that differs between two files.
type Change struct {
	Name Name
	// Old and New are the definitions, or the instructions and the like as JSON strings; nil where
	// there is none.
	Old, New []byte
	// Details are the differences within, in order; none for an entry that was added or removed.
	Details []Detail
}

// Detail is one difference within a definition.
type Detail struct {
	Path string // within the definition, such as inputSchema.properties.id; "" for all of it
	// Note is the effect on callers, where it is known: card is required
	Note     string
	Class    Class
	Old, New []byte // canonical; nil where there is none
}

// Class is the effect of a difference on callers.
type Class string

// The classes of differences, the most severe first.
const (
	Breaking   Class = "breaking"   // a call that worked may fail, or have other effects than expected
	text       Class = "text"       // a text that models read has changed
	compatible Class = "compatible" // all others
)

// Added reports whether only the new file has the entry.
func (c *Change) Added() bool { return c.Old == nil }

// Removed reports whether only the old file has the entry.
func (c *Change) Removed() bool { return c.New == nil }

// Class is the most severe class of the differences.
func (c *Change) Class() Class {
	switch {
	case c.Removed():
		return Breaking
	case c.Added():
		return compatible
	}
	for _, class := range []Class{Breaking, text} {
		if slices.ContainsFunc(c.Details, func(d Detail) bool { return d.Class == class }) {
			return class
		}
	}
	return compatible
}

// Compare lists the changes between two files, sorted by name.
func Compare(old, now *File) (changes []Change) {
	for name, b := range now.Backends {
		changes = appendSelf(changes, name, old.Backends, now.Backends, b)
	}
	for name, b := range old.Backends {
		if _, still := now.Backends[name]; !still {
			changes = appendSelf(changes, name, old.Backends, now.Backends, b)
		}
	}
	for n, e := range now.Entries {
		switch before, known := old.Entries[n]; {
		case !known:
			changes = append(changes, Change{Name: n, New: e.Definition})
		case before.SHA256 != e.SHA256:
			changes = append(changes, Change{Name: n, Old: before.Definition, New: e.Definition, Details: Differences(n.Kind, before.Definition, e.Definition)})
		}
	}
	for n, e := range old.Entries {
		if _, still := now.Entries[n]; !still {
			changes = append(changes, Change{Name: n, Old: e.Definition})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	return changes
}

// appendSelf adds the change of a backend's server information, if it differs.
func appendSelf(changes []Change, name string, old, now map[string]Backend, b Backend) []Change {
	before, had := old[name]
	after, has := now[name]
	c := Change{Name: Name{Kind: Instructions, Backend: name}}
	switch {
	case had && has && before == after:
		return changes
	case !had:
		c.New = b.append(nil)
	case !has:
		c.Old = b.append(nil)
	default:
		c.Old, c.New = before.append(nil), after.append(nil)
		for _, m := range [...]struct {
			path     string
			old, now string
			class    Class
		}{
			{"instructions", before.Instructions, after.Instructions, text},
			{"revision", before.Revision, after.Revision, compatible},
			{"server", before.Server, after.Server, compatible},
		} {
			if m.old != m.now {
				c.Details = append(c.Details, Detail{Path: m.path, Class: m.class, Old: quote(m.old), New: quote(m.now)})
			}
		}
	}
	return append(changes, c)
}

// Differences lists the differences of two canonical definitions.
func Differences(kind Kind, old, now []byte) []Detail {
	w := &walk{kind: kind}
	w.compare(nil, old, now)
	if len(w.found) == 0 && !bytes.Equal(old, now) { // a duplicate member
		w.found = []Detail{{Class: Breaking, Old: old, New: now}}
	}
	return w.found
}

// A walk compares two definitions recursively.
type walk struct {
	kind  Kind
	found []Detail
}

func (w *walk) compare(path []string, old, now []byte) {
	switch {
	case bytes.Equal(old, now):
	case isObject(old) && isObject(now):
		w.members(path, old, now)
	default:
		d := Detail{Path: joined(path), Old: old, New: now, Class: compatible}
		w.classify(path, &d)
		w.found = append(w.found, d)
	}
}

func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

// members compares two objects, whose members are sorted.
func (w *walk) members(path []string, old, now []byte) {
	before, after := membersOf(old), membersOf(now)
	for len(before) > 0 || len(after) > 0 {
		var a, b namedValue
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].name < after[0].name:
			a, before = before[0], before[1:]
		case len(before) == 0 || after[0].name < before[0].name:
			b, after = after[0], after[1:]
		default:
			a, b, before, after = before[0], after[0], before[1:], after[1:]
		}
		w.compare(append(path[:len(path):len(path)], cmp.Or(a.name, b.name)), a.value, b.value)
	}
}

type namedValue struct {
	name  string
	value []byte
}

func membersOf(object []byte) (all []namedValue) {
	jsonscan.Each(object, func(k, v []byte) bool {
		all = append(all, namedValue{string(k), v})
		return true
	})
	return all
}

// joined is the text of a path. Names that are ambiguous in it are quoted.
func joined(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		if parts[i] = p; p == "" || strings.ContainsAny(p, ". \"\\:") || strconv.Quote(p) != `"`+p+`"` {
			parts[i] = strconv.Quote(p)
		}
	}
	return strings.Join(parts, ".")
}

// texts are the members of a definition that are documentation.
var texts = []string{"title", "description", "$comment", "examples"}

// classify sets the class of a difference, and its note where the effect is known.
func (w *walk) classify(path []string, d *Detail) {
	if len(path) == 0 {
		d.Class = Breaking
		return
	}
	last := path[len(path)-1]
	switch {
	case slices.Contains(texts, last) && !slices.Contains(path[:len(path)-1], "annotations"):
		if len(path) < 2 || path[len(path)-2] != "properties" { // otherwise it is an argument of that name
			d.Class = text
			return
		}
	case w.kind != Tool:
		if slices.Contains([]string{"arguments", "mimeType"}, path[0]) {
			d.Class = Breaking
		}
		return
	}
	switch path[0] {
	case "annotations":
		d.Class, d.Note = riskier(last, d)
	case "inputSchema":
		w.schema(path, d, true)
	case "outputSchema":
		w.schema(path, d, false)
	}
}

// riskier classifies the change of a hint: breaking if the tool is less harmless by it. For a missing hint, MCP's default is used.
func riskier(hint string, d *Detail) (Class, string) {
	assumed := map[string]bool{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}
	harmless := map[string]bool{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
	fallback, known := assumed[hint]
	if !known {
		return text, ""
	}
	is := func(v []byte) bool { return v == nil && fallback || string(v) == "true" }
	if was, now := is(d.Old), is(d.New); was == harmless[hint] && now != harmless[hint] {
		return Breaking, "is " + strconv.FormatBool(now) + " now"
	}
	return compatible, ""
}

// schema classifies a difference within the schema of arguments, or of results.
func (w *walk) schema(path []string, d *Detail, input bool) {
	last := path[len(path)-1]
	isProperty := len(path) > 2 && path[len(path)-2] == "properties"
	switch {
	case len(path) == 1: // the whole schema
		if d.New == nil && !input || d.Old == nil && input {
			d.Class = Breaking
		}
	case isProperty && d.New == nil:
		d.Class, d.Note = Breaking, "is gone"
	case isProperty && d.Old == nil:
		d.Note = "is new"
	case last == "required":
		gained, lost := setDifference(d.New, d.Old), setDifference(d.Old, d.New)
		if input && len(gained) > 0 {
			d.Class, d.Note = Breaking, strings.Join(gained, ", ")+" must be given now"
		}
		if !input && len(lost) > 0 {
			d.Class, d.Note = Breaking, strings.Join(lost, ", ")+" may be missing now"
		}
	case last == "enum":
		gained, lost := setDifference(d.New, d.Old), setDifference(d.Old, d.New)
		switch {
		case len(lost) > 0 && d.New != nil:
			d.Class, d.Note = Breaking, "lost "+strings.Join(lost, ", ")
		case len(gained) > 0 && (d.Old == nil) == input:
			d.Class, d.Note = Breaking, "gained "+strings.Join(gained, ", ")
			if input {
				d.Note = "only " + strings.Join(gained, ", ") + " now"
			}
		case d.New == nil && !input:
			d.Class = Breaking
		}
	case last == "type":
		gained, lost := setDifference(d.New, d.Old), setDifference(d.Old, d.New)
		if input && (len(lost) > 0 || d.Old == nil) || !input && (len(gained) > 0 || d.New == nil) {
			d.Class = Breaking
		}
	case last == "additionalProperties":
		if input && string(d.New) == "false" || !input && string(d.Old) == "false" {
			d.Class = Breaking
		}
	}
}

// setDifference lists the elements of a that are not in b, as JSON. A value that is no list is treated as a list of
// itself.
func setDifference(a, b []byte) (only []string) {
	in := elements(b)
	for _, e := range elements(a) {
		if !slices.Contains(in, e) {
			only = append(only, e)
		}
	}
	return only
}

func elements(v []byte) (all []string) {
	if v == nil {
		return nil
	}
	if v[0] != '[' {
		return []string{string(v)}
	}
	jsonscan.Elements(v, func(e []byte) bool { all = append(all, string(e)); return true })
	return all
}
