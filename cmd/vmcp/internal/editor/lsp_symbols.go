package editor

import (
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
	"github.com/vmcp-dev/vmcp/script/format"
)

// symbol is an entry of a document's outline.
type symbol struct {
	Name      string    `json:"name"`
	Detail    string    `json:"detail,omitempty"`
	Kind      int       `json:"kind"`
	Range     textRange `json:"range"`
	Selection textRange `json:"selectionRange"`
}

// Kinds of symbols.
const (
	symbolTool     = 11 // "interface"
	symbolFunction = 12
	symbolVariable = 13
)

// symbols answers textDocument/documentSymbol: the tools, functions and variables of all scripts of a document, in the order of
// the text. A script with a syntax error has none.
func (s *server) symbols(d *doc, _ placeParams) ([]symbol, error) {
	out := []symbol{}
	for _, f := range d.allScripts() {
		tree, err := script.Parse(f, script.Limits{})
		if err != nil {
			continue
		}
		declared, _ := check.ReadDeclarations(f, script.Limits{})
		for _, stmt := range tree.Stmts {
			switch stmt := stmt.(type) {
			case *syntax.DefStmt:
				out = append(out, symbol{stmt.Name.Name, strings.TrimPrefix(signature(stmt), "def "), symbolFunction, d.text.nodeRange(stmt), d.text.nodeRange(stmt.Name)})
			case *syntax.AssignStmt:
				if id, ok := stmt.LHS.(*syntax.Ident); ok && stmt.Op == syntax.EQ {
					out = append(out, symbol{id.Name, "", symbolVariable, d.text.nodeRange(stmt), d.text.nodeRange(id)})
				}
			case *syntax.ExprStmt:
				for _, t := range declared {
					if p := t.Problem("tool.name"); t.Is(stmt.X) {
						out = append(out, symbol{t.Name, lspFirstLine(t.Description), symbolTool, d.text.nodeRange(stmt), d.text.span(p.Pos, p.EndLine, p.EndColumn)})
					}
				}
			}
		}
	}
	return out, nil
}

// allScripts returns the scripts of a document.
func (d *doc) allScripts() (all []script.File) {
	if !isYAML(d.path) {
		return d.scripts(0)
	}
	for _, b := range format.Blocks(d.path, []byte(d.text.src)) {
		all = append(all, b.File(diag.File(d.path)))
	}
	return all
}

// entryOf is the function that a string names as the entry of a declared tool: tool(..., entry="refund").
func entryOf(tree *syntax.File, lit *syntax.Literal, around []syntax.Node) *syntax.DefStmt {
	if len(around) < 2 {
		return nil
	}
	argument, ok := last(around).(*syntax.BinaryExpr)
	call, isCall := around[len(around)-2].(*syntax.CallExpr)
	if !ok || !isCall {
		return nil
	}
	fn, ok := call.Fn.(*syntax.Ident)
	key, isName := argument.X.(*syntax.Ident)
	if !ok || !isName || !check.NamesEntry(fn.Name, key.Name) {
		return nil
	}
	name, _ := lit.Value.(string)
	return functionOf(tree, name)
}

// functionOf is the function with a name at the top level of a file; nil when there is none.
func functionOf(tree *syntax.File, name string) *syntax.DefStmt {
	for _, stmt := range tree.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

// functions are the functions that a tool can name as its entry.
func (q *query) functions() (items []completionItem) {
	tree := q.known().Tree(q.file(), q.line)
	if tree == nil {
		return nil
	}
	for _, stmt := range tree.Stmts {
		def, ok := stmt.(*syntax.DefStmt)
		if !ok {
			continue
		}
		if _, err := script.EntryOf(tree, def.Name.Name); err == nil {
			items = append(items, completionItem{Label: def.Name.Name, Kind: kindFunction, Detail: signature(def)})
		}
	}
	return items
}
