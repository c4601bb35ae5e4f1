package types

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// This part of the package defines the mistakes that following types finds, and words their messages: types, expressions,
// numbers of things, and suggestions.

// FindingProblem is a mistake, with the node that causes it.
type FindingProblem struct {
	Code          string
	Warning       bool
	Node          syntax.Node
	Message, Hint string
	Fix           string // the text that may replace the node; "" for none
	Sure          bool   // Fix is a name, and the only likely one
}

// article names a type in messages: a string, an integer or None.
func article(t Type) string {
	if t.IsAny() {
		return "anything"
	}
	var names []string
	for _, a := range t.Atoms() {
		name := a.Kind.String()
		if a.Kind == Struct && a.Name != "" {
			name = a.Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return list2(names, "or")
}

// describe names an expression in messages: its last part, or all of it if it is short.
func describe(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return describe(x.X)
	case *syntax.Ident:
		return x.Name
	case *syntax.IndexExpr:
		if lit, ok := x.Y.(*syntax.Literal); ok {
			if s, ok := lit.Value.(string); ok {
				return s
			}
		}
		return describe(x.X) + "[...]"
	case *syntax.DotExpr:
		return describe(x.X) + "." + x.Name.Name
	case *syntax.CallExpr:
		if dot, ok := x.Fn.(*syntax.DotExpr); ok && dot.Name.Name == "get" && len(x.Args) > 0 {
			if lit, ok := x.Args[0].(*syntax.Literal); ok {
				if s, ok := lit.Value.(string); ok {
					return s
				}
			}
		}
		return "the result of " + describe(x.Fn)
	}
	return "this"
}

// meant returns the hint for a suggested name, and the name.
func meant(name string, names []string) (hint, near string) {
	near = display.Nearest(name, names)
	if near == "" || near == name {
		return "", ""
	}
	return "did you mean " + near + "?", near
}

// plural returns a number of things: 1 value, 2 values.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// quoted returns a name as a string literal of the script, "" for none.
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return `"` + name + `"`
}

// bare names a type without its article.
func bare(t Type) string {
	return strings.NewReplacer("an ", "", "a ", "").Replace(article(t))
}

// arguments returns how many arguments a function requires, with the names of its parameters.
func arguments(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return plural(len(names), "argument") + " (" + strings.Join(names, ", ") + ")"
}

// secondsText returns a duration as scripts write it: 1m30s for 90.
func secondsText(s float64) string {
	d := time.Duration(s * float64(time.Second)).String()
	d = strings.TrimSuffix(d, "0s")
	d = strings.TrimSuffix(d, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(d, "h0m")]
	if d == "" || d[len(d)-1] >= '0' && d[len(d)-1] <= '9' {
		d += "0s"
	}
	return d
}
