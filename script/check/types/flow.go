package types

import (
	"encoding/json"
	"fmt"

	"go.starlark.net/syntax"
)

// This part of the package follows the types of values through a script: from the schemas of tools through variables, helpers,
// comprehensions and guards, and reports where they do not fit.
//
// A function is followed once for each call in the text, with the types of that call. A problem is reported if it
// exists for every member of a union; where that is not known, nothing is reported.

// FlowProblem is a mistake, with its file.
type FlowProblem struct {
	FindingProblem
	Unit       *Unit
	Caller     syntax.Node
	CallerUnit *Unit // file of the call for which the problem exists, if it is another one
}

// World is what a script is checked against.
type World struct {
	Builtins map[string]*Builtin
	// Tool returns a tool; known says that a tool which is not found does not exist.
	Tool func(name string) (t *Tool, known bool)
	// ToolNames are names for suggestions.
	ToolNames []string
	// Load returns the file that a load statement names, or nil.
	Load func(from *Unit, module string) *Unit
	// JSON returns the JSON text of a literal; nil for other expressions.
	JSON func(u *Unit, x syntax.Expr) json.RawMessage
	// Report is called with the problems.
	Report func(FlowProblem)
	// Limits are those of a run, unless an entry of the file has other ones.
	Limits
}

// Limits are those of a run; 0: no limit.
type Limits struct {
	Lifetime     float64 // seconds
	Steps, Calls int64
}

// Tool is a tool that scripts can call.
type Tool struct {
	Name          string
	Input, Output *Schema // nil: not known
	Script        bool    // a scripted tool of the same configuration
	// Repeat says why a second call may do harm; "" if it is not known to.
	Repeat string
	// Writes says that the tool is known not to be read-only.
	Writes bool
}

// Unit is one file.
type Unit struct {
	Name   string
	Tree   *syntax.File
	Source any // the caller's identification of the file
	// Entries are the tools of the file; none for libraries.
	Entries []Entry
	scopes  *Scopes
}

// Entry is a tool: the entry function with its schemas.
type Entry struct {
	Function       string
	Params, Output *Schema // nil: anything
	Limits         Limits
}

// NewUnit makes a Unit from a resolved tree.
func NewUnit(name string, tree *syntax.File) *Unit {
	return &Unit{Name: name, Tree: tree, scopes: ScopeOf(tree)}
}

// maxWork bounds how many expressions of one file are followed.
const maxWork = 400_000

// engine follows one file.
type engine struct {
	*World
	root     *Unit
	entry    *Entry // of root, the present or last one
	modules  map[*Unit]*module
	frame    *frame
	env      Env     // state at the present point
	conds    Refiner // of env
	fits     checker
	mute     int // > 0: problems are not reported, since the types in a loop may still change
	work     int
	types    map[syntax.Expr]Type
	last     map[syntax.Expr]Type // of the branches of conditional expressions
	seen     map[syntax.Node]bool // functions that were followed
	chain    []*frame
	repeated []repeatedAt // enclosing functions that may be called again
	funcs    map[syntax.Node]*function
	loading  int
	later    bool        // the tools of root were followed
	pending  []*function // nested functions that were not called yet
}

// repeatedAt is where a function is passed to be called repeatedly.
type repeatedAt struct {
	unit *Unit
	node syntax.Node
}

// module is a file whose top level was followed.
type module struct {
	unit    *Unit
	globals map[string]Type
	loading bool
}

// Result is what is known of a file after it was followed.
type Result struct {
	// Types are the types of the expressions, as last computed.
	Types map[syntax.Expr]Type
}

// Follow follows a file and reports its problems.
func Follow(u *Unit, w *World) *Result {
	e := &engine{World: w, root: u, modules: map[*Unit]*module{}, types: map[syntax.Expr]Type{}, last: map[syntax.Expr]Type{},
		seen: map[syntax.Node]bool{}, funcs: map[syntax.Node]*function{}}
	e.conds = Refiner{Env: &e.env, Type: e.quiet}
	e.fits = checker{Type: e.quiet, Seen: e.recorded, Set: e.isWild, Report: e.say}
	e.module(u)
	for i := range u.Entries {
		e.follow(&u.Entries[i])
	}
	e.later = true
	e.rest(u.Tree.Stmts)
	return &Result{Types: e.types}
}

// module follows the top level of a file.
func (e *engine) module(u *Unit) *module {
	if m := e.modules[u]; m != nil {
		return m
	}
	m := &module{unit: u, globals: map[string]Type{}, loading: true}
	e.modules[u] = m
	if e.loading > 16 {
		return m
	}
	e.loading++
	outerFrame, outer := e.frame, e.env
	var vars Vars
	if outer.State != nil {
		vars = outer.Vars
	}
	e.frame = &frame{unit: u}
	e.env = Env{State: &State{Vars: vars}, Scopes: u.scopes}
	if u != e.root {
		e.mute++
	}
	e.stmts(u.Tree.Stmts)
	if u != e.root {
		e.mute--
	}
	for name, first := range u.scopes.Globals {
		if t, ok := e.env.Vars.Get(first); ok {
			m.globals[name] = t
		}
	}
	m.loading = false
	vars = e.env.Vars
	if outer.State == nil { // the file that is checked; its functions are followed next
		e.env.State = &State{Vars: vars}
	} else {
		outer.Vars = vars
		e.frame, e.env = outerFrame, outer
	}
	e.loading--
	return m
}

// follow follows the entry function of a tool with the types of its input schema.
func (e *engine) follow(entry *Entry) {
	def := e.root.scopes.Defs[entry.Function]
	fn := e.funcs[def]
	if def == nil || fn == nil {
		return
	}
	params := Any
	if entry.Params != nil {
		params = entry.Params.Type
	}
	args := []Argument{}
	for i, p := range def.Params {
		if id, ok := p.(*syntax.Ident); ok && i == 0 {
			args = append(args, Argument{Name: id.Name, Type: params})
		}
	}
	e.env.Dead = false
	general := e.Limits
	e.entry, e.Limits = entry, entry.Limits
	e.invoke(fn, args, nil, true)
	e.Limits = general
}

// rest follows the functions for which no call was found, with unknown arguments.
func (e *engine) rest(stmts []syntax.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			if fn := e.funcs[s]; fn != nil && !e.seen[s] {
				e.unknown(fn)
			}
		case *syntax.IfStmt:
			e.rest(s.True)
			e.rest(s.False)
		case *syntax.ForStmt:
			e.rest(s.Body)
		case *syntax.WhileStmt:
			e.rest(s.Body)
		}
	}
	for len(e.pending) > 0 {
		fn := e.pending[0]
		e.pending = e.pending[1:]
		if !e.seen[fn.node] {
			e.unknown(fn)
		}
	}
}

// unknown follows a function with unknown arguments.
func (e *engine) unknown(fn *function) {
	saved := e.env.State
	e.env.State = e.env.Clone()
	e.env.Dead = false
	e.invoke(fn, nil, nil, true)
	e.env.State = saved
}

// set sets the type of a variable.
func (e *engine) set(id *syntax.Ident, t Type) {
	if f := First(id); f != nil {
		e.env.Vars = e.env.Vars.With(f, t)
		e.note(id, t)
	}
}

// note stores the type of an expression for editors. Types from known calls take precedence over those of functions
// that were followed with unknown arguments.
func (e *engine) note(x syntax.Expr, t Type) {
	if e.frame.unit != e.root {
		return
	}
	if _, known := e.types[x]; known && e.later && t.IsAny() {
		return
	}
	e.types[x] = t
}

// report reports a problem, unless problems are muted.
func (e *engine) report(code string, n syntax.Node, format string, args ...any) {
	e.say(FindingProblem{Code: code, Node: n, Message: fmt.Sprintf(format, args...)})
}

func (e *engine) warn(code string, n syntax.Node, format string, args ...any) {
	e.say(FindingProblem{Code: code, Node: n, Warning: true, Message: fmt.Sprintf(format, args...)})
}

func (e *engine) say(p FindingProblem) { e.add(FlowProblem{FindingProblem: p, Unit: e.frame.unit}) }

func (e *engine) add(p FlowProblem) {
	if e.mute > 0 || e.env.Dead || e.work > maxWork || p.Node == nil {
		return
	}
	if p.Unit != e.root {
		for _, f := range e.chain {
			if f.unit == e.root && f.call != nil {
				p.Caller, p.CallerUnit = f.call, e.root
			}
		}
	}
	e.Report(p)
}
