package meter

import (
	"slices"

	"go.starlark.net/syntax"
)

// Several tools may be defined in one file. A tool can call what the top level of the file calls, and what is
// reachable from the tool's function. A function is reachable where its name is mentioned, called or not; there is no
// other way to refer to one.

// Part is a statement at the top level of a file.
type Part struct {
	Stmt     syntax.Stmt
	function string   // the function that it defines; "": it is executed with the file
	mentions []string // names in it
}

// Parts returns the top-level statements of a file.
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

// Reached returns the indexes of the parts that a call of function reaches.
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
