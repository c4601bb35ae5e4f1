package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check/types"
)

// Kind is the kind of a file.
type Kind uint8

// The kinds of files.
const (
	ToolFile Kind = iota // has an entry function
	Library              // is loaded
	TestFile             // has tests; neither a tool nor a library
)

// Source is a file to check, with its present text, saved or not.
type Source struct {
	script.File
	Kind Kind
	// Tools are the tools of the file. None: it has run, and nothing else is known about it.
	Tools []Entry
	// Limits are those of its runs; zero fields have those of Options.
	Limits script.Limits
}

// Entry is a tool of a file: a function, with its schemas and limits.
type Entry struct {
	// Tool is the name of the tool; "": not known.
	Tool string
	// Function is the entry function; "" is run.
	Function string
	// Input and Output are the JSON Schemas of arguments and result; nil: not declared.
	Input, Output json.RawMessage
	// Limits are those of its runs; zero fields have those of the file.
	Limits script.Limits
}

func (e *Entry) function() string { return cmp.Or(e.Function, script.SourceRun) }

func (e *Entry) same(other *Entry) bool {
	return e.Tool == other.Tool && e.function() == other.function() && e.Limits == other.Limits && bytes.Equal(e.Input, other.Input) && bytes.Equal(e.Output, other.Output)
}

// entries returns the tools of a tool file: at least one.
func (s *Source) entries() []Entry {
	switch {
	case s.Kind != ToolFile:
		return nil
	case len(s.Tools) == 0:
		return []Entry{{}}
	}
	return s.Tools
}

// runs reports whether function is the entry function of some tool.
func (s *Source) runs(function string) bool {
	return slices.ContainsFunc(s.entries(), func(e Entry) bool { return e.function() == function })
}

// Program has the findings of files that were checked together. It is immutable.
type Program struct {
	options  Options
	files    []*checked
	earlier  []*checked // earlier texts of files that cannot be parsed now, from Options.Last
	problems diag.Problems
	shared   *shared
}

// checked has the findings of one file.
type checked struct {
	source Source
	tree   *syntax.File // nil if it cannot be parsed
	unit   *types.Unit
	types  map[syntax.Expr]types.Type
	found  diag.Problems

	parsed       bool
	loads        []string                               // names that it loads, "file.star name" each
	sure         map[string]map[string]*syntax.CallExpr // by tool of the file: the tools that it calls on every path
	suppressions []*suppression
}

// shared is common to the files that are checked together.
type shared struct {
	o         Options
	builtins  map[string]*types.Builtin
	predefine table
	names     []string
	loadedBy  map[string]bool // names that some file loads from another: "file.star name"

	mu      sync.Mutex
	tools   map[string]*types.Tool // guarded by mu
	loaded  map[string]*types.Unit // guarded by mu; by the name of the file
	texts   map[[2]string]loaded   // guarded by mu; by the loading file and the name
	sources map[*types.Unit]script.File
}

// Check checks files together, as many at a time as there are processors. A mistake in one hides none in another.
func Check(sources []Source, o Options) *Program {
	p := &Program{options: o, shared: newShared(sources, o)}
	p.files = make([]*checked, len(sources))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), len(sources)) {
		wg.Go(func() {
			for i := range next {
				p.files[i] = p.known(sources[i])
			}
		})
	}
	for i := range sources {
		next <- i
	}
	close(next)
	wg.Wait()
	o.Cache.forget(sources)
	p.keep(o.Last)
	for _, f := range p.files {
		p.problems = append(p.problems, f.found...)
	}
	p.problems = append(p.problems, p.cycles()...)
	p.problems = suppress(p.problems, p.files, o.Tools != nil && o.Unknown == nil).OnePerPlace()
	return p
}

// Problems returns the problems of all files, sorted, at most one for each position and code.
func (p *Program) Problems() diag.Problems { return p.problems }

func newShared(sources []Source, o Options) *shared {
	s := &shared{o: o, builtins: map[string]*types.Builtin{}, predefine: tableOf(o.Builtins), tools: map[string]*types.Tool{},
		loaded: map[string]*types.Unit{}, sources: map[*types.Unit]script.File{}, loadedBy: map[string]bool{}, texts: map[[2]string]loaded{}}
	for i := range o.Builtins {
		s.builtins[o.Builtins[i].Name] = o.Builtins[i].callable()
	}
	s.names = slices.Sorted(maps.Keys(o.Tools))
	for i := range sources {
		for _, name := range o.Cache.loadsOf(&sources[i]) {
			s.loadedBy[name] = true
		}
	}
	return s
}

// known returns the findings of a file, from the cache or from a check.
func (p *Program) known(src Source) *checked {
	if out := p.options.Cache.find(&src, p.shared); out != nil {
		return out
	}
	n := &needs{shared: p.shared, tools: map[string]answer{}, loads: map[[2]string]loaded{}}
	out := p.check(src, n)
	if c := p.options.Cache; c != nil {
		if c.Lean {
			out.tree, out.unit, out.types = nil, nil, nil
		}
		c.keep(&kept{src, p.options.Limits, p.shared.loadedFrom(src.Name), n.names, n.tools, n.loads, out})
	}
	return out
}

// check checks one file.
func (p *Program) check(src Source, n *needs) *checked {
	o := p.options
	o.Limits = src.Limits.Or(o.Limits)
	if src.Kind == TestFile {
		o.Builtins = o.testBuiltins()
		o.Limits.Lifetime = 1 << 62 // tests have virtual time without a limit
		src.Limits = o.Limits
	}
	out := &checked{source: src}
	c := &checker{o: o, file: src.File, builtins: p.shared.predefine, needs: n}
	tree, err := script.Parse(src.File, o.Limits)
	if err != nil {
		c.engine(codeSyntax, err)
		for i := range c.found {
			c.found[i] = familiar(src.File, c.found[i])
		}
		out.found = c.found
		return out
	}
	c.loads(tree)
	out.loads = namesLoaded(tree)
	c.constants = literalOf(tree)
	missing := c.entries(tree, src)
	c.block(tree.Stmts)
	syntax.Walk(tree, c.node)
	c.branches(tree)
	c.engine(codeUndefined, script.Resolve(tree, values(o.Builtins)))
	c.fixUndefined(tree, o.Builtins)
	out.tree = tree
	out.unit = types.NewUnit(src.Name, tree)
	out.unit.Source, out.unit.Entries = src.File, c.entriesOf(src)
	names := usesOf(tree)
	c.scope(names)
	if !translated(tree) && !missing && !slices.ContainsFunc(c.found, func(p diag.Problem) bool { return p.Code == codeUndefined || p.Code == codeDeclaration }) {
		c.unused(names, src, p.shared.loadedBy) // else a misspelt name would make another one unused
	}
	c.resolved(tree)
	c.declared(tree, p.shared)
	c.follow(out, p.shared, src)
	out.found, out.parsed = c.found.OnePerPlace(), true
	out.suppressions = suppressions(out)
	out.sure = map[string]map[string]*syntax.CallExpr{}
	for _, e := range src.Tools {
		if src.Kind == ToolFile && e.Tool != "" {
			out.sure[e.Tool] = p.sureCalls(tree, e.function())
		}
	}
	return out
}

// entries reports tools whose entry function does not take the arguments of a call. A missing function is reported
// where it is named; run, which no declaration has to name, here.
func (c *checker) entries(f *syntax.File, src Source) (missing bool) {
	reported := map[string]bool{}
	for _, e := range src.entries() {
		_, err := script.EntryOf(f, e.function())
		if err == nil || reported[e.function()] {
			continue
		}
		reported[e.function()] = true
		if _, there := hasFunction(f, e.function()); !there && (e.Function != "" || len(src.Tools) > 1) {
			missing = true
			continue
		}
		c.engine(codeDeclaration, script.Errors{err})
	}
	return missing
}

// entriesOf returns the tools of a file for following types.
func (c *checker) entriesOf(src Source) (entries []types.Entry) {
	for _, e := range src.entries() {
		one := types.Entry{Function: e.function(), Limits: limitsOf(e.Limits.Or(c.o.Limits))}
		if len(e.Input) > 0 {
			one.Params = types.Read(e.Input, types.Params, "")
		}
		if len(e.Output) > 0 {
			one.Output = types.Read(e.Output, types.Plain, "")
		}
		entries = append(entries, one)
	}
	return entries
}

// limitsOf returns the limits that types are checked against.
func limitsOf(l script.Limits) types.Limits {
	l = l.Or(script.DefaultLimits())
	return types.Limits{Lifetime: l.Lifetime.Std().Seconds(), Steps: int64(l.Steps), Calls: int64(l.Calls)}
}

// translated reports whether a file was written by migrate in its exact style: it loads the module of the legacy
// engine, and has names that are not used.
func translated(f *syntax.File) bool {
	return slices.ContainsFunc(f.Stmts, func(s syntax.Stmt) bool {
		l, ok := s.(*syntax.LoadStmt)
		return ok && !strings.HasSuffix(l.ModuleName(), ".star")
	})
}

// testBuiltins returns what tests may call.
func (o Options) testBuiltins() []Builtin {
	if o.TestBuiltins != nil {
		return slices.Concat(o.Builtins, o.TestBuiltins)
	}
	return append(slices.Clone(o.Builtins), Builtin{Name: "testing", Value: starlark.None})
}

// builtinsOf returns the table for following types.
func (s *shared) builtinsOf(k Kind) map[string]*types.Builtin {
	if k != TestFile {
		return s.builtins
	}
	all := maps.Clone(s.builtins)
	for _, b := range s.o.testBuiltins()[len(s.o.Builtins):] {
		all[b.Name] = b.callable()
	}
	return all
}

// follow follows the types of a file.
func (c *checker) follow(out *checked, s *shared, src Source) {
	w := &types.World{
		Builtins: s.builtinsOf(src.Kind), ToolNames: s.names,
		Tool:   func(name string) (*types.Tool, bool) { c.needs.ask(name); return s.tool(name) },
		Load:   func(from *types.Unit, module string) *types.Unit { return s.load(c.needs, from, module) },
		Limits: limitsOf(c.o.Limits),
		JSON: func(u *types.Unit, x syntax.Expr) json.RawMessage {
			if u != out.unit {
				return nil
			}
			raw, _ := c.constants.JSON(x) // nil if it is not a literal
			return raw
		},
		Report: func(p types.FlowProblem) { c.report(p) },
	}
	if src.Kind == Library { // its callers are not known here, nor their limits
		w.Limits = types.Limits{}
	}
	out.types = types.Follow(out.unit, w).Types
}

// fixed returns the fix that replaces the extent of a problem by a text; nil if the extent is not exact.
func fixed(p diag.Problem, text string, safe bool) *diag.Fix {
	if p.EndLine == 0 {
		return nil
	}
	return &diag.Fix{Title: "write " + text, Safe: safe, Edits: []diag.Edit{{Pos: p.Pos, EndLine: p.EndLine, EndColumn: p.EndColumn, Text: text}}}
}

// replaceable reports whether fix can replace a node: a quoted text on one line a quoted one, a name another name.
func replaceable(n syntax.Node, fix string) bool {
	switch n := n.(type) {
	case *syntax.Literal:
		return strings.HasPrefix(fix, `"`) && n.Token == syntax.STRING && !strings.Contains(n.Raw, "\n")
	case *syntax.Ident:
		return !strings.HasPrefix(fix, `"`)
	}
	return false
}

// report adds a problem found by following types.
func (c *checker) report(p types.FlowProblem) {
	f, ok := p.Unit.Source.(script.File)
	if !ok {
		return
	}
	one := spanned(f, p.Node, diag.Problem{Code: p.Code, Message: p.Message, Hint: p.Hint})
	if p.Warning {
		one.Severity = diag.Warning
	}
	if p.Fix != "" && replaceable(p.Node, p.Fix) {
		one.Fix = fixed(one, p.Fix, p.Sure)
	}
	if p.Caller != nil {
		from, _ := p.CallerUnit.Source.(script.File)
		at := spanned(from, p.Caller, diag.Problem{})
		if at.Pos != one.Pos {
			one.Related = append(one.Related, diag.Related{Pos: at.Pos, Message: "in this call"})
		}
	}
	c.found = append(c.found, one)
}

// tool returns what is known of a tool, read when the first script names it.
func (s *shared) tool(name string) (*types.Tool, bool) {
	a := s.ask(name)
	if !a.found {
		return nil, a.known
	}
	t := a.tool
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.tools[name]; known != nil {
		return known, true
	}
	out := &types.Tool{Name: name, Script: t.Script}
	if len(t.Input) > 0 {
		out.Input = types.Read(t.Input, types.Plain, name)
	}
	if len(t.Output) > 0 {
		out.Output = types.Read(t.Output, types.Output, name)
	}
	out.Repeat, out.Writes = hints(t.Annotations)
	s.tools[name] = out
	return out, true
}

// hints returns what annotations say about calling a tool again, and about writing.
func hints(raw json.RawMessage) (repeat string, writes bool) {
	var a struct {
		ReadOnly    *bool `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  *bool `json:"idempotentHint"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &a) != nil || a.ReadOnly != nil && *a.ReadOnly {
		return "", false
	}
	writes = a.ReadOnly != nil || a.Destructive != nil || a.Idempotent != nil
	switch {
	case a.Idempotent != nil && *a.Idempotent:
	case a.Idempotent != nil:
		repeat = "is not idempotent: a second attempt may do the work twice"
	case a.Destructive != nil && *a.Destructive:
		repeat = "is destructive and not declared idempotent: a second attempt may do the work twice"
	}
	return repeat, writes
}

// load returns the file that another one loads.
func (s *shared) load(n *needs, from *types.Unit, module string) *types.Unit {
	if s.o.Load == nil {
		return nil
	}
	l := n.read(from.Name, module)
	if l.err != nil {
		return nil
	}
	f := l.file
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.loaded[f.Name]; ok {
		return u
	}
	s.loaded[f.Name] = nil
	tree, err := script.Parse(f, s.o.Limits)
	if err != nil || script.Resolve(tree, values(s.o.Builtins)) != nil {
		return nil
	}
	u := types.NewUnit(f.Name, tree)
	u.Source = f
	s.loaded[f.Name] = u
	return u
}

// loadsIn returns the names that a file loads, "file.star name" each, without parsing more than these.
func loadsIn(src *Source) []string {
	if !bytes.Contains(src.Source, []byte("load(")) {
		return nil
	}
	tree, err := script.Parse(script.File{Name: "x", Source: src.Source}, src.Limits)
	if err != nil {
		return nil
	}
	return namesLoaded(tree)
}

func namesLoaded(tree *syntax.File) (names []string) {
	for _, stmt := range tree.Stmts {
		if l, ok := stmt.(*syntax.LoadStmt); ok {
			for _, id := range l.From {
				names = append(names, l.ModuleName()+" "+id.Name)
			}
		}
	}
	return names
}
