package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a configuration file; lines and columns count from 1, columns
// in characters.
type Pos struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// String is file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Problem is one thing that is wrong with a configuration file.
type Problem struct {
	Pos
	// Path names the field, such as scriptedTools[2].script; empty for the file itself.
	Path string `json:"path,omitempty"`
	// Message says what is wrong and what would be right. It holds no values of
	// headers and environment variables.
	Message string `json:"message"`
}

// Error is file:line:column: path: message.
func (p Problem) Error() string {
	if p.Path == "" {
		return fmt.Sprintf("%s: %s", p.Pos, p.Message)
	}
	return fmt.Sprintf("%s: %s: %s", p.Pos, p.Path, p.Message)
}

// Errors are all the problems of a file, in its order.
type Errors []Problem

// Error is one line per problem.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns e in the order of the file.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Path, b.Path))
	})
	return e
}
