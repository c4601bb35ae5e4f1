package meter

import (
	"math/big"

	"go.starlark.net/syntax"
)

// What the text of a file shows without running it.

// isNative reports whether an operation needs no metering, whatever values its operands have at run time.
func (r *rewriter) isNative(e *syntax.BinaryExpr) bool {
	switch e.Op {
	case syntax.AND, syntax.OR:
		return true
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		return r.literal(e.X) || r.literal(e.Y)
	case syntax.IN, syntax.NOT_IN:
		return r.literal(e.Y) || r.literalDisplay(e.Y)
	case syntax.PLUS:
		return concatenation(e)
	}
	return false
}

// literal reports whether e is a small constant.
func (r *rewriter) literal(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Literal:
		_, big := e.Value.(*big.Int)
		return !big && len(e.Raw) < blockPerStep
	case *syntax.Ident:
		switch e.Name {
		case "None", "True", "False":
			return !r.bound[e.Name]
		}
	case *syntax.UnaryExpr:
		lit, ok := e.X.(*syntax.Literal)
		return ok && lit.Token == syntax.INT && e.Op == syntax.MINUS && r.literal(lit)
	}
	return false
}

// literalDisplay reports whether e is a short list or tuple of constants.
func (r *rewriter) literalDisplay(e syntax.Expr) bool {
	var list []syntax.Expr
	switch e := unparen(e).(type) {
	case *syntax.ListExpr:
		list = e.List
	case *syntax.TupleExpr:
		list = e.List
	default:
		return false
	}
	for _, x := range list {
		if !r.literal(x) {
			return false
		}
	}
	return len(list) <= 64
}

// concatenation reports whether e is a sum of string literals.
func concatenation(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return e.Op == syntax.PLUS && concatenation(e.X) && concatenation(e.Y)
	case *syntax.Literal:
		return e.Token == syntax.STRING && len(e.Raw) < 64
	}
	return false
}

// frameWeight returns what a call of a function is charged beyond its steps: for the dict of its **kwargs, and for a
// frame of very many values. Large frames are noted.
func (r *rewriter) frameWeight(fn syntax.Node, pos syntax.Position, params []syntax.Expr) (weight int) {
	for _, p := range params {
		if u, ok := p.(*syntax.UnaryExpr); ok && u.Op == syntax.STARSTAR {
			weight += int(weightOfDict(0))
		}
	}
	vars, most := frameSlots(fn)
	r.frames.Note(pos, most)
	if vars+most > maxFrame {
		weight += frameWeight(vars + most)
	}
	return weight
}

// maxFrame is how many values a frame may hold before each call is charged for making it. While frames exist they are
// charged by their high-water mark.
const maxFrame = 500

// frameSlots returns an upper bound for the number of variables of fn, and for that of the operands of its largest
// expression: the nodes of its tree.
func frameSlots(fn syntax.Node) (vars, most int) {
	root := true
	syntax.Walk(fn, func(n syntax.Node) bool {
		inner := !root && isFunction(n)
		root = false
		switch n := n.(type) {
		case *syntax.AssignStmt:
			vars += operands(n.LHS)
			most = max(most, operands(n.RHS))
		case *syntax.ForStmt:
			vars += operands(n.Vars)
			most = max(most, operands(n.X))
		case *syntax.ForClause:
			vars += operands(n.Vars)
		case *syntax.DefStmt:
			vars += len(n.Params) + 1
		case *syntax.LambdaExpr:
			vars += len(n.Params)
			most = max(most, operands(n.Body))
		case *syntax.ExprStmt:
			most = max(most, operands(n.X))
		case *syntax.IfStmt:
			most = max(most, operands(n.Cond))
		case *syntax.WhileStmt:
			most = max(most, operands(n.Cond))
		case *syntax.ReturnStmt:
			if n.Result != nil {
				most = max(most, operands(n.Result))
			}
		}
		return !inner
	})
	return vars, most
}

// operands counts the nodes of an expression.
func operands(e syntax.Node) (n int) {
	syntax.Walk(e, func(child syntax.Node) bool {
		if child != nil {
			n++
		}
		return true
	})
	return n
}
