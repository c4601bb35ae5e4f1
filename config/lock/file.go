package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

const (
	// DefaultFile is the name of the file beside a configuration.
	DefaultFile = "vmcp.lock"
	// maxFile bounds a file, in bytes.
	maxFile = 256 << 20
	// maxDepth bounds the nesting of a file that is written, so that it can be read again.
	maxDepth = jsonscan.MaxDepth - 8

	version = 1
)

// Read reads a file. It computes every hash again: a file in which a hash does not fit its definition,
// so that the reviewed definition is not the pinned one, is an error.
func Read(path string) (*File, error) {
	data, err := files.Read(path, maxFile)
	if err != nil {
		return nil, diag.Named(path, err)
	}
	return Parse(path, data)
}

// Parse reads the text of a file; path is for messages.
func Parse(path string, data []byte) (*File, error) {
	r := &reader{path: path, data: data, f: New()}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.f, nil
}

// A reader reads one file. Unknown members are errors: those of a later version
// may change what is pinned.
type reader struct {
	path string
	data []byte
	f    *File
}

func (r *reader) read() error {
	if err := jsonscan.Check(r.data); err != nil {
		return r.syntax(err)
	}
	var number int
	parts := map[string]json.RawMessage{}
	err := r.members("", bytes.TrimSpace(r.data), func(key string, value []byte) error {
		switch key {
		case "version":
			if err := json.Unmarshal(value, &number); err != nil || number != version {
				return r.wrong(value, "version: want %d, have %s; a newer vmcp may have written it", version, value)
			}
		case "backends", "entries":
			parts[key] = value
		default:
			return r.wrong(value, "unknown member %q; a newer vmcp may have written it", key)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case number == 0:
		return r.wrong(r.data, "want version: %d, have none", version)
	}
	if err := r.members("backends", parts["backends"], r.backend); err != nil {
		return err
	}
	return r.members("entries", parts["entries"], r.entry)
}

// members visits the members of an object, each name once. A missing object has none.
func (r *reader) members(at string, object []byte, visit func(key string, value []byte) error) (err error) {
	if object == nil {
		return nil
	}
	if kind := jsonscan.Kind(object); kind != "an object" {
		return r.wrong(object, "%s", strings.TrimPrefix(at+": want an object, have "+kind, ": "))
	}
	seen := map[string]bool{}
	jsonscan.Each(object, func(k, value []byte) bool {
		key := string(k)
		if seen[key] {
			err = r.wrong(value, "%sduplicate member %q", strings.TrimPrefix(at+": ", ": "), key)
			return false
		}
		seen[key] = true
		err = visit(key, value)
		return err == nil
	})
	return err
}

func (r *reader) backend(name string, value []byte) error {
	var b Backend
	sum, at := "", fmt.Sprintf("backends: %q", name)
	err := r.members(at, value, func(key string, v []byte) error {
		field, ok := map[string]*string{"instructions": &sum, "instructionsText": &b.Instructions, "revision": &b.Revision, "server": &b.Server}[key]
		if !ok {
			return r.wrong(v, "%s: unknown member %q", at, key)
		}
		return r.text(at+": "+key, v, field)
	})
	if err != nil {
		return err
	}
	if sum != sumOf(b.Instructions) {
		return r.wrong(value, "%s: instructions is not the hash of instructionsText: one of the two was edited; run vmcp lock", at)
	}
	r.f.Backends[name] = b
	return nil
}

// sumOf is the hash of instructions; "" for none.
func sumOf(instructions string) string {
	if instructions == "" {
		return ""
	}
	return Sum([]byte(instructions))
}

func (r *reader) entry(key string, value []byte) error {
	var kind string
	var e Entry
	var raw []byte
	at := fmt.Sprintf("entries: %q", key)
	n, err := ParseName(key)
	if err != nil || n.Kind == Instructions {
		return r.wrong(value, "%s: want a name such as backend.tool or prompt:backend.name", at)
	}
	err = r.members(at, value, func(key string, v []byte) error {
		switch key {
		case "definition":
			raw = v
			return nil
		case "kind":
			return r.text(at+": kind", v, &kind)
		case "sha256":
			return r.text(at+": sha256", v, &e.SHA256)
		}
		return r.wrong(v, "%s: unknown member %q", at, key)
	})
	if err != nil {
		return err
	}
	if kind != string(n.Kind) {
		return r.wrong(value, "%s: kind: want %s, have %q", at, n.Kind, kind)
	}
	if e.Definition, err = Definition(raw); err != nil {
		return r.wrong(value, "%s: definition: %v", at, err)
	}
	if Sum(e.Definition) != e.SHA256 {
		return r.wrong(value, "%s: sha256 is not the hash of the definition: one of the two was edited; run vmcp lock", at)
	}
	r.f.Entries[n] = e
	return nil
}

func (r *reader) text(at string, v []byte, into *string) error {
	if kind := jsonscan.Kind(v); kind != "a string" {
		return r.wrong(v, "%s: want a string, have %s", at, kind)
	}
	return json.Unmarshal(v, into)
}

// wrong is a problem at the beginning of part, a slice of the file's text.
func (r *reader) wrong(part []byte, format string, args ...any) error {
	return r.at(cap(r.data)-cap(part), fmt.Sprintf(format, args...))
}

// at is a problem at a byte of the file.
func (r *reader) at(offset int, message string) error {
	before := r.data[:min(max(offset, 0), len(r.data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:])))
	return diag.Problem{Pos: diag.Pos{File: diag.File(r.path), Line: line, Column: column}, Code: Code, Message: message}
}

// Code is that of problems with the file.
const Code = "lock"

// syntax is the problem of a text that is no JSON, with its position.
func (r *reader) syntax(err error) error {
	for _, mark := range []string{"<<<<<<< ", "=======", ">>>>>>> "} {
		if i := bytes.Index(r.data, []byte("\n"+mark)); i >= 0 {
			return r.at(i+1, "a merge that was not finished: take one side, and run vmcp lock --check")
		}
	}
	var v any
	var where *json.SyntaxError
	if errors.As(json.Unmarshal(r.data, &v), &where) {
		return r.at(int(where.Offset)-1, "not JSON: "+where.Error())
	}
	return r.at(0, "not JSON: "+err.Error())
}

// Bytes is the text of the file: with sorted members, an indentation of two spaces, a final newline, and escapes for
// invisible characters.
func (f *File) Bytes() ([]byte, error) {
	text := []byte(`{"backends":{`)
	comma := func() {
		if text[len(text)-1] != '{' {
			text = append(text, ',')
		}
	}
	for name, b := range f.Backends {
		comma()
		text = b.append(append(append(text, quote(name)...), ':'))
	}
	text = append(text, `},"entries":{`...)
	for n, e := range f.Entries {
		comma()
		text = append(append(text, quote(n.String())...), `:{"definition":`...)
		text = append(text, e.Definition...)
		text = fmt.Appendf(text, `,"kind":"%s","sha256":"%s"}`, n.Kind, e.SHA256)
	}
	text, err := Canonical(fmt.Appendf(text, `},"version":%d}`, version))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DefaultFile, err)
	}
	if err := fits(text); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, fmt.Errorf("%s: %w", DefaultFile, err)
	}
	out.WriteByte('\n')
	return display.JSON(out.Bytes()), nil
}

func (b Backend) append(text []byte) []byte {
	text = append(text, '{')
	for _, m := range [...]struct{ name, value string }{
		{"instructions", sumOf(b.Instructions)}, {"instructionsText", b.Instructions}, {"revision", b.Revision}, {"server", b.Server},
	} {
		if m.value == "" {
			continue
		}
		if text[len(text)-1] != '{' {
			text = append(text, ',')
		}
		text = append(append(append(text, quote(m.name)...), ':'), quote(m.value)...)
	}
	return append(text, '}')
}

func quote(s string) []byte { return jsonscan.Quote(strings.ToValidUTF8(s, "\ufffd")) }

// fits returns an error if the indented text would exceed the bounds of a file: indented, deeply nested text is many
// times as long.
func fits(text []byte) error {
	size, depth, inText := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
			size += 2*depth + 1
		case c == '}' || c == ']':
			depth--
			size += 2*depth + 1
		case c == ',':
			size += 2*depth + 1
		}
		if depth > maxDepth {
			return fmt.Errorf("%s: a definition nests deeper than %d", DefaultFile, maxDepth)
		}
	}
	if size > maxFile {
		return fmt.Errorf("%s: would be larger than %d MB", DefaultFile, maxFile>>20)
	}
	return nil
}

// Update changes a file under a lock between processes, so that no concurrent change is
// lost. change gets the content of the file, or an empty File where there is none. Update reports whether
// the file was written: one whose bytes do not change is not written. Symbolic links are followed, and the
// file keeps its mode.
func Update(path string, change func(*File) error) (written bool, err error) {
	path = led(path)
	unlock, err := files.Lock(path + ".lock")
	if err != nil {
		return false, err
	}
	defer unlock()
	f, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = New(), nil
	}
	if err != nil {
		return false, err
	}
	if err := change(f); err != nil {
		return false, err
	}
	text, err := f.Bytes()
	if err != nil {
		return false, err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	return true, files.Replace(path, text)
}

// led follows symbolic links from a path, also to a file that does not exist yet.
func led(path string) string {
	for range 40 { // as many links as the system follows
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}
