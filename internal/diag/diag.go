// Package diag is the one form of problems: of configurations, scripts, libraries and
// workflows, found by whichever part of the program, reported by any command.
//
//	tools/refund.star:14:31: error: no tool "shop_refnd"; did you mean "shop_refund"? [tool-unknown]
package diag

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Pos is a place in a file; lines and columns count from 1, columns in characters.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String is file:line:column, as far as it is known.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Severity says whether a problem keeps something from working. The zero value is Error.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

func (s Severity) String() string { return string(cmp.Or(s, Error)) }

// MarshalText writes the zero value as what it means.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Problem is one thing that is wrong, or may not be meant, and where.
type Problem struct {
	Pos
	// EndLine and EndColumn are behind the last character of what is wrong; 0 when there
	// is only the place where it begins.
	EndLine   int      `json:"endLine,omitempty"`
	EndColumn int      `json:"endColumn,omitempty"`
	Severity  Severity `json:"severity"`
	// Code names the kind of problem.
	Code string `json:"code"`
	// Message says what is wrong and what would be right. It holds no values of headers
	// and environment variables.
	Message string `json:"message"`
	// Hint says what was probably meant; "" when there is no telling.
	Hint string `json:"hint,omitempty"`
	// Path names a field of the configuration or of a workflow, such as scriptedTools[2].script.
	Path string `json:"path,omitempty"`
	// Backend and Entry name what of the catalog it is about: the entry of a backend that clients
	// do not get as it is offered, or a scripted tool.
	Backend string    `json:"backend,omitempty"`
	Entry   string    `json:"entry,omitempty"`
	Related []Related `json:"related,omitempty"`
	// Fix is a change of the text that ends the problem; nil when there is no telling.
	Fix *Fix `json:"fix,omitempty"`
}

// Fix is a change of the text.
type Fix struct {
	Title string `json:"title"`
	Edits []Edit `json:"edits"`
	// Safe says that it cannot change what a correct script means: vmcp check --fix applies it.
	Safe bool `json:"-"`
}

// Edit puts a text in the place of another.
type Edit struct {
	Pos
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
	Text      string `json:"text"`
}

// Text is what a line says that names backend and entry by itself: Error for what is in a file,
// else the message.
func (p Problem) Text() string {
	if p.File != "" {
		return p.Error()
	}
	return oneLine(p.Message)
}

// Related is another place that belongs to a problem.
type Related struct {
	Pos
	Message string `json:"message"`
}

// Error is the problem in one line, as editors read it:
//
//	file:line:column: severity: path: message; hint [code]
func (p Problem) Error() string {
	var b strings.Builder
	for _, part := range []string{p.Pos.String(), p.Severity.String(), p.Path} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	if p.Code != "" {
		b.WriteString(" [" + p.Code + "]")
	}
	return oneLine(b.String())
}

// oneLine escapes the characters of a text that a line or a terminal does not show: names
// come from files that anybody may have written.
func oneLine(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Problems are several of them; as an error they are a line each.
type Problems []Problem

// Error is one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is the problems as an error; nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Split returns the errors and the warnings apart.
func (p Problems) Split() (errors, warnings Problems) {
	for _, one := range p {
		if one.Severity == Warning {
			warnings = append(warnings, one)
		} else {
			errors = append(errors, one)
		}
	}
	return errors, warnings
}

// Sorted returns the problems in the order of the files and their text, each once.
func (p Problems) Sorted() Problems {
	out := slices.Clone(p)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path))
	})
	type identity struct {
		Pos
		code, path, message string
	}
	seen := map[identity]bool{}
	return slices.DeleteFunc(out, func(one Problem) bool {
		id := identity{one.Pos, one.Code, one.Path, one.Message}
		twice := seen[id]
		seen[id] = true
		return twice
	})
}

// OnePerPlace is Sorted, and leaves the first of several problems with one place and code.
func (p Problems) OnePerPlace() Problems {
	return slices.CompactFunc(p.Sorted(), func(a, b Problem) bool { return a.Pos == b.Pos && a.Code == b.Code })
}

// Origin says where the text of a script stands.
type Origin struct {
	// Pos is where its first character stands if the text stands there as it is: each
	// line below the other, all with the same indentation. Else it is where the text is
	// written down in some other form, such as a quoted one.
	Pos
	Exact bool
}

// InFile is the origin of a text that is a file of its own.
func InFile(name string) Origin {
	return Origin{Pos: Pos{File: File(name), Line: 1, Column: 1}, Exact: true}
}

// Named is err with the name of the file that it is about, unless it says that itself.
func Named(name string, err error) error {
	if _, named := errors.AsType[*fs.PathError](err); err == nil || named {
		return err
	}
	return fmt.Errorf("%s: %w", File(name), err)
}

// File is the name of a file as problems show it: with slashes, relative to the working
// directory when it lies below, else absolute. What is no file keeps its name: "<stdin>".
func File(name string) string {
	if name == "" || strings.HasPrefix(name, "<") {
		return name
	}
	abs, err := filepath.Abs(name)
	if err != nil { // the working directory is gone
		return filepath.ToSlash(name)
	}
	if dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir) {
		if rel, err := filepath.Rel(dir, abs); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(abs)
}
