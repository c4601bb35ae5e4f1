// Package entry puts the entry of one server into the text of an MCP client's configuration, and
// takes it out. Only bytes of the entry change, and the comma before it: comments, order, indentation,
// line ends, numbers of any size and a byte order mark stay as they are.
//
//	data, err := entry.Put("mcp.json", data, entry.Entry{Shape: "mcpServers", Name: "vmcp", Value: []byte(`{"url":"…"}`)})
//
// JSON may have comments and trailing commas. TOML, which is Codex's alone, is edited by whole
// lines: an entry is the table [mcp_servers.NAME] with what is below it.
package entry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// TOML is the shape whose files are TOML.
const TOML = "mcp_servers"

// Entry is a server in a configuration.
type Entry struct {
	// Shape is the member that the servers are under, such as mcpServers.
	Shape string
	Name  string
	// Value is a JSON object, which is indented as its neighbours are. In TOML: lines of key = value.
	Value []byte
	// Raw is that Value is a text that Find has returned, which is written as it is.
	Raw bool
}

// Found is an entry in a text.
type Found struct {
	Pos diag.Pos
	// Value is the text of its value; in TOML all lines of it, with the headers of its tables.
	Value []byte
	// Same reports whether its value means the same as that of an Entry.
	same func(value []byte) bool
}

// Same reports whether the entry has this value, however it is written.
func (f *Found) Same(value []byte) bool { return f.same(value) }

// ErrNone is the error of Take when there is no such entry.
var ErrNone = errors.New("there is no such entry")

// text is a configuration while it is edited.
type text interface {
	// find is nil when there is no such entry.
	find(shape, name string) (*Found, error)
	names(shape string) ([]string, error)
	put(e Entry) ([]byte, error)
	take(shape, name string, emptyParent bool) ([]byte, error)
}

const mark = "\xef\xbb\xbf" // a byte order mark

// parse reads data, which is bare of a mark.
func parse(file, shape string, data []byte) (text, error) {
	if !utf8.Valid(data) {
		return nil, problem(file, data, 0, "the file is not UTF-8 text")
	}
	if shape == TOML {
		return parseTOML(file, data)
	}
	return parseJSON(file, data)
}

// Find looks for an entry. The error is diag.Problems, with a place in the file of that name, when the
// text cannot be read; nil, nil says that there is none.
func Find(file string, data []byte, shape, name string) (*Found, error) {
	t, err := parse(file, shape, bytes.TrimPrefix(data, []byte(mark)))
	if err != nil {
		return nil, err
	}
	return t.find(shape, name)
}

// Names are the names of all entries, in the order of the text.
func Names(file string, data []byte, shape string) ([]string, error) {
	t, err := parse(file, shape, bytes.TrimPrefix(data, []byte(mark)))
	if err != nil {
		return nil, err
	}
	return t.names(shape)
}

// Put returns the text with the entry: at the end of the others, or in the place of the one that has
// its name. The member that they are under is made where it is missing; an empty text becomes a
// document.
func Put(file string, data []byte, e Entry) ([]byte, error) {
	bare, marked := bytes.CutPrefix(data, []byte(mark))
	t, err := parse(file, e.Shape, bare)
	if err != nil {
		return nil, err
	}
	out, err := t.put(e)
	if err != nil {
		return nil, err
	}
	if t, err = parse(file, e.Shape, out); err == nil {
		var found *Found
		if found, err = t.find(e.Shape, e.Name); err == nil && found == nil {
			err = errors.New("it is not found afterwards")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no entry can be put there: %w", diag.File(file), err)
	}
	return withMark(out, marked), nil
}

// Take returns the text without the entry. With emptyParent the member that the entries are under
// goes with the last of them.
func Take(file string, data []byte, shape, name string, emptyParent bool) ([]byte, error) {
	bare, marked := bytes.CutPrefix(data, []byte(mark))
	t, err := parse(file, shape, bare)
	if err != nil {
		return nil, err
	}
	out, err := t.take(shape, name, emptyParent)
	if err != nil {
		return nil, err
	}
	if _, err := parse(file, shape, out); err != nil {
		return nil, fmt.Errorf("%s: the entry cannot be taken out: %w", diag.File(file), err)
	}
	return withMark(out, marked), nil
}

func withMark(data []byte, marked bool) []byte {
	if marked {
		return append([]byte(mark), data...)
	}
	return data
}

// problem is what is wrong at an offset.
func problem(file string, data []byte, offset int, format string, args ...any) error {
	return diag.Problems{{Pos: pos(file, data, offset), Code: "config", Message: fmt.Sprintf(format, args...)}}
}

func pos(file string, data []byte, offset int) diag.Pos {
	line := data[bytes.LastIndexByte(data[:offset], '\n')+1 : offset]
	return diag.Pos{File: diag.File(file), Line: 1 + bytes.Count(data[:offset], []byte{'\n'}), Column: 1 + utf8.RuneCount(line)}
}

// newline is how lines of a text end.
func newline(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice replaces the bytes from an offset to another one.
type splice struct {
	from, to int
	with     string
}

// apply makes all of the changes, which do not overlap. Of two at one place the first comes first.
func apply(data []byte, changes ...splice) []byte {
	slices.SortStableFunc(changes, func(a, b splice) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, data[at:c.from]...), c.with...)
		at = c.to
	}
	return append(out, data[at:]...)
}
