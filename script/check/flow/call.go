package flow

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// call is a call of anything.
func (e *engine) call(x *syntax.CallExpr) types.Type {
	fn := e.eval(x.Fn)
	args := e.arguments(x)
	if fn.IsAny() || fn.IsNever() {
		return types.Any
	}
	if fn.Every(func(a *types.Atom) bool { return !callable(a) }) {
		if fn.Every(func(a *types.Atom) bool { return a.Kind != types.None }) {
			e.tell("index", x, "%s cannot be called", finding.Article(fn))
		}
		return types.Any
	}
	out := types.Never
	for _, a := range fn.Atoms() {
		switch f := a.Fn.(type) {
		case *function:
			out = types.Join(out, e.callFunction(x, f, args))
		case *Callable:
			out = types.Join(out, e.callBuiltin(x, f, args))
		case *bound:
			out = types.Join(out, e.callMethod(x, f, args))
		case *native:
			out = types.Join(out, e.callNative(x, f, args))
		default:
			return types.Any
		}
	}
	return out
}

func callable(a *types.Atom) bool { return a.Kind == types.Func || a.Kind == types.Opaque }

func (e *engine) arguments(x *syntax.CallExpr) (args []argument) {
	for _, arg := range x.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				args = append(args, argument{name: arg.X.(*syntax.Ident).Name, typ: e.eval(arg.Y), expr: arg.Y})
				continue
			}
			args = append(args, argument{typ: e.eval(arg), expr: arg})
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				e.eval(arg.X)
				args = append(args, argument{typ: types.Any, expr: arg.X, spread: true})
				continue
			}
			args = append(args, argument{typ: e.eval(arg), expr: arg})
		default:
			args = append(args, argument{typ: e.eval(arg), expr: arg})
		}
	}
	return args
}

// bound arguments of a builtin, by parameter.
type given map[string]argument

// callBuiltin is a call of something of the table.
func (e *engine) callBuiltin(x *syntax.CallExpr, c *Callable, args []argument) types.Type {
	got, ok := e.match(x, c, args)
	if !ok {
		return types.Any
	}
	for _, p := range c.Params {
		if a, has := got[p.Name]; has {
			e.parameter(c, p, a)
		}
	}
	e.waits(c, got)
	e.pattern(c, got)
	if e.Builtins[c.Name] == nil && c.Returns == "" {
		return types.Any
	}
	return e.gives(x, c, got)
}

// match finds which argument is for which parameter, and tells what does not fit.
func (e *engine) match(x *syntax.CallExpr, c *Callable, args []argument) (given, bool) {
	got := given{}
	if c.Params == nil {
		return got, true
	}
	names := make([]string, len(c.Params))
	for i, p := range c.Params {
		names[i] = p.Name
	}
	spread, n := false, 0
	for _, a := range args {
		switch {
		case a.spread:
			spread = true
		case a.name != "" && slices.Contains(names, a.name):
			got[a.name] = a
		case a.name != "" && !c.Kwargs:
			hint, near := finding.Meant(a.name, names)
			if h := c.otherName(a.name); h != "" && near == "" {
				hint, near = "did you mean "+h+"?", h
			}
			if hint == "" {
				hint = "it has " + strings.Join(names, ", ")
			}
			e.say(finding.Problem{Code: "call-keyword", Node: keywordAt(x, a.name), Message: fmt.Sprintf("%s has no parameter %s", c.Name, a.name), Hint: hint, Fix: near, Sure: spell.Only(a.name, names)})
			return got, false
		case a.name == "" && n < len(names):
			got[names[n]] = a
			n++
		case a.name == "" && !c.Varargs:
			e.tell("call-arity", x, "%s wants at most %s, has %d", c.Name, finding.Arguments(names), len(args))
			return got, false
		}
	}
	for _, p := range c.Params {
		if _, has := got[p.Name]; !has && !p.Optional && !spread {
			e.tell("call-arity", x, "%s needs %s", c.Name, p.Name)
			return got, false
		}
	}
	return got, true
}

// otherName is the parameter whose name means nearly the same: tries for max_attempts.
func (c *Callable) otherName(name string) string {
	for _, p := range c.Params {
		for word := range strings.SplitSeq(p.Name, "_") {
			if len(word) > 3 && strings.Contains(name, word) {
				return p.Name
			}
		}
		if p.Name == "max_attempts" && slices.Contains([]string{"tries", "times", "retries", "count", "n"}, name) {
			return p.Name
		}
	}
	return ""
}

// parameter tells of an argument that a parameter does not take.
func (e *engine) parameter(c *Callable, p Param, a argument) {
	if p.Type == "function" || p.Type == "functions" {
		e.functionFor(c, p, a)
		return
	}
	kinds, known := parameterKinds[p.Type]
	if !known || a.typ.IsAny() || a.typ.IsNever() {
		return
	}
	if p.Optional && p.Type != "text" && p.Type != "bool" && p.Type != "integer" {
		a.typ = a.typ.Without(types.None)
	}
	if a.typ.Every(func(t *types.Atom) bool { return !slices.Contains(kinds, t.Kind) }) {
		e.tell("builtin-value", a.expr, "%s: %s wants %s, this is %s", c.Name, p.Name, parameterWords[p.Type], finding.Article(a.typ))
		return
	}
	e.noneFor(a.expr, a.typ, func(t *types.Atom) bool { return slices.Contains(kinds, t.Kind) })
	if s, ok := a.typ.Text(); ok {
		e.parameterText(c, p, a, s)
	}
	if p.Type == "positive" {
		if n, ok := a.typ.Int(); ok && n < 1 {
			e.tell("builtin-value", a.expr, "%s: %s is at least 1, this is %d", c.Name, p.Name, n)
		}
	}
}

func (e *engine) parameterText(c *Callable, p Param, a argument, s string) {
	if p.Choices != nil && !slices.Contains(p.Choices, s) {
		hint, near := finding.Meant(s, p.Choices)
		if hint == "" {
			hint = p.Name + " is one of " + strings.Join(p.Choices, ", ")
		}
		e.say(finding.Problem{Code: "builtin-value", Node: a.expr, Message: fmt.Sprintf("%s: there is no %s %q", c.Name, p.Name, s), Hint: hint, Fix: finding.Quoted(near)})
	}
	if p.Type == "duration" {
		if d, err := limits.ParseDuration(s); err != nil || d < 0 {
			e.tell("builtin-value", a.expr, "%s: %q is no duration; want such as \"1h30m\" or \"2d\"", c.Name, s)
		}
	}
}

var parameterKinds = map[string][]types.Kind{
	"text": {types.Text}, "integer": {types.Int}, "positive": {types.Int}, "number": {types.Int, types.Float}, "bool": {types.Bool},
	"dict": {types.Dict}, "list": {types.List, types.Tuple, types.Set, types.Range, types.Iterable, types.Dict},
	"duration": {types.Text, types.Int, types.Float}, "time": {types.Time},
}

var parameterWords = map[string]string{"text": "a text", "integer": "an integer", "positive": "an integer", "number": "a number", "bool": "True or False",
	"dict": "a dict", "list": "a list", "duration": `a duration such as "30s"`, "time": "a time"}

// functionFor tells of what is no function where one is wanted.
func (e *engine) functionFor(c *Callable, p Param, a argument) {
	word := "a function"
	if p.Type == "functions" {
		word = "functions"
		if list := tree.Elements(a.expr); list != nil {
			for _, el := range list {
				e.notFunction(c, word, el)
			}
			return
		}
		if comp, ok := a.expr.(*syntax.Comprehension); ok {
			e.notFunction(c, word, comp.Body)
			return
		}
		if a.typ.Is(types.Func) {
			return
		}
	}
	if !e.notFunction(c, word, a.expr) && p.Type == "function" && a.typ.Is(types.None, types.Text, types.Dict, types.List, types.Int, types.Float, types.Bool) && !a.typ.Has(types.None) {
		e.tell("builtin-value", a.expr, "%s wants a function, this is %s", c.Name, finding.Article(a.typ))
	}
}

// notFunction tells of a call where a function is wanted: it has happened already.
func (e *engine) notFunction(c *Callable, word string, x syntax.Expr) bool {
	call, ok := x.(*syntax.CallExpr)
	if !ok {
		return false
	}
	t := e.quiet(call.Fn)
	f, _ := func() (*Callable, bool) {
		if a := t.Only(); a != nil {
			c, ok := a.Fn.(*Callable)
			return c, ok
		}
		return nil, false
	}()
	result := f != nil && (f.Tool != "" || f.Returns != "called" && f.Returns != "")
	if !result {
		v := e.quiet(x)
		result = !v.IsAny() && !v.IsNever() && v.Every(func(a *types.Atom) bool { return a.Kind != types.Func && a.Kind != types.Opaque })
	}
	if result {
		e.say(finding.Problem{Code: "builtin-value", Node: x, Message: fmt.Sprintf("%s wants %s, this is a result: the call has happened already", c.Name, word), Hint: "write lambda: ..."})
	}
	return result
}

// waits tells of waiting for longer than the run may take. A run that waits for longer than Hold is
// suspended, and uses none of its time.
func (e *engine) waits(c *Callable, got given) {
	a, ok := got[c.Waits]
	if c.Waits == "" || !ok || e.Time == 0 {
		return
	}
	if d, ok := seconds(a.typ); ok && d > e.Time && (e.Hold == 0 || d <= e.Hold) {
		e.warn("limit", a.expr, "waits %s, the tool has %s", finding.Seconds(d), finding.Seconds(e.Time))
	}
}

// seconds is how long a duration is that is written down.
func seconds(t types.Type) (float64, bool) {
	a := t.Only()
	if a == nil {
		return 0, false
	}
	switch v := a.Lit.(type) {
	case string:
		d, err := limits.ParseDuration(v)
		return d.Seconds(), err == nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	case float64:
		return v, true
	}
	return 0, false
}

// gives is what a builtin returns.
func (e *engine) gives(x *syntax.CallExpr, c *Callable, got given) types.Type {
	switch c.Returns {
	case "output":
		return e.toolCall(x, c, got)
	case "outcome":
		return outcome(e.toolCall(x, c, got))
	case "pages":
		return e.pages(x, c, got)
	case "called":
		return e.called(x, c, got)
	case "branches":
		return e.branches(x, got)
	case "answer":
		return e.answer(x, c, got)
	case "caller":
		return callerType
	case "ran":
		e.toolNamed(c, got)
		return ranType
	case "named":
		e.toolNamed(c, got)
		return types.Any
	case "compact":
		if len(x.Args) == 1 && len(c.Params) == 1 {
			return compact(got[c.Params[0].Name].typ)
		}
		return types.Kinds(types.Dict)
	case "match":
		return matchOf(got[c.Pattern].typ)
	case "texts or tuples":
		return found(got[c.Pattern].typ)
	case "struct":
		a := &types.Atom{Kind: types.Struct}
		for _, arg := range x.Args {
			b, ok := arg.(*syntax.BinaryExpr)
			if !ok || b.Op != syntax.EQ {
				return types.Of(&types.Atom{Kind: types.Struct, Open: true})
			}
			name := b.X.(*syntax.Ident).Name
			a.Fields = append(a.Fields, types.Field{Name: name, Type: got[name].typ})
			if _, has := got[name]; !has {
				a.Fields[len(a.Fields)-1].Type = e.quiet(b.Y)
			}
		}
		return types.Of(a)
	}
	return Parse(c.Returns)
}

// Parse reads how the table says what is returned: "text", "list of text", "time"; anything else
// is anything.
func Parse(s string) types.Type {
	if elem, ok := strings.CutPrefix(s, "list of "); ok {
		return types.ListOf(Parse(elem))
	}
	k, ok := map[string]types.Kind{"text": types.Text, "integer": types.Int, "float": types.Float, "bool": types.Bool, "none": types.None, "list": types.List,
		"dict": types.Dict, "time": types.Time, "duration": types.Duration, "result": types.Opaque}[s]
	switch {
	case s == "number":
		return types.Kinds(types.Int, types.Float)
	case s == "none":
		return types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	case !ok:
		return types.Any
	}
	return types.Kinds(k)
}

// outcome is what looking at a failure gives, for a tool with that output.
func outcome(output types.Type) types.Type {
	none := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	text := types.Kinds(types.Text)
	const name = "the result of try_call_tool"
	field := func(n string, t types.Type) types.Field { return types.Field{Name: n, Type: t} }
	kinds := types.Never
	for _, k := range []string{"invalid_input", "invalid_output", "tool", "timeout", "unavailable", "denied", "not_found"} {
		kinds = types.Join(kinds, types.Of(&types.Atom{Kind: types.Text, Lit: k, Role: types.Output, Set: failures}))
	}
	return types.Join(
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{field("ok", types.Literal(true)), field("output", output), field("error", none), field("kind", none)}}),
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{field("ok", types.Literal(false)), field("output", none), field("error", text), field("kind", kinds)}}),
	)
}

var failures = []any{"invalid_input", "invalid_output", "tool", "timeout", "unavailable", "denied", "not_found"}

// ranType is what a test learns of a run. What is in it depends on the fakes.
var ranType = types.Of(&types.Atom{Kind: types.Struct, Name: "the result of testing.run", Fields: []types.Field{
	{Name: "ok", Type: types.Kinds(types.Bool)}, {Name: "output", Type: types.Any}, {Name: "content", Type: types.Any},
	{Name: "error", Type: types.Any}, {Name: "kind", Type: types.Any},
}})

// called is what a builtin returns that calls a function again and again.
func (e *engine) called(x *syntax.CallExpr, c *Callable, got given) types.Type {
	a, ok := got[c.Repeats]
	if !ok {
		return types.Any
	}
	if c.Repeats != "" {
		e.repeated = append(e.repeated, repeatedAt{e.frame.unit, a.expr})
		defer func() { e.repeated = e.repeated[:len(e.repeated)-1] }()
	}
	if n, known := got["max_attempts"].typ.Int(); known && n == 1 { // it is called once
		e.repeated[len(e.repeated)-1].node = nil
	}
	return e.results(a.typ, x)
}

// branches is what functions return that run side by side.
func (e *engine) branches(x *syntax.CallExpr, got given) types.Type {
	fns := got["fns"]
	if items, ok := got["items"]; ok {
		return types.ListOf(e.results(fns.typ, x, e.iterated(items.expr, items.typ)))
	}
	if fns.typ.Is(types.Func) {
		if tree.Elements(fns.expr) == nil {
			e.tell("builtin-value", fns.expr, "parallel wants a list of functions, or one function and its items")
		}
		return types.ListOf(types.Any)
	}
	elem := types.Never
	for _, a := range fns.typ.Atoms() {
		if a.Kind != types.List && a.Kind != types.Tuple {
			return types.ListOf(types.Any)
		}
		if a.Kind == types.Tuple {
			for _, t := range a.Elems {
				elem = types.Join(elem, t)
			}
		}
		elem = types.Join(elem, a.Elem)
	}
	if elem.IsNever() {
		return types.ListOf(types.Any)
	}
	if list := tree.Elements(fns.expr); list != nil {
		return e.eachBranch(x, list)
	}
	return types.ListOf(e.results(elem.Keep(func(a *types.Atom) bool { return a.Kind == types.Func }), x))
}

// eachBranch is what functions return that are written out in a list.
func (e *engine) eachBranch(x *syntax.CallExpr, list []syntax.Expr) types.Type {
	out := &types.Atom{Kind: types.List, Sized: true, Elem: types.Never}
	for _, fn := range list {
		t := e.results(e.quiet(fn), x)
		out.Elems, out.Elem = append(out.Elems, t), types.Join(out.Elem, t)
	}
	return types.Of(out)
}

// answer is what the user says to a form.
func (e *engine) answer(x *syntax.CallExpr, c *Callable, got given) types.Type {
	content := types.Any
	if form, ok := got[c.Form]; ok && e.JSON != nil {
		if raw := e.JSON(e.frame.unit, form.expr); raw != nil {
			content = types.Read(raw, types.Content, "").Type
		}
	}
	if v, ok := got["validate"]; ok && !v.typ.Every(func(a *types.Atom) bool { return a.Lit == true }) {
		content = types.Any
	}
	none := types.Of(&types.Atom{Kind: types.None, Role: types.Output})
	const name = "the answer of elicit"
	action := func(s string) types.Type {
		return types.Of(&types.Atom{Kind: types.Text, Lit: s, Role: types.Output, Set: actions})
	}
	return types.Join(
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{{Name: "action", Type: action("accept")}, {Name: "content", Type: content}}}),
		types.Of(&types.Atom{Kind: types.Struct, Name: name, Fields: []types.Field{{Name: "action", Type: types.Join(action("decline"), action("cancel"))}, {Name: "content", Type: none}}}),
	)
}

var actions = []any{"accept", "decline", "cancel"}

// callerType is who a script runs for.
var callerType = func() types.Type {
	text, list := types.Kinds(types.Text), types.ListOf(types.Kinds(types.Text))
	a := &types.Atom{Kind: types.Dict, Role: types.Output, Name: "caller()"}
	a.Fields = []types.Field{{Name: "subject", Type: text}, {Name: "issuer", Type: text}, {Name: "groups", Type: list}, {Name: "scopes", Type: list}, {Name: "client", Type: text}}
	return types.Of(a)
}()

// compact is a dict without its entries that are None.
func compact(t types.Type) types.Type {
	return t.Replace(types.Dict, func(a *types.Atom) *types.Atom {
		if a.Role != types.Made {
			return &types.Atom{Kind: types.Dict, Open: true, Elem: types.Any}
		}
		b := *a
		b.Fields = nil
		for _, f := range a.Fields {
			if f.Type.Has(types.None) {
				f.Type, f.Presence = f.Type.Without(types.None), types.Maybe
			}
			if !f.Type.IsNever() {
				b.Fields = append(b.Fields, f)
			}
		}
		b.Elem = a.Elem.Without(types.None)
		return &b
	})
}
