package types

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/regex"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// call is the type of a call.
func (e *engine) call(x *syntax.CallExpr) Type {
	fn := e.eval(x.Fn)
	args := e.arguments(x)
	if fn.IsAny() || fn.IsNever() {
		return Any
	}
	if fn.Every(func(a *Atom) bool { return !canBeCalled(a) }) {
		if fn.Every(func(a *Atom) bool { return a.Kind != None }) {
			e.report("index", x, "%s cannot be called", article(fn))
		}
		return Any
	}
	out := Never
	for _, a := range fn.Atoms() {
		switch f := a.Fn.(type) {
		case *function:
			out = Join(out, e.callFunction(x, f, args))
		case *Builtin:
			out = Join(out, e.callBuiltin(x, f, args))
		case *bound:
			out = Join(out, e.callMethod(x, f, args))
		case *Native:
			out = Join(out, e.callNative(x, f, args))
		default:
			return Any
		}
	}
	return out
}

func canBeCalled(a *Atom) bool { return a.Kind == funcKind || a.Kind == opaque }

func (e *engine) arguments(x *syntax.CallExpr) (args []Argument) {
	for _, arg := range x.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				args = append(args, Argument{Name: arg.X.(*syntax.Ident).Name, Type: e.eval(arg.Y), Expr: arg.Y})
				continue
			}
			args = append(args, Argument{Type: e.eval(arg), Expr: arg})
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				e.eval(arg.X)
				args = append(args, Argument{Type: Any, Expr: arg.X, Spread: true})
				continue
			}
			args = append(args, Argument{Type: e.eval(arg), Expr: arg})
		default:
			args = append(args, Argument{Type: e.eval(arg), Expr: arg})
		}
	}
	return args
}

// given are the arguments of a call of a builtin, by parameter.
type given map[string]Argument

// callBuiltin is the type of a call of a row of the table.
func (e *engine) callBuiltin(x *syntax.CallExpr, c *Builtin, args []Argument) Type {
	got, ok := e.match(x, c, args)
	if !ok {
		return Any
	}
	for _, p := range c.Params {
		if a, has := got[p.Name]; has {
			e.parameter(c, p, a)
		}
	}
	e.waits(c, got)
	e.pattern(c, got)
	if e.Builtins[c.Name] == nil && c.Returns == "" {
		return Any
	}
	return e.gives(x, c, got)
}

// match assigns arguments to parameters, and reports those that do not fit.
func (e *engine) match(x *syntax.CallExpr, c *Builtin, args []Argument) (given, bool) {
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
		case a.Spread:
			spread = true
		case a.Name != "" && slices.Contains(names, a.Name):
			got[a.Name] = a
		case a.Name != "" && !c.Kwargs:
			hint, near := meant(a.Name, names)
			if h := c.OtherName(a.Name); h != "" && near == "" {
				hint, near = "did you mean "+h+"?", h
			}
			if hint == "" {
				hint = "it has " + strings.Join(names, ", ")
			}
			e.say(FindingProblem{Code: "call-keyword", Node: keywordAt(x, a.Name), Message: fmt.Sprintf("%s has no parameter %s", c.Name, a.Name), Hint: hint, Fix: near, Sure: display.Only(a.Name, names)})
			return got, false
		case a.Name == "" && n < len(names):
			got[names[n]] = a
			n++
		case a.Name == "" && !c.Varargs:
			e.report("call-arity", x, "%s wants at most %s, has %d", c.Name, arguments(names), len(args))
			return got, false
		}
	}
	for _, p := range c.Params {
		if _, has := got[p.Name]; !has && !p.Optional && !spread {
			e.report("call-arity", x, "%s needs %s", c.Name, p.Name)
			return got, false
		}
	}
	return got, true
}

// parameter reports an argument that a parameter does not accept.
func (e *engine) parameter(c *Builtin, p Param, a Argument) {
	if p.Type == "function" || p.Type == "functions" {
		e.functionFor(c, p, a)
		return
	}
	kinds, known := p.Kinds()
	if !known || a.Type.IsAny() || a.Type.IsNever() {
		return
	}
	if p.Optional && p.Type != "text" && p.Type != "bool" && p.Type != "integer" {
		a.Type = a.Type.Without(None)
	}
	if a.Type.Every(func(t *Atom) bool { return !slices.Contains(kinds, t.Kind) }) {
		e.report("builtin-value", a.Expr, "%s: %s wants %s, this is %s", c.Name, p.Name, p.Word(), article(a.Type))
		return
	}
	e.noneFor(a.Expr, a.Type, func(t *Atom) bool { return slices.Contains(kinds, t.Kind) })
	if s, ok := a.Type.Text(); ok {
		e.parameterText(c, p, a, s)
	}
	if p.Type == "positive" {
		if n, ok := a.Type.Int(); ok && n < 1 {
			e.report("builtin-value", a.Expr, "%s: %s is at least 1, this is %d", c.Name, p.Name, n)
		}
	}
}

func (e *engine) parameterText(c *Builtin, p Param, a Argument, s string) {
	if p.Choices != nil && !slices.Contains(p.Choices, s) {
		hint, near := meant(s, p.Choices)
		if hint == "" {
			hint = p.Name + " is one of " + strings.Join(p.Choices, ", ")
		}
		e.say(FindingProblem{Code: "builtin-value", Node: a.Expr, Message: fmt.Sprintf("%s: there is no %s %q", c.Name, p.Name, s), Hint: hint, Fix: quoted(near)})
	}
	if p.Type == "duration" {
		if d, err := limits.ParseDuration(s); err != nil || d < 0 {
			e.report("builtin-value", a.Expr, "%s: %q is not a duration; want for example \"1h30m\" or \"2d\"", c.Name, s)
		}
	}
}

// functionFor reports an argument that is not a function where one is required.
func (e *engine) functionFor(c *Builtin, p Param, a Argument) {
	word := "a function"
	if p.Type == "functions" {
		word = "functions"
		if list := meter.Elements(a.Expr); list != nil {
			for _, el := range list {
				e.notFunction(c, word, el)
			}
			return
		}
		if comp, ok := a.Expr.(*syntax.Comprehension); ok {
			e.notFunction(c, word, comp.Body)
			return
		}
		if a.Type.Is(funcKind) {
			return
		}
	}
	if !e.notFunction(c, word, a.Expr) && p.Type == "function" && a.Type.Is(None, Text, Dict, List, Int, floatKind, boolKind) && !a.Type.Has(None) {
		e.report("builtin-value", a.Expr, "%s wants a function, this is %s", c.Name, article(a.Type))
	}
}

// notFunction reports a call in the place of a function: it is made before the builtin runs.
func (e *engine) notFunction(c *Builtin, word string, x syntax.Expr) bool {
	call, ok := x.(*syntax.CallExpr)
	if !ok {
		return false
	}
	t := e.quiet(call.Fn)
	f, _ := func() (*Builtin, bool) {
		if a := t.Only(); a != nil {
			c, ok := a.Fn.(*Builtin)
			return c, ok
		}
		return nil, false
	}()
	result := f != nil && (f.Tool != "" || f.Returns != "called" && f.Returns != "")
	if !result {
		v := e.quiet(x)
		result = !v.IsAny() && !v.IsNever() && v.Every(func(a *Atom) bool { return a.Kind != funcKind && a.Kind != opaque })
	}
	if result {
		e.say(FindingProblem{Code: "builtin-value", Node: x, Message: fmt.Sprintf("%s wants %s, this is a result: the call is made before", c.Name, word), Hint: "write lambda: ..."})
	}
	return result
}

// waits warns about waiting for longer than a run may last. Waiting does not count as the time that it is awake.
func (e *engine) waits(c *Builtin, got given) {
	a, ok := got[c.Waits]
	if c.Waits == "" || !ok || e.Lifetime == 0 {
		return
	}
	if d, ok := seconds(a.Type); ok && d > e.Lifetime {
		e.warn("limit", a.Expr, "waits %s, a run of the tool ends after %s (lifetime)", secondsText(d), secondsText(e.Lifetime))
	}
}

// seconds returns the length of a literal duration.
func seconds(t Type) (float64, bool) {
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

// pattern reports a regular expression that RE2 does not support.
func (e *engine) pattern(c *Builtin, got given) {
	if c.Pattern == "" {
		return
	}
	a := got[c.Pattern]
	text, ok := patternText(a.Type)
	if !ok {
		return
	}
	e.work += int(regex.Cost(text))
	re, err := regexp.Compile(text)
	if err != nil {
		e.report("regexp", a.Expr, "%s", patternProblem(text, err))
		return
	}
	if r, has := got["replacement"]; has {
		e.replacement(re, r, c, got)
	}
}

// replacement reports groups in a replacement that the pattern does not have.
func (e *engine) replacement(re *regexp.Regexp, r Argument, c *Builtin, got given) {
	s, ok := r.Type.Text()
	if !ok {
		if r.Type.Is(funcKind) {
			e.results(r.Type, r.Expr, match(got[c.Pattern].Type).Without(None))
		}
		return
	}
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if i++; s[i] >= '1' && s[i] <= '9' && int(s[i]-'0') > re.NumSubexp() {
			e.report("regexp", r.Expr, "the pattern has %s", plural(re.NumSubexp(), "group"))
			return
		}
	}
}

// gives returns the type of a builtin's result.
func (e *engine) gives(x *syntax.CallExpr, c *Builtin, got given) Type {
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
		return caller
	case "ran":
		e.toolNamed(c, got)
		return ran
	case "named":
		e.toolNamed(c, got)
		return Any
	case "compact":
		if len(x.Args) == 1 && len(c.Params) == 1 {
			return compact(got[c.Params[0].Name].Type)
		}
		return Kinds(Dict)
	case "match":
		return match(got[c.Pattern].Type)
	case "texts or tuples":
		return found(got[c.Pattern].Type)
	case "struct":
		a := &Atom{Kind: Struct}
		for _, arg := range x.Args {
			b, ok := arg.(*syntax.BinaryExpr)
			if !ok || b.Op != syntax.EQ {
				return Of(&Atom{Kind: Struct, Open: true})
			}
			name := b.X.(*syntax.Ident).Name
			a.Fields = append(a.Fields, Field{Name: name, Type: got[name].Type})
			if _, has := got[name]; !has {
				a.Fields[len(a.Fields)-1].Type = e.quiet(b.Y)
			}
		}
		return Of(a)
	}
	return Parse(c.Returns)
}

// called is the result of a builtin that calls a function repeatedly.
func (e *engine) called(x *syntax.CallExpr, c *Builtin, got given) Type {
	a, ok := got[c.Repeats]
	if !ok {
		return Any
	}
	if c.Repeats != "" {
		e.repeated = append(e.repeated, repeatedAt{e.frame.unit, a.Expr})
		defer func() { e.repeated = e.repeated[:len(e.repeated)-1] }()
	}
	if n, known := got["max_attempts"].Type.Int(); known && n == 1 { // it is called once
		e.repeated[len(e.repeated)-1].node = nil
	}
	return e.results(a.Type, x)
}

// branches is the result of functions that run concurrently.
func (e *engine) branches(x *syntax.CallExpr, got given) Type {
	fns := got["fns"]
	if items, ok := got["items"]; ok {
		return listOf(e.results(fns.Type, x, e.iterated(items.Expr, items.Type)))
	}
	if fns.Type.Is(funcKind) {
		if meter.Elements(fns.Expr) == nil {
			e.report("builtin-value", fns.Expr, "parallel wants a list of functions, or one function and its items")
		}
		return listOf(Any)
	}
	elem := Never
	for _, a := range fns.Type.Atoms() {
		if a.Kind != List && a.Kind != tuple {
			return listOf(Any)
		}
		if a.Kind == tuple {
			for _, t := range a.Elems {
				elem = Join(elem, t)
			}
		}
		elem = Join(elem, a.Elem)
	}
	if elem.IsNever() {
		return listOf(Any)
	}
	if list := meter.Elements(fns.Expr); list != nil {
		return e.eachBranch(x, list)
	}
	return listOf(e.results(elem.Keep(func(a *Atom) bool { return a.Kind == funcKind }), x))
}

// eachBranch is the result of functions that are written out in a list.
func (e *engine) eachBranch(x *syntax.CallExpr, list []syntax.Expr) Type {
	out := &Atom{Kind: List, Sized: true, Elem: Never}
	for _, fn := range list {
		t := e.results(e.quiet(fn), x)
		out.Elems, out.Elem = append(out.Elems, t), Join(out.Elem, t)
	}
	return Of(out)
}

// answer is the type of a user's answer to a form.
func (e *engine) answer(x *syntax.CallExpr, c *Builtin, got given) Type {
	content := Any
	if form, ok := got[c.Form]; ok && e.JSON != nil {
		if raw := e.JSON(e.frame.unit, form.Expr); raw != nil {
			content = Read(raw, contentRole, "").Type
		}
	}
	if v, ok := got["validate"]; ok && !v.Type.Every(func(a *Atom) bool { return a.Lit == true }) {
		content = Any
	}
	return answer(content)
}
