// Package diag has the common form of problems in configurations, scripts, libraries and
// workflows, for all parts of the program and all commands.
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

// Pos is a position in a file; lines and columns count from 1, columns in characters. Zero means unknown.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns file:line:column, or the file alone without a line.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Severity is error or warning. The zero value is Error.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

func (s Severity) String() string { return string(cmp.Or(s, Error)) }

// MarshalText writes the zero value as "error".
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Problem is one mistake, or probable mistake, with its position.
type Problem struct {
	Pos
	// EndLine and EndColumn are the position after the last character; 0 when only the start
	// is known.
	EndLine   int      `json:"endLine,omitempty"`
	EndColumn int      `json:"endColumn,omitempty"`
	Severity  Severity `json:"severity"`
	// Code identifies the kind of problem.
	Code string `json:"code"`
	// Message says what is wrong and what would be right. It contains no values of headers
	// and environment variables.
	Message string `json:"message"`
	// Hint says what was probably meant; "" when that is not known.
	Hint string `json:"hint,omitempty"`
	// Path is the path of a field of the configuration or of a workflow, such as scriptedTools[2].script.
	Path string `json:"path,omitempty"`
	// Backend and Entry identify the entry of the catalog that the problem concerns: an entry of a
	// backend, or a scripted tool.
	Backend string    `json:"backend,omitempty"`
	Entry   string    `json:"entry,omitempty"`
	Related []Related `json:"related,omitempty"`
	// Fix is a change of the text that solves the problem; nil for none.
	Fix *Fix `json:"fix,omitempty"`
}

// Fix is a change of the text.
type Fix struct {
	Title string `json:"title"`
	Edits []Edit `json:"edits"`
	// Safe is set when the fix cannot change the meaning of a correct script: vmcp check --fix applies it.
	Safe bool `json:"-"`
}

// Edit replaces the text between two positions.
type Edit struct {
	Pos
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
	Text      string `json:"text"`
}

// Says returns the problem with a message. A "did you mean" at the end of the message becomes the hint.
func (p Problem) Says(message string) Problem {
	p.Message = message
	if i := strings.LastIndex(message, "; did you mean "); i >= 0 && strings.HasSuffix(message, "?") {
		p.Message, p.Hint = message[:i], message[i+len("; "):]
	}
	return p
}

// Text returns the problem for a line that names backend and entry itself: Error for a problem in a
// file, else the message.
func (p Problem) Text() string {
	if p.File != "" {
		return p.Error()
	}
	return oneLine(p.Message)
}

// Related is another position that belongs to a problem.
type Related struct {
	Pos
	Message string `json:"message"`
}

// Error returns the problem in one line, in the form that editors parse:
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

// oneLine escapes the control characters of a text, because names come from untrusted files.
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

// Problems is a list of problems; as an error it has a line for each.
type Problems []Problem

// Error is one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems as an error; nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Split returns the errors and the warnings.
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

// Sorted returns the problems in the order of files and positions, without duplicates.
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

// OnePerPlace is Sorted with only the first of several problems with the same position and code.
func (p Problems) OnePerPlace() Problems {
	return slices.CompactFunc(p.Sorted(), func(a, b Problem) bool { return a.Pos == b.Pos && a.Code == b.Code })
}

// Origin is the position of the text of a script in a file.
type Origin struct {
	// Pos is the position of the first character if Exact: the text is in the file
	// unchanged, line by line, with the same indentation. Otherwise it is the position of
	// another form of the text, such as a quoted string.
	Pos
	Exact bool
}

// InFile returns the origin of a text that is a whole file.
func InFile(name string) Origin {
	return Origin{Pos: Pos{File: File(name), Line: 1, Column: 1}, Exact: true}
}

// Named returns err with the name of its file, unless it is a *fs.PathError, which has the name.
func Named(name string, err error) error {
	if _, named := errors.AsType[*fs.PathError](err); err == nil || named {
		return err
	}
	return fmt.Errorf("%s: %w", File(name), err)
}

// File returns the name of a file for problems: with slashes, relative to the working
// directory for files below it, else absolute. Names such as "<stdin>" are unchanged.
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
