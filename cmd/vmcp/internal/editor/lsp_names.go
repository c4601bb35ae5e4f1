package editor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
	"github.com/vmcp-dev/vmcp/script/format"
)

// tree parses the current text of the script around a line. If that has a syntax error and old is set, it returns the
// tree of the last check.
func (s *server) tree(d *doc, line int, old bool) *syntax.File {
	for _, f := range d.scripts(line) {
		tree, err := script.Parse(f, script.Limits{})
		if err == nil {
			_ = script.Resolve(tree, builtins.All()) // an undefined name has no binding
			return tree
		}
	}
	if !old || d.project == nil {
		return nil
	}
	return d.project.program.Tree(diag.File(d.path), line+1)
}

// scripts is the script around a line, as a list of one; empty where there is no script.
func (d *doc) scripts(line int) []script.File {
	if !isYAML(d.path) {
		return []script.File{{Name: diag.File(d.path), Source: []byte(d.text.src), Origin: diag.InFile(d.path)}}
	}
	for _, b := range format.Blocks(d.path, []byte(d.text.src)) {
		if line+1 >= b.First && line+1 <= b.Last {
			return []script.File{b.File(diag.File(d.path))}
		}
	}
	return nil
}

// nodeAt is the name or literal at a position, and the nodes around it, innermost last.
func (d *doc) nodeAt(tree *syntax.File, p position) (found syntax.Node, around []syntax.Node) {
	if tree == nil {
		return nil, nil
	}
	line, column := d.text.column(p)
	var stack []syntax.Node
	syntax.Walk(tree, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		switch n.(type) {
		case *syntax.Ident, *syntax.Literal:
			start, end := n.Span()
			if found == nil && !after(start, line, column) && after(end, line, column-1) {
				found, around = n, append([]syntax.Node{}, stack[:len(stack)-1]...)
			}
		}
		return true
	})
	return found, around
}

// after reports whether a position is after a line and column.
func after(p syntax.Position, line, column int) bool {
	return int(p.Line) > line || int(p.Line) == line && int(p.Col) > column
}

func isOwn(id *syntax.Ident) bool {
	b, ok := id.Binding.(*resolve.Binding)
	return ok && b.First != nil
}

// nodeRange is the range of a node.
func (t *text) nodeRange(n syntax.Node) textRange {
	start, end := n.Span()
	return textRange{t.place(int(start.Line), int(start.Col)), t.place(int(end.Line), int(end.Col))}
}

// hover answers textDocument/hover: a builtin with its signature, a tool with its schemas, the
// type of an expression.
func (s *server) hover(d *doc, p placeParams) (*hover, error) {
	if d.project == nil {
		return nil, nil
	}
	tree := s.tree(d, p.Position.Line, true)
	n, around := d.nodeAt(tree, p.Position)
	about := ""
	switch n := n.(type) {
	case *syntax.Ident:
		about = d.aboutName(n, around)
	case *syntax.Literal:
		if def := entryOf(tree, n, around); def != nil {
			about = aboutFunction(def)
		} else if name, ok := n.Value.(string); ok && d.project.program != nil {
			if tool, ok := d.project.program.Tool(name); ok {
				about = aboutTool(name, tool)
			}
		}
	}
	if about == "" {
		return nil, nil
	}
	return &hover{markup{"markdown", about}, d.text.nodeRange(n)}, nil
}

func (d *doc) aboutName(id *syntax.Ident, around []syntax.Node) string {
	member := false
	name := id.Name
	if dot, ok := last(around).(*syntax.DotExpr); ok && dot.Name == id {
		member = true
		if module, ok := dot.X.(*syntax.Ident); ok && !isOwn(module) {
			name = module.Name
		}
	}
	if !isOwn(id) {
		for _, b := range tableOf(d.path) {
			_, module := b.Value.(starlark.HasAttrs)
			if b.Name == name && (!member || module) {
				return fmt.Sprintf("```python\n%s\n```\n%s\n\n%s", b.Signature, b.Help, b.Details)
			}
		}
	}
	if def, ok := last(around).(*syntax.DefStmt); ok && def.Name == id {
		return aboutFunction(def)
	}
	line, column := int(id.NamePos.Line), int(id.NamePos.Col)
	t, _, _, ok := d.project.program.TypeAt(diag.File(d.path), line, column)
	if !ok || t.IsAny() || t.IsNever() {
		return ""
	}
	return fmt.Sprintf("`%s`: %s", id.Name, t)
}

func aboutFunction(def *syntax.DefStmt) string {
	return "```python\n" + signature(def) + "\n```\n" + docOf(def)
}

func last(nodes []syntax.Node) syntax.Node {
	if len(nodes) == 0 {
		return nil
	}
	return nodes[len(nodes)-1]
}

// signature is the first line of a function's definition.
func signature(def *syntax.DefStmt) string {
	var params []string
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			params = append(params, p.Name)
		case *syntax.BinaryExpr:
			params = append(params, p.X.(*syntax.Ident).Name+" = …")
		case *syntax.UnaryExpr:
			name := ""
			if id, ok := p.X.(*syntax.Ident); ok {
				name = id.Name
			}
			params = append(params, p.Op.String()+name)
		}
	}
	return fmt.Sprintf("def %s(%s)", def.Name.Name, strings.Join(params, ", "))
}

// docOf is the docstring of a function.
func docOf(def *syntax.DefStmt) string {
	if len(def.Body) == 0 {
		return ""
	}
	if s, ok := def.Body[0].(*syntax.ExprStmt); ok {
		if lit, ok := s.X.(*syntax.Literal); ok {
			text, _ := lit.Value.(string)
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// maxSchema bounds a schema that is shown, in bytes.
const maxSchema = 4000

// aboutTool describes a tool, with its schemas.
func aboutTool(name string, t check.Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**", name)
	if t.Description != "" {
		b.WriteString("\n\n" + t.Description)
	}
	for _, part := range []struct {
		title string
		raw   json.RawMessage
	}{{"takes", t.Input}, {"returns", t.Output}} {
		var text bytes.Buffer
		if len(part.raw) == 0 || json.Indent(&text, part.raw, "", "  ") != nil {
			continue
		}
		fmt.Fprintf(&b, "\n\n%s\n```json\n%s\n```", part.title, display.ClipText(text.String(), maxSchema))
	}
	return b.String()
}

// definition answers textDocument/definition: where a name is bound, also through load statements, or where a
// scripted tool is declared.
func (s *server) definition(d *doc, p placeParams) (*location, error) {
	tree := s.tree(d, p.Position.Line, true)
	n, around := d.nodeAt(tree, p.Position)
	switch n := n.(type) {
	case *syntax.Literal:
		if def := entryOf(tree, n, around); def != nil {
			return &location{d.uri, d.text.nodeRange(def.Name)}, nil
		}
		return s.defineText(d, n, around)
	case *syntax.Ident:
		if load, ok := last(around).(*syntax.LoadStmt); ok {
			return s.loaded(d, load, n), nil
		}
		if b, ok := n.Binding.(*resolve.Binding); ok && b.First != nil {
			return s.first(d, p.Position.Line, b.First), nil
		}
	}
	return nil, nil
}

// first is where a name is bound first, or in the loaded file if a load statement binds it.
func (s *server) first(d *doc, line int, first *syntax.Ident) *location {
	tree := s.tree(d, line, true)
	for _, stmt := range tree.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for i, to := range load.To {
			if to.Name == first.Name && to.NamePos.Line == first.NamePos.Line && to.NamePos.Col == first.NamePos.Col {
				return s.loaded(d, load, load.From[i])
			}
		}
	}
	return &location{d.uri, d.text.nodeRange(first)}
}

// loaded is where the file of a load statement binds a name.
func (s *server) loaded(d *doc, load *syntax.LoadStmt, name *syntax.Ident) *location {
	for i, to := range load.To {
		if to == name {
			name = load.From[i]
		}
	}
	f, ok := d.load(load)
	if !ok {
		return nil
	}
	at := &location{URI: s.uri(absolute(f.Origin.File))}
	tree, err := script.Parse(f, script.Limits{})
	if err != nil {
		return at
	}
	for _, id := range globals(tree) {
		if id.Name == name.Name {
			at.Range = s.textOf(absolute(f.Origin.File)).nodeRange(id)
			return at
		}
	}
	return at
}

// load reads the file of a load statement.
func (d *doc) load(load *syntax.LoadStmt) (script.File, bool) {
	if d.project == nil || d.project.program == nil {
		return script.File{}, false
	}
	return d.project.program.Load(diag.File(d.path), int(load.Load.Line), load.ModuleName())
}

func absolute(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return abs
}

// globals are the names that the top level of a file binds.
func globals(tree *syntax.File) (names []*syntax.Ident) {
	for _, stmt := range tree.Stmts {
		switch stmt := stmt.(type) {
		case *syntax.DefStmt:
			names = append(names, stmt.Name)
		case *syntax.AssignStmt:
			if id, ok := stmt.LHS.(*syntax.Ident); ok {
				names = append(names, id)
			}
		}
	}
	return names
}

// defineText is the file that a load statement names, or the scripted tool that a string names.
func (s *server) defineText(d *doc, lit *syntax.Literal, around []syntax.Node) (*location, error) {
	if load, ok := last(around).(*syntax.LoadStmt); ok {
		if f, ok := d.load(load); ok {
			return &location{URI: s.uri(absolute(f.Origin.File))}, nil
		}
		return nil, nil
	}
	name, _ := lit.Value.(string)
	if d.project == nil || d.project.program == nil {
		return nil, nil
	}
	tool, ok := d.project.program.Tool(name)
	if !ok || !tool.Script || tool.Pos.File == "" {
		return nil, nil
	}
	path := absolute(tool.Pos.File)
	return &location{s.uri(path), s.textOf(path).span(tool.Pos, 0, 0)}, nil
}

var nameText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\p{L}_][\p{L}\p{Nd}_]*$`) })

// reserved are the words that cannot be names.
var reserved = map[string]bool{}

func init() {
	for _, word := range strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import in is lambda load nonlocal not or pass raise return try while with yield None True False") {
		reserved[word] = true
	}
}

func isName(s string) bool { return nameText().MatchString(s) && !reserved[s] }

func lspIsWord(r rune) bool { return nameText().MatchString("_" + string(r)) }

// local finds the local name at a position; the error says why the name there cannot be renamed.
func (s *server) local(d *doc, p position) (id *syntax.Ident, function *syntax.DefStmt, tree *syntax.File, err error) {
	tree = s.tree(d, p.Line, false)
	if tree == nil {
		return nil, nil, nil, refuse("the script has a syntax error")
	}
	n, around := d.nodeAt(tree, p)
	id, ok := n.(*syntax.Ident)
	if !ok || !isOwn(id) {
		return nil, nil, nil, refuse("only local names can be renamed")
	}
	b := id.Binding.(*resolve.Binding)
	if b.Scope != resolve.Local && b.Scope != resolve.Cell && b.Scope != resolve.Free {
		return nil, nil, nil, refuse("%s belongs to the file: only names inside of a function can be renamed", id.Name)
	}
	for _, a := range around {
		if def, ok := a.(*syntax.DefStmt); ok && function == nil {
			function = def
		}
	}
	if function == nil {
		return nil, nil, nil, refuse("only names inside of a function can be renamed")
	}
	return id, function, tree, nil
}

func (s *server) prepareRename(d *doc, p placeParams) (*textRange, error) {
	id, _, _, err := s.local(d, p.Position)
	if err != nil {
		return nil, err
	}
	r := d.text.nodeRange(id)
	return &r, nil
}

// rename renames a local name of a function.
func (s *server) rename(d *doc, p placeParams) (*workspaceEdit, error) {
	id, function, tree, err := s.local(d, p.Position)
	if err != nil {
		return nil, err
	}
	if !isName(p.NewName) {
		return nil, refuse("%q is no name", p.NewName)
	}
	first := id.Binding.(*resolve.Binding).First
	if err := s.renamable(tree, function, first, p.NewName); err != nil {
		return nil, err
	}
	edits := []textEdit{}
	syntax.Walk(function, func(n syntax.Node) bool {
		if other, ok := n.(*syntax.Ident); ok && isOwn(other) && other.Binding.(*resolve.Binding).First == first {
			edits = append(edits, textEdit{d.text.nodeRange(other), p.NewName})
		}
		return true
	})
	return &workspaceEdit{Changes: map[string][]textEdit{d.uri: edits}}, nil
}

// renamable refuses a rename that would change the meaning of the script: the function uses the new name
// already, or calls pass the parameter by its old name.
func (s *server) renamable(tree *syntax.File, function *syntax.DefStmt, first *syntax.Ident, to string) error {
	var problem error
	syntax.Walk(function, func(n syntax.Node) bool {
		if other, ok := n.(*syntax.Ident); ok && other.Name == to && other.Binding != nil {
			problem = refuse("%s has a %s already", function.Name.Name, to)
		}
		return true
	})
	if !isParameter(function, first) || problem != nil {
		return problem
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for _, arg := range call.Args {
			if kw, ok := arg.(*syntax.BinaryExpr); ok && kw.Op == syntax.EQ {
				if name, ok := kw.X.(*syntax.Ident); ok && name.Name == first.Name {
					problem = refuse("%s is a parameter, and a call names it", first.Name)
				}
			}
		}
		return true
	})
	name := function.Name.Name
	if problem == nil && name != script.SourceRun && !strings.HasPrefix(name, "_") && isTopLevel(tree, function) && tree.Path != "" && !definesTool(tree) {
		return refuse("%s is a parameter of %s, which other files may load: their calls may name it", first.Name, name)
	}
	return problem
}

// isParameter reports whether a name is bound first as a parameter of a function, or of one
// inside it.
func isParameter(function *syntax.DefStmt, first *syntax.Ident) (found bool) {
	look := func(params []syntax.Expr) {
		for _, p := range params {
			switch p := p.(type) {
			case *syntax.BinaryExpr:
				found = found || p.X == first
			case *syntax.UnaryExpr:
			default:
				found = found || p == first
			}
		}
	}
	syntax.Walk(function, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			look(n.Params)
		case *syntax.LambdaExpr:
			look(n.Params)
		}
		return true
	})
	return found
}

func isTopLevel(tree *syntax.File, function *syntax.DefStmt) bool {
	for _, stmt := range tree.Stmts {
		if stmt == function {
			return true
		}
	}
	return false
}

// definesTool reports whether a file defines tools, so that only its tests load it.
func definesTool(tree *syntax.File) bool {
	for _, id := range globals(tree) {
		if id.Name == script.SourceRun {
			return true
		}
	}
	return check.Declares(tree)
}
