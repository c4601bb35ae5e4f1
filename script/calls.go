package script

import (
	"slices"

	"go.starlark.net/syntax"
)

// Calls is what the text of a program says about the tools that it calls.
type Calls struct {
	// Tools are the names given as text to call_tool, try_call_tool and pages, sorted.
	Tools []string
	// Dynamic says that some name is computed, so that there may be more.
	Dynamic bool
}

// toolFunctions take the name of a tool as their first argument.
var toolFunctions = map[string]bool{"call_tool": true, "try_call_tool": true, "pages": true}

// Calls returns the tools that the program and all that it loads can call, as far as
// the text shows them.
func (p *Program) Calls() Calls {
	all := p.main.calls
	for _, f := range p.files {
		all.Tools = append(all.Tools[:len(all.Tools):len(all.Tools)], f.calls.Tools...)
		all.Dynamic = all.Dynamic || f.calls.Dynamic
	}
	slices.Sort(all.Tools)
	all.Tools = slices.Compact(all.Tools)
	return all
}

// callsOf reads the calls of one file.
func callsOf(tree *syntax.File) Calls {
	var c Calls
	direct := map[*syntax.Ident]bool{}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			id, ok := n.Fn.(*syntax.Ident)
			if !ok || !toolFunctions[id.Name] {
				break
			}
			direct[id] = true
			if name, ok := literalString(argument(n, 0, toolParameter(id.Name))); ok {
				c.Tools = append(c.Tools, name)
				break
			}
			c.Dynamic = true
		case *syntax.Ident:
			// The function as a value can be called with anything.
			if toolFunctions[n.Name] && !direct[n] {
				c.Dynamic = true
			}
		}
		return true
	})
	slices.Sort(c.Tools)
	c.Tools = slices.Compact(c.Tools)
	return c
}

// toolParameter is the name of the parameter that takes the tool's name.
func toolParameter(function string) string {
	if function == "pages" {
		return "tool"
	}
	return "name"
}

// argument finds an argument by position or name; nil when the text does not show it.
func argument(c *syntax.CallExpr, index int, name string) syntax.Expr {
	for i, arg := range c.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				if id, ok := arg.X.(*syntax.Ident); ok && id.Name == name {
					return arg.Y
				}
				continue
			}
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				continue
			}
		}
		if i == index {
			return arg
		}
	}
	return nil
}

func literalString(e syntax.Expr) (string, bool) {
	lit, ok := e.(*syntax.Literal)
	if !ok {
		return "", false
	}
	s, ok := lit.Value.(string)
	return s, ok
}
