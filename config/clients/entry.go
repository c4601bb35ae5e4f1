package clients

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// This part of the package adds the entry of one server to the text of an MCP client's configuration, and
// removes it. Only the bytes of the entry and the comma before it change: comments, order, indentation,
// line ends, numbers of any size and a byte order mark are preserved.
//
//	data, err := entry.Put("mcp.json", data, entry.Entry{Shape: "mcpServers", Name: "vmcp", Value: []byte(`{"url":"…"}`)})
//
// JSON may have comments and trailing commas. TOML, which only Codex uses, is edited by whole
// lines: an entry is the table [mcp_servers.NAME] with its subtables.

// TOML is the shape whose files are TOML.
const TOML = "mcp_servers"

// Entry is a server in a configuration.
type Entry struct {
	// Shape is the member that the servers are under, such as mcpServers.
	Shape string
	Name  string
	// Value is a JSON object; it is indented like the text around it. In TOML: lines of key = value.
	Value []byte
	// Raw reports that Value is a text that Find has returned; it is written unchanged.
	Raw bool
}

// Found is an entry in a text.
type Found struct {
	Pos diag.Pos
	// Value is the text of its value; in TOML all lines of it, with the headers of its tables.
	Value []byte
	// same implements Same.
	same func(value []byte) bool
}

// Same reports whether the entry's value is equal to value after parsing.
func (f *Found) Same(value []byte) bool { return f.same(value) }

// ErrNone is the error of Remove if there is no such entry.
var ErrNone = errors.New("there is no such entry")

// entryText is a parsed configuration that can be edited.
type entryText interface {
	// find returns nil, nil if there is no such entry.
	find(shape, name string) (*Found, error)
	names(shape string) ([]string, error)
	put(e Entry) ([]byte, error)
	remove(shape, name string, emptyParent bool) ([]byte, error)
}

const mark = "\xef\xbb\xbf" // a byte order mark

// parse parses data, which has no byte order mark.
func parse(file, shape string, data []byte) (entryText, error) {
	if !utf8.Valid(data) {
		return nil, problem(file, data, 0, "the file is not UTF-8 text")
	}
	if shape == TOML {
		return parseTOML(file, data)
	}
	return parseJSON(file, data)
}

// Find finds an entry; nil, nil if there is none. If the text cannot be parsed, the error is
// diag.Problems with a position in the file of that name.
func Find(file string, data []byte, shape, name string) (*Found, error) {
	t, err := parse(file, shape, bytes.TrimPrefix(data, []byte(mark)))
	if err != nil {
		return nil, err
	}
	return t.find(shape, name)
}

// Names returns the names of all entries, in the order of the text.
func Names(file string, data []byte, shape string) ([]string, error) {
	t, err := parse(file, shape, bytes.TrimPrefix(data, []byte(mark)))
	if err != nil {
		return nil, err
	}
	return t.names(shape)
}

// Put returns the text with the entry: after the others, or in place of one with the same name. The
// member for the entries is added if it is missing; an empty text becomes a document.
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

// Remove returns the text without the entry. With emptyParent the member of the entries is removed
// with the last of them.
func Remove(file string, data []byte, shape, name string, emptyParent bool) ([]byte, error) {
	bare, marked := bytes.CutPrefix(data, []byte(mark))
	t, err := parse(file, shape, bare)
	if err != nil {
		return nil, err
	}
	out, err := t.remove(shape, name, emptyParent)
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

// problem makes diag.Problems with the position of an offset.
func problem(file string, data []byte, offset int, format string, args ...any) error {
	return diag.Problems{{Pos: pos(file, data, offset), Code: "config", Message: fmt.Sprintf(format, args...)}}
}

func pos(file string, data []byte, offset int) diag.Pos {
	line := data[bytes.LastIndexByte(data[:offset], '\n')+1 : offset]
	return diag.Pos{File: diag.File(file), Line: 1 + bytes.Count(data[:offset], []byte{'\n'}), Column: 1 + utf8.RuneCount(line)}
}

// newline is the line ending of a text.
func newline(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice is a replacement of a range of bytes.
type splice struct {
	from, to int
	with     string
}

// apply makes all changes, which do not overlap. Two at one offset are made in their order.
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
