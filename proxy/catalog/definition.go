package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package repairs the definitions that backends list, so that clients can read them.
//
// Clients read a list as a whole: those on the TypeScript SDKs, which most are, validate it
// against a schema, and refuse the whole list for one invalid member. Definitions of
// backends are therefore checked by the same rules before they are listed.
//
// The rules are tables. Each kind of definition has one for the revisions with sessions and
// one for 2026-07-28, with the members that have a type in the revision. A member of another
// type is converted where its meaning is clear, else left out. All other bytes are unchanged.
// Each change is noted, and becomes a problem of the catalog. A definition without a required
// part cannot be repaired: Usable returns an error, and it is not listed.

// A definitionKind is the rules for the definitions of one list.
type definitionKind struct {
	key            string // the member that names an entry
	named          bool   // it needs a name beside its key
	schema         string // the member that holds the schema of its arguments
	legacy, modern rule
}

var (
	definitionTool     = definitionKind{key: "name", schema: "inputSchema", legacy: legacyTool, modern: modernTool}
	definitionPrompt   = definitionKind{key: "name", legacy: promptRule, modern: promptRule}
	definitionResource = definitionKind{key: "uri", named: true, legacy: resourceRule, modern: resourceRule}
	definitionTemplate = definitionKind{key: "uriTemplate", named: true, legacy: templateRule, modern: templateRule}
)

// Usable returns why a definition cannot be listed, even after a repair.
func (k definitionKind) Usable(name string, def json.RawMessage) error {
	if len(def) == 0 || def[0] != '{' {
		return fmt.Errorf("want an object, have %s", jsonscan.Kind(def))
	}
	if name == "" {
		return fmt.Errorf("it has no %s", k.key)
	}
	if k.schema == "" {
		return nil
	}
	arguments := jsonscan.Get(def, k.schema)
	if len(arguments) == 0 || arguments[0] != '{' {
		return fmt.Errorf("%s: want an object", k.schema)
	}
	if !meansObject(arguments) {
		return fmt.Errorf(`%s: its type is %.40s, arguments are an "object"`, k.schema, jsonscan.Get(arguments, "type"))
	}
	return nil
}

// Repair returns the forms of a definition for clients of either era: def itself where no
// change is needed. notes describes the changes.
func (k definitionKind) Repair(name string, def json.RawMessage) (legacy, modern json.RawMessage, notes []string) {
	var all, late, early repair
	def = k.legible(&all, name, def)
	modern = k.modern(&late, "", def)
	legacy = k.legacy(&early, "", def)
	notes = append(all.notes, late.notes...)
	for _, note := range early.notes {
		if !slices.Contains(late.notes, note) {
			notes = append(notes, "for clients before "+wire.Rev2607+": "+note)
		}
	}
	if more := max(early.more, late.more); more > 0 {
		notes = append(notes, fmt.Sprintf("and %d more", more))
	}
	return legacy, modern, notes
}

// legible repairs what clients of no revision accept.
func (k definitionKind) legible(r *repair, name string, def json.RawMessage) json.RawMessage {
	if !utf8.Valid(def) {
		r.note("definition", "not valid UTF-8; invalid bytes replaced by U+FFFD")
		def = bytes.ToValidUTF8(def, []byte("\uFFFD"))
	}
	if k.named && !isText(jsonscan.Get(def, "name")) {
		r.note("name", "want a string, have %s; made the %s", jsonscan.Kind(jsonscan.Get(def, "name")), k.key)
		def = jsonscan.Set(def, "name", jsonscan.Quote(name))
	}
	return def
}
