package tree

import (
	"slices"

	"go.starlark.net/syntax"
)

// Several tools may stand in one file. What such a tool can call is not what the file can call: it is what
// runs with the file, and the functions that the tool's own leads to. A function is reached where its name is
// mentioned, called or not; there is no other way to one.

// Part is a statement at the top level of a file.
type Part struct {
	Stmt     syntax.Stmt
	function string   // that it defines; "": it runs with the file
	mentions []string // names in it
}

// Parts takes a file apart.
func Parts(f *syntax.File) []Part {
	parts := make([]Part, len(f.Stmts))
	for i, s := range f.Stmts {
		parts[i].Stmt = s
		if def, ok := s.(*syntax.DefStmt); ok {
			parts[i].function = def.Name.Name
		}
		syntax.Walk(s, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok {
				parts[i].mentions = append(parts[i].mentions, id.Name)
			}
			return true
		})
		slices.Sort(parts[i].mentions)
		parts[i].mentions = slices.Compact(parts[i].mentions)
	}
	return parts
}

// Reached are the parts that a call of a function gets to, by their places in the file.
func Reached(parts []Part, function string) (all []int) {
	seen := make([]bool, len(parts))
	wanted := []string{function}
	take := func(i int) {
		seen[i] = true
		all = append(all, i)
		wanted = append(wanted, parts[i].mentions...)
	}
	for i := range parts {
		if parts[i].function == "" {
			take(i)
		}
	}
	byName := map[string][]int{}
	for i := range parts {
		byName[parts[i].function] = append(byName[parts[i].function], i)
	}
	for len(wanted) > 0 {
		name := wanted[len(wanted)-1]
		wanted = wanted[:len(wanted)-1]
		for _, i := range byName[name] {
			if !seen[i] {
				take(i)
			}
		}
	}
	slices.Sort(all)
	return all
}
