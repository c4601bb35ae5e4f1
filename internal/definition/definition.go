// Package definition brings what a backend lists into the form that clients can read.
//
// Clients read a list as a whole: those on the TypeScript SDKs, which most are, hold it
// to a schema, and refuse all of it over one member of one definition. What a backend
// lists is therefore held to the same rules before it gets into a list.
//
// The rules are tables. A kind of definition has one for the revisions with sessions and
// one for 2026-07-28, and each names the members that the revision gives a type. A member
// that does not have it is narrowed to what it can have been meant to be, or left out.
// Every other byte stays. What was changed is noted, and becomes a problem of the
// catalog. A definition that lacks what only its backend can know is not repaired:
// Usable says so, and it is not listed at all.
package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A Kind is what the definitions of one list have in common.
type Kind struct {
	key            string // the member that names an entry
	named          bool   // it needs a name beside its key
	schema         string // the member that holds the schema of its arguments
	legacy, modern rule
}

var (
	Tool     = Kind{key: "name", schema: "inputSchema", legacy: legacyTool, modern: modernTool}
	Prompt   = Kind{key: "name", legacy: promptRule, modern: promptRule}
	Resource = Kind{key: "uri", named: true, legacy: resourceRule, modern: resourceRule}
	Template = Kind{key: "uriTemplate", named: true, legacy: templateRule, modern: templateRule}
)

// Usable says why a definition cannot be listed, whatever is left out of it.
func (k Kind) Usable(name string, def json.RawMessage) error {
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

// Repair makes the two forms of a definition that lists have. They are def itself where
// clients of the revision can read it. notes says what was changed in them.
func (k Kind) Repair(name string, def json.RawMessage) (legacy, modern json.RawMessage, notes []string) {
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

// legible repairs what no client of any revision reads.
func (k Kind) legible(r *repair, name string, def json.RawMessage) json.RawMessage {
	if !utf8.Valid(def) {
		r.note("definition", "it is no valid UTF-8; U+FFFD stands where it is not")
		def = bytes.ToValidUTF8(def, []byte("\uFFFD"))
	}
	if k.named && !isText(jsonscan.Get(def, "name")) {
		r.note("name", "want a string, have %s; made the %s", jsonscan.Kind(jsonscan.Get(def, "name")), k.key)
		def = jsonscan.Set(def, "name", jsonscan.Quote(name))
	}
	return def
}
