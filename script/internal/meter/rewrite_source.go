package meter

import (
	"fmt"
	"math/big"

	"go.starlark.net/syntax"
)

// Bounds on the tree of a file. The parser bounds its own recursion, but parses chains such as 1+1+1+… in a loop, and
// the passes after it recurse.
const (
	maxTreeDepth  = 500
	maxFunctions  = 32 // nested functions
	maxClauses    = 32 // of one comprehension
	maxParams     = 255
	maxIntLiteral = 4096 // digits
	maxName       = 255  // bytes: names are compared with similar ones
)

// Check refuses trees that are too large for later passes, or have more nodes than most. It does not recurse.
func Check(f *syntax.File, most int) error {
	type place struct {
		node             syntax.Node
		depth, functions int
	}
	var stack []place
	for _, s := range f.Stmts {
		stack = append(stack, place{node: s})
	}
	for n := 0; len(stack) > 0; n++ {
		if n >= most {
			return syntax.Error{Msg: fmt.Sprintf("the file has more than %d nodes (names, literals, operators, statements), the limit of sourceNodes", most), Pos: Beginning(f)}
		}
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if isFunction(p.node) {
			p.functions++
		}
		if msg := tooMuch(p.node, p.depth, p.functions); msg != "" {
			return syntax.Error{Msg: msg, Pos: placeOf(p.node, f)}
		}
		eachChild(p.node, func(child syntax.Node) {
			stack = append(stack, place{child, p.depth + 1, p.functions})
		})
	}
	return nil
}

func isFunction(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.DefStmt, *syntax.LambdaExpr:
		return true
	}
	return false
}

// tooMuch returns what is too large about a node, or "".
func tooMuch(n syntax.Node, depth, functions int) string {
	if depth > maxTreeDepth {
		return fmt.Sprintf("nested more than %d deep, or a chain of more than %d operators: use variables", maxTreeDepth, maxTreeDepth)
	}
	if functions > maxFunctions {
		return fmt.Sprintf("functions nested more than %d deep", maxFunctions)
	}
	switch n := n.(type) {
	case *syntax.Ident:
		if len(n.Name) > maxName {
			return fmt.Sprintf("name of %d bytes, at most %d are allowed", len(n.Name), maxName)
		}
	case *syntax.Literal:
		if i, ok := n.Value.(*big.Int); ok && i.BitLen() > maxIntLiteral*10/3 {
			return fmt.Sprintf("integer of %d digits, at most %d are allowed", len(n.Raw), maxIntLiteral)
		}
	case *syntax.Comprehension:
		if len(n.Clauses) > maxClauses {
			return fmt.Sprintf("comprehension of %d clauses, at most %d are allowed", len(n.Clauses), maxClauses)
		}
	case *syntax.DefStmt:
		if len(n.Params) > maxParams {
			return fmt.Sprintf("function of %d parameters, at most %d are allowed", len(n.Params), maxParams)
		}
	case *syntax.LambdaExpr:
		if len(n.Params) > maxParams {
			return fmt.Sprintf("function of %d parameters, at most %d are allowed", len(n.Params), maxParams)
		}
	}
	return ""
}

// placeOf returns a position in n without walking down a chain, as Span would.
func placeOf(n syntax.Node, f *syntax.File) syntax.Position {
	switch n := n.(type) {
	case *syntax.BinaryExpr:
		return n.OpPos
	case *syntax.CallExpr:
		return n.Lparen
	case *syntax.DotExpr:
		return n.Dot
	case *syntax.IndexExpr:
		return n.Lbrack
	case *syntax.SliceExpr:
		return n.Lbrack
	case *syntax.CondExpr:
		return n.If
	case *syntax.Ident:
		return n.NamePos
	case *syntax.Literal:
		return n.TokenPos
	case *syntax.UnaryExpr:
		return n.OpPos
	case *syntax.LambdaExpr:
		return n.Lambda
	case *syntax.DefStmt:
		return n.Def
	case *syntax.Comprehension:
		return n.Lbrack
	case *syntax.IfStmt:
		return n.If
	case *syntax.ListExpr:
		return n.Lbrack
	case *syntax.ParenExpr:
		return n.Lparen
	}
	return syntax.MakePosition(&f.Path, 1, 1)
}

// eachChild calls visit for the children of n.
func eachChild(n syntax.Node, visit func(syntax.Node)) {
	root := true
	syntax.Walk(n, func(child syntax.Node) bool {
		if root {
			root = false
			return true
		}
		if child != nil {
			visit(child)
		}
		return false
	})
}
