package gotmpl

import (
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// Kind is what is known of a value before the script runs.
type Kind int

// The kinds. Int is an integer of Go, which JSON numbers never are; Nil is nothing at all.
const (
	Any Kind = iota
	Nil
	Text
	Bool
	Int
	Float
	Map
	List
)

// Expr is a Starlark expression.
type Expr struct {
	Code string
	Kind Kind
	// Maybe says that the value may also be None.
	Maybe bool
	// Rank says how tightly the code holds together; 0 is a name, a call, a literal.
	Rank Rank
	// Text is the value of a literal of kind Text.
	Text    string
	Literal bool
	// Value says that the code is the value of a variable or of parentheses, which the
	// template engine knows better than a part of something.
	Value bool
	// From and Key are set when the value is that of a key in a map.
	From, Key string
}

// Rank orders operators from the loosest to the tightest.
type Rank int

// The ranks of operators.
const (
	Atom Rank = iota
	Or
	And
	Not
	Compare
	Arithmetic
)

// Operand returns the code of e where nothing but a name, a call or a literal fits.
func (e Expr) Operand() string { return e.in(Arithmetic) }

// in returns the code of e as an operand of an operator.
func (e Expr) in(r Rank) string {
	if e.Rank != Atom && e.Rank <= r {
		return "(" + e.Code + ")"
	}
	return e.Code
}

// String returns the expression of a text.
func String(s string) Expr {
	return Expr{Code: Quote(s), Kind: Text, Text: s, Literal: true}
}

// None is the expression of what is missing.
var None = Expr{Code: "None", Kind: Nil, Maybe: true}

// Quote writes s as a Starlark string. Bytes that are not UTF-8 become U+FFFD, as they
// do in JSON.
func Quote(s string) string { return star.Quote(s) }

// Call writes a call, on several lines when it would be a long one.
func Call(fn string, args ...string) string {
	return fn + bracket("(", ")", args)
}

// Dict writes a dict of alternating keys and values.
func Dict(entries []string) string { return bracket("{", "}", entries) }

// ListOf writes a list.
func ListOf(items []string) string { return bracket("[", "]", items) }

// maxLine is the length up to which a bracketed expression stays on one line.
const maxLine = 92

func bracket(left, right string, items []string) string {
	total := len(left) + len(right)
	for _, s := range items {
		total += len(s) + 2
	}
	joined := left + strings.Join(items, ", ") + right
	if total <= maxLine && !strings.Contains(joined, "\n") || len(items) == 0 {
		return joined
	}
	if len(items) == 1 && left == "(" && compact(items[0]) {
		return joined
	}
	var b strings.Builder
	b.WriteString(left + "\n")
	for _, s := range items {
		b.WriteString(s + ",\n")
	}
	b.WriteString(right)
	return b.String()
}

// compact reports whether a lone argument carries its own line breaks well.
func compact(s string) bool {
	return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") || strings.HasPrefix(s, `"`) && !strings.HasPrefix(s, `"""`)
}
