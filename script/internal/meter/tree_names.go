package meter

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// Each hint takes a comparison with all names, so only the first problems get one.
const (
	enoughHints     = 10 // problems of one file that get a hint
	enoughUndefined = 50
)

// SomeUndefined reports which names are predeclared. After a number of undefined names it accepts any name: the
// resolver compares each of them with all names of the file, which takes minutes for a file that consists of them.
func SomeUndefined(predeclared starlark.StringDict) func(string) bool {
	undefined := 0
	return func(name string) bool {
		if predeclared.Has(name) {
			return true
		}
		if starlark.Universe.Has(name) {
			return false
		}
		undefined++
		return undefined > enoughUndefined
	}
}

// Names returns all names that the file binds anywhere, and the predeclared ones, sorted.
func Names(f *syntax.File, predeclared starlark.StringDict) []string {
	names := slices.Concat(definedNames(f), slices.Collect(maps.Keys(predeclared)), slices.Collect(maps.Keys(starlark.Universe)))
	slices.Sort(names)
	return names
}

// Suggestions returns a function that adds to an error about undefined names those that were probably meant. The tree
// is read now; it may change afterwards.
func Suggestions(f *syntax.File, predeclared starlark.StringDict) func(error) error {
	names := Names(f, predeclared)
	return func(err error) error {
		var list resolve.ErrorList
		if !errors.As(err, &list) {
			return err
		}
		for i, e := range list[:min(len(list), enoughHints)] {
			name, ok := strings.CutPrefix(e.Msg, "undefined: ")
			near := display.Nearest(name, names) // name itself if another function binds it
			if ok && near != "" && near != name && !strings.Contains(near, " ") {
				list[i].Msg += " (did you mean " + near + "?)"
			}
		}
		return list
	}
}

// definedNames returns the names that a file binds anywhere.
func definedNames(f *syntax.File) (names []string) {
	add := func(id *syntax.Ident) { names = append(names, id.Name) }
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			add(n.Name)
			for _, p := range n.Params {
				if id, ok := p.(*syntax.Ident); ok {
					add(id)
				}
			}
		case *syntax.AssignStmt:
			EachName(n.LHS, add)
		case *syntax.ForStmt:
			EachName(n.Vars, add)
		case *syntax.LoadStmt:
			for _, id := range n.To {
				add(id)
			}
		}
		return true
	})
	return names
}

// Bound returns the names that a file assigns anywhere. An augmented assignment alone does not count.
func Bound(f *syntax.File) map[string]bool {
	bound := map[string]bool{}
	bind := func(e syntax.Node) {
		syntax.Walk(e, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok {
				bound[id.Name] = true
			}
			return true
		})
	}
	bindAll := func(list []syntax.Expr) {
		for _, e := range list {
			bind(e)
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			if n.Op == syntax.EQ {
				bind(n.LHS)
			}
		case *syntax.ForStmt:
			bind(n.Vars)
		case *syntax.ForClause:
			bind(n.Vars)
		case *syntax.DefStmt:
			bind(n.Name)
			bindAll(n.Params)
		case *syntax.LambdaExpr:
			bindAll(n.Params)
		case *syntax.LoadStmt:
			for _, id := range n.To {
				bind(id)
			}
		}
		return true
	})
	return bound
}
