package editor

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script/check"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/format"
)

// before is the text of the script that a position is in, up to the position; ok is false outside of scripts.
func (d *doc) before(p position) (text string, ok bool) {
	if !isYAML(d.path) {
		return d.text.src[:d.text.offset(p)], true
	}
	for _, b := range format.Blocks(d.path, []byte(d.text.src)) {
		if p.Line+1 < b.First || p.Line+1 > b.Last && !d.continues(b, p.Line) {
			continue
		}
		var script strings.Builder
		for n := b.First - 1; n <= p.Line; n++ {
			line := d.text.line(n)
			if n == p.Line {
				line = d.text.src[d.text.starts[n]:max(d.text.offset(p), d.text.starts[n])]
			}
			script.WriteString(line[min(b.Origin.Column-1, len(line)):])
			if n < p.Line {
				script.WriteByte('\n')
			}
		}
		return script.String(), true
	}
	return "", false
}

// continues reports whether all lines after a block up to this one are blank: the user may be about
// to extend the block there.
func (d *doc) continues(b format.Block, line int) bool {
	for n := b.Last; n <= line; n++ {
		if strings.TrimSpace(d.text.line(n)) != "" {
			return false
		}
	}
	return true
}

// maxCompletions bounds the items of one response.
const maxCompletions = 500

// complete answers textDocument/completion.
func (s *server) complete(d *doc, p placeParams) (completionList, error) {
	list := completionList{Items: []completionItem{}}
	text, ok := d.before(p.Position)
	if !ok || d.project == nil {
		return list, nil
	}
	q := query{doc: d, program: d.project.program, line: p.Position.Line + 1, context: At(text), builtins: tableOf(d.path)}
	list.Incomplete = d.project.program == nil // not checked yet: the editor asks again
	word := q.context.Word
	if strings.Contains(word, "\n") {
		return list, nil
	}
	edit := textRange{Start: position{p.Position.Line, max(p.Position.Character-length16(word), 0)}, End: p.Position}
	for _, item := range q.items() {
		if !strings.HasPrefix(strings.ToLower(item.Label), strings.ToLower(word)) {
			continue
		}
		if len(list.Items) == maxCompletions {
			list.Incomplete = true
			break
		}
		item.TextEdit = &textEdit{edit, item.Label}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// tableOf returns the builtins that a file can use.
func tableOf(path string) []check.Builtin {
	if files.IsTest(path) {
		return slices.Concat(builtins.Table(), suite.Table())
	}
	return builtins.Table()
}

// query is a request for completion at a place.
type query struct {
	doc      *doc
	program  *check.Program
	line     int
	context  Context
	builtins []check.Builtin
}

func (q *query) file() string { return diag.File(q.doc.path) }

// items are the completions for the place, best first.
func (q *query) items() []completionItem {
	c := q.context
	switch c.Kind {
	case name:
		return q.names()
	case Argument:
		return append(q.parameters(), q.names()...)
	case field:
		return q.fields()
	case index:
		return fieldItems(check.Fields(q.typeOf(c.Of)))
	case inText, key:
		return q.texts()
	}
	return nil
}

// builtin finds a builtin by its name.
func (q *query) builtin(name string) (check.Builtin, bool) {
	i := slices.IndexFunc(q.builtins, func(b check.Builtin) bool { return b.Name == name })
	if i < 0 {
		return check.Builtin{}, false
	}
	return q.builtins[i], true
}

// names are the names that a script can use, those of the file first.
func (q *query) names() (items []completionItem) {
	seen := map[string]bool{}
	add := func(item completionItem) {
		if !seen[item.Label] {
			seen[item.Label] = true
			items = append(items, item)
		}
	}
	for _, name := range q.own() {
		add(completionItem{Label: name, Kind: kindVariable, SortText: "0" + name})
	}
	for _, b := range q.builtins {
		item := completionItem{Label: b.Name, Kind: kindFunction, Detail: b.Signature, Documentation: &markup{"markdown", b.Help}, SortText: "1" + b.Name}
		if _, module := b.Value.(starlark.HasAttrs); module {
			item.Kind, item.Detail = kindModule, ""
		}
		add(item)
	}
	for _, name := range starlark.Universe.Keys() {
		add(completionItem{Label: name, Kind: kindFunction, SortText: "2" + name})
	}
	for _, word := range []string{"and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "pass", "return", "while"} {
		add(completionItem{Label: word, Kind: kindKeyword, SortText: "3" + word})
	}
	return items
}

// own are the names of the file that are visible at the line: those of the top level and of the
// function around it.
func (q *query) own() (names []string) {
	tree := q.known().Tree(q.file(), q.line)
	if tree == nil {
		return nil
	}
	var visit func(syntax.Node) bool
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			names = append(names, n.Name.Name)
			start, end := n.Span()
			return q.line >= int(start.Line) && q.line <= int(end.Line)+1
		case *syntax.Ident:
			if n.Binding != nil && isOwn(n) {
				names = append(names, n.Name)
			}
		case *syntax.LoadStmt:
			for _, to := range n.To {
				names = append(names, to.Name)
			}
			return false
		case *syntax.DotExpr:
			syntax.Walk(n.X, visit)
			return false
		}
		return true
	}
	syntax.Walk(tree, visit)
	slices.Sort(names)
	return slices.Compact(names)
}

// parameters are the parameters of the call around the place.
func (q *query) parameters() (items []completionItem) {
	b, ok := q.builtin(q.context.Call.String())
	if !ok {
		return nil
	}
	_, rest, _ := strings.Cut(b.Signature, "(")
	for part := range strings.SplitSeq(rest, ",") {
		name, _, hasDefault := strings.Cut(strings.TrimSpace(part), "=")
		if hasDefault && isName(name) {
			items = append(items, completionItem{Label: name + " = ", Kind: kindProperty, Detail: b.Signature, SortText: "0" + name})
		}
	}
	return items
}

// fields complete the name after a dot: members of a module, fields of a struct, methods.
func (q *query) fields() (items []completionItem) {
	of := q.context.Of
	if b, ok := q.builtin(of.Name); ok && !of.Call && len(of.Steps) == 0 {
		if m, ok := b.Value.(starlark.HasAttrs); ok {
			for _, name := range m.AttrNames() {
				items = append(items, completionItem{Label: name, Kind: kindFunction, Detail: b.Name + "." + name})
			}
			return items
		}
	}
	t := q.typeOf(of)
	seen := map[string]bool{}
	for _, a := range t.Atoms() {
		if a.Kind == types.Struct {
			for _, f := range check.Fields(types.Of(a)) {
				if !seen[f.Name] {
					seen[f.Name] = true
					items = append(items, fieldItems([]types.Field{f})...)
				}
			}
		}
		for _, name := range methods(a.Kind) {
			if !seen[name] {
				seen[name] = true
				items = append(items, completionItem{Label: name, Kind: kindMethod, Detail: a.Kind.String() + "." + name})
			}
		}
	}
	return items
}

// methods are the methods of values of a kind.
func methods(k types.Kind) []string {
	switch k {
	case types.Text:
		return starlark.String("").AttrNames()
	case types.List:
		return starlark.NewList(nil).AttrNames()
	case types.Dict:
		return starlark.NewDict(0).AttrNames()
	}
	return nil
}

func fieldItems(fields []types.Field) (items []completionItem) {
	for _, f := range fields {
		items = append(items, completionItem{Label: f.Name, Kind: kindField, Detail: f.Type.String()})
	}
	return items
}

// typeOf is the type of an expression before a dot or a bracket.
func (q *query) typeOf(p *Path) types.Type {
	if p == nil {
		return types.Any
	}
	if !p.Call {
		return q.known().TypeOf(q.file(), expression(p), q.line)
	}
	tool, ok := q.tool(p.Tool)
	b, known := q.builtin(p.Name)
	if !ok || !known || b.Tool.Name == "" || len(tool.Output) == 0 {
		return types.Any
	}
	t := types.Read(tool.Output, types.Output, p.Tool).Type
	for _, step := range p.Steps {
		t = lspTaken(t, step)
	}
	return t
}

// lspTaken is the type of a field, a key or an element of a value of type t.
func lspTaken(t types.Type, step Step) types.Type {
	for _, a := range t.Atoms() {
		if step.Name == "" && a.Kind == types.List {
			return a.Elem
		}
		if f, ok := a.Field(step.Name); ok {
			return f.Type
		}
	}
	return types.Any
}

// expression is a path as text that can be parsed.
func expression(p *Path) string {
	var b strings.Builder
	b.WriteString(p.Name)
	for _, step := range p.Steps {
		switch {
		case step.Field:
			b.WriteString("." + step.Name)
		case step.Name == "":
			b.WriteString("[0]")
		default:
			fmt.Fprintf(&b, "[%s]", syntax.Quote(step.Name, false))
		}
	}
	return b.String()
}

// texts complete strings: names of tools where a builtin expects one, and keys in the dict of a tool's arguments.
func (q *query) texts() (items []completionItem) {
	c := q.context
	if c.Kind == inText && c.Depth == 0 && check.NamesEntry(c.Call.String(), c.Key) {
		return q.functions()
	}
	b, ok := q.builtin(c.Call.String())
	if !ok || b.Tool.Name == "" {
		return nil
	}
	if c.Kind == inText && c.Depth == 0 && (c.Key == b.Tool.Name || c.Key == "" && c.Arg == b.Tool.Index) {
		for _, name := range q.tools() {
			tool, _ := q.tool(name)
			items = append(items, completionItem{Label: name, Kind: kindTool, Detail: lspFirstLine(tool.Description)})
		}
		return items
	}
	tool, ok := q.tool(c.Tool)
	if !ok || c.Kind != key || c.Depth != 1 {
		return nil
	}
	required := string(jsonscan.Get(tool.Input, "required"))
	jsonscan.Each(jsonscan.Get(tool.Input, "properties"), func(name, property []byte) bool {
		if slices.Contains(c.Keys, string(name)) {
			return true
		}
		item := completionItem{Label: string(name), Kind: kindProperty, Detail: shortType(property), SortText: "1" + string(name)}
		if strings.Contains(required, fmt.Sprintf("%q", name)) {
			item.Detail, item.SortText = item.Detail+", required", "0"+string(name)
		}
		if about := jsonscan.GetString(property, "description"); about != "" {
			item.Documentation = &markup{"plaintext", about}
		}
		items = append(items, item)
		return true
	})
	return items
}

// tool finds a tool.
func (q *query) tool(name string) (check.Tool, bool) {
	if q.program == nil {
		return check.Tool{}, false
	}
	return q.program.Tool(name)
}

// tools are the names of tools for clients, without the second form backend.tool of each.
func (q *query) tools() (names []string) {
	if q.program == nil {
		return nil
	}
	for _, name := range q.program.Tools() {
		if !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// shortType is the type of a property, such as string.
func shortType(property []byte) string {
	return types.Read(property, types.Plain, "").Type.String()
}

func lspFirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
