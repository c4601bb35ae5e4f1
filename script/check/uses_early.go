package check

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// ReadTooEarly returns the read of a function's name that comes before the name is assigned; nil for none.
func (u *uses) ReadTooEarly(b *name) *syntax.Ident {
	if len(b.read) == 0 {
		return nil
	}
	first := b.read[0]
	for _, r := range b.read {
		if meter.Before(r.NamePos, first.NamePos) {
			first = r
		}
	}
	set := b.Assigned[0]
	if meter.Before(set.NamePos, first.NamePos) && !ownValue(b, set, first) || u.sameLoop(first, set) || b.inner(first) {
		return nil
	}
	return first
}

// ownValue reports whether a name is read in the statement that first assigns it.
func ownValue(b *name, set, read *syntax.Ident) bool {
	def, ok := b.Function.(*syntax.DefStmt)
	if !ok {
		return false
	}
	found := false
	for _, s := range def.Body {
		found = found || sameStatement(s, read, set)
	}
	return found
}

// inner reports whether a use is in a function inside the one that the name belongs to: it is executed later.
func (b *name) inner(use *syntax.Ident) bool {
	found := false
	var body []syntax.Stmt
	switch fn := b.Function.(type) {
	case *syntax.DefStmt:
		body = fn.Body
	default:
		return true
	}
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.DefStmt, *syntax.LambdaExpr:
				start, end := n.Span()
				found = found || meter.Inside(use.NamePos, start, end)
				return false
			}
			return true
		})
	}
	return found
}

// sameLoop reports whether two uses are in a common loop, where the later one in the text may be executed first.
func (u *uses) sameLoop(a, b *syntax.Ident) bool {
	if a == b {
		return false
	}
	for _, x := range u.loops[a] {
		for _, y := range u.loops[b] {
			if x == y && a.NamePos != b.NamePos && !sameStatement(x, a, b) {
				return true
			}
		}
	}
	return false
}

// sameStatement reports whether a name is read in the statement that assigns it.
func sameStatement(loop syntax.Node, read, set *syntax.Ident) bool {
	found := false
	syntax.Walk(loop, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.AssignStmt); ok && a.LHS == syntax.Expr(set) {
			start, end := a.RHS.Span()
			found = read == set || meter.Inside(read.NamePos, start, end)
		}
		return true
	})
	return found
}
