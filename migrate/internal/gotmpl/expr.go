package gotmpl

import (
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// Kind is the static type of a value.
type Kind int

// The kinds. Int is an integer of Go, as opposed to a number of JSON; Nil is a missing value.
const (
	anyKind Kind = iota
	nilKind
	Text
	Bool
	Int
	float
	Map
	list
)

// Expr is a Starlark expression.
type Expr struct {
	Code string
	Kind Kind
	// Maybe says that the value may also be None.
	Maybe bool
	// Rank is the precedence of the outermost operator; 0 for a name, a call or a literal.
	Rank Rank
	// Text is the value of a literal of kind Text.
	Text    string
	Literal bool
	// Value says that the code is the value of a variable or of parentheses, whose type the
	// template engine names in errors, unlike that of a field.
	Value bool
	// From and Key are set when the value is that of a key in a map.
	From, Key string
}

// Rank is the precedence of an operator.
type Rank int

// The ranks, the lowest precedence first. Atom is the rank of code without an operator.
const (
	atom Rank = iota
	or
	and
	not
	compare
	arithmetic
)

// Operand returns the code of e as an operand of any operator: in parentheses unless it is a name, a call or a literal.
func (e Expr) Operand() string { return e.in(arithmetic) }

// in returns the code of e as an operand of an operator of rank r, in parentheses where they are needed.
func (e Expr) in(r Rank) string {
	if e.Rank != atom && e.Rank <= r {
		return "(" + e.Code + ")"
	}
	return e.Code
}

// String returns the expression of a text.
func String(s string) Expr {
	return Expr{Code: Quote(s), Kind: Text, Text: s, Literal: true}
}

// None is the expression of a missing value.
var None = Expr{Code: "None", Kind: nilKind, Maybe: true}

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

// compact reports whether a single argument of several lines may follow the bracket on the same line.
func compact(s string) bool {
	return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") || strings.HasPrefix(s, `"`) && !strings.HasPrefix(s, `"""`)
}
