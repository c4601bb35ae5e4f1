package lock

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// Print writes a change as lines: the differences, and with withTexts the old and the new text. Invisible
// characters are escaped.
//
//	~ shop.get_order: inputSchema.required: "card" must be given now (breaking)
//	    - ["id"]
//	    + ["id","card"]
func (c *Change) Print(w io.Writer, withTexts bool) error {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(display.VisibleLine(strings.Join(parts, "")) + "\n") }
	name := c.Name.String()
	switch {
	case c.Added():
		line("+ ", name)
	case c.Removed():
		line("- ", name, ": gone (", string(Breaking), ")")
	}
	if c.Old == nil || c.New == nil {
		c.printTexts(line, withTexts, c.Old, c.New)
	}
	for _, d := range c.Details {
		line("~ ", name, ": ", d.text())
		c.printTexts(line, withTexts, d.Old, d.New)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Change) printTexts(line func(...string), withTexts bool, old, now []byte) {
	if !withTexts {
		return
	}
	if old != nil {
		line("    - ", string(old))
	}
	if now != nil {
		line("    + ", string(now))
	}
}

// text describes a difference on one line.
func (d *Detail) text() string {
	text := d.Path
	switch {
	case d.Path == "":
		text = "a duplicate member was added or removed"
	case d.Note != "":
		text += ": " + d.Note
	case d.Old == nil:
		text += " is new"
	case d.New == nil:
		text += " is gone"
	default:
		text += " changed"
	}
	if d.Class != compatible {
		text += " (" + string(d.Class) + ")"
	}
	return text
}

// known are the members of definitions that MCP defines. Others are named by the backend.
var known = []string{"title", "description", "inputSchema", "outputSchema", "annotations", "execution", "arguments", "mimeType", "size"}

// Parts names the members of a definition in which it differs: description, inputSchema.
func Parts(details []Detail) string {
	var names []string
	for _, d := range details {
		name, _, _ := strings.Cut(d.Path, ".")
		if !slices.Contains(known, name) {
			name = "other members"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// detail and change are the JSON forms of Detail and Change.
type (
	detail struct {
		Path  string          `json:"path"`
		Class Class           `json:"class"`
		Note  string          `json:"note,omitempty"`
		Old   json.RawMessage `json:"old,omitempty"`
		New   json.RawMessage `json:"new,omitempty"`
	}
	change struct {
		Name    string          `json:"name"`
		Backend string          `json:"backend"`
		Kind    Kind            `json:"kind"`
		Own     string          `json:"original,omitempty"`
		Change  string          `json:"change"`
		Class   Class           `json:"class"`
		Details []detail        `json:"details"`
		Old     json.RawMessage `json:"old,omitempty"`
		New     json.RawMessage `json:"new,omitempty"`
	}
)

// JSONForm is a value of the type that MarshalJSON encodes, for the help of commands, which documents it.
func (Change) JSONForm() any { return change{} }

// MarshalJSON encodes the change for --output json.
func (c Change) MarshalJSON() ([]byte, error) {
	what := "changed"
	switch {
	case c.Added():
		what = "added"
	case c.Removed():
		what = "removed"
	}
	details := []detail{}
	for _, d := range c.Details {
		details = append(details, detail{d.Path, d.Class, d.Note, d.Old, d.New})
	}
	return json.Marshal(change{c.Name.String(), c.Name.Backend, c.Name.Kind, c.Name.Own, what, c.Class(), details, c.Old, c.New})
}
