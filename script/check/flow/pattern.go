package flow

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/scope"

	"github.com/vmcp-dev/vmcp/script/check/finding"
	"github.com/vmcp-dev/vmcp/script/check/types"
	star "go.starlark.net/syntax"
)

// groupsName names the tuple of the groups of a match.
const groupsName = "groups"

// pattern tells of a regular expression that RE2 does not have.
func (e *engine) pattern(c *Callable, got given) {
	if c.Pattern == "" {
		return
	}
	a := got[c.Pattern]
	text, ok := a.typ.Text()
	if !ok {
		return
	}
	re, err := regexp.Compile(text)
	if err != nil {
		e.tell("regexp", a.expr, "%s", patternProblem(text, err))
		return
	}
	if r, has := got["replacement"]; has {
		e.replacement(re, r, c, got)
	}
}

func patternProblem(text string, err error) string {
	for _, part := range []struct{ in, what string }{
		{"(?=", "lookahead"}, {"(?!", "lookahead"}, {"(?<=", "lookbehind"}, {"(?<!", "lookbehind"}, {"(?>", "atomic groups"},
	} {
		if strings.Contains(text, part.in) {
			return "RE2 has no " + part.what
		}
	}
	for d := '1'; d <= '9'; d++ {
		if strings.Contains(text, `\`+string(d)) {
			return "RE2 has no backreferences"
		}
	}
	return strings.Replace(err.Error(), "error parsing regexp: ", "the pattern is wrong: ", 1)
}

// replacement tells of groups in a replacement that the pattern does not have.
func (e *engine) replacement(re *regexp.Regexp, r argument, c *Callable, got given) {
	s, ok := r.typ.Text()
	if !ok {
		if r.typ.Is(types.Func) {
			e.results(r.typ, r.expr, matchOf(got[c.Pattern].typ).Without(types.None))
		}
		return
	}
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if i++; s[i] >= '1' && s[i] <= '9' && int(s[i]-'0') > re.NumSubexp() {
			e.tell("regexp", r.expr, "the pattern has %s", finding.Plural(re.NumSubexp(), "group"))
			return
		}
	}
}

// matchOf is what a search for a pattern gives.
func matchOf(pattern types.Type) types.Type {
	groups, named := types.Of(&types.Atom{Kind: types.Tuple, Elem: types.Any}), types.Kinds(types.Dict)
	text := types.Kinds(types.Text)
	if s, ok := pattern.Text(); ok {
		if re, err := syntax.Parse(s, syntax.Perl); err == nil {
			t := &types.Atom{Kind: types.Tuple, Sized: true, Name: groupsName}
			always := alwaysIn(re)
			for i := 1; i <= re.MaxCap(); i++ {
				if always[i] {
					t.Elems = append(t.Elems, text)
				} else {
					t.Elems = append(t.Elems, types.Join(text, types.Of(&types.Atom{Kind: types.None, Role: types.Output})))
				}
			}
			groups = types.Of(t)
			named = namedGroups(re, always)
		}
	}
	number := types.Kinds(types.Int)
	m := &types.Atom{Kind: types.Struct, Name: "a match", Fields: []types.Field{{Name: "text", Type: text}, {Name: "start", Type: number},
		{Name: "end", Type: number}, {Name: "groups", Type: groups}, {Name: "named", Type: named}}}
	return types.Join(types.Of(m), types.Of(&types.Atom{Kind: types.None, Role: types.Output}))
}

// namedGroups is the dict of the groups with a name.
func namedGroups(re *syntax.Regexp, always map[int]bool) types.Type {
	a := &types.Atom{Kind: types.Dict, Role: types.Output, Name: "the pattern"}
	for i, name := range re.CapNames() {
		if name == "" {
			continue
		}
		t := types.Kinds(types.Text)
		if !always[i] {
			t = types.Join(t, types.Of(&types.Atom{Kind: types.None, Role: types.Output}))
		}
		a.Fields = append(a.Fields, types.Field{Name: name, Type: t})
	}
	return types.Of(a)
}

// alwaysIn are the groups that take part in every match.
func alwaysIn(re *syntax.Regexp) map[int]bool {
	in := map[int]bool{}
	var walk func(r *syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		switch r.Op {
		case syntax.OpCapture:
			in[r.Cap] = true
		case syntax.OpAlternate, syntax.OpStar, syntax.OpQuest:
			return
		case syntax.OpRepeat:
			if r.Min == 0 {
				return
			}
		}
		for _, sub := range r.Sub {
			walk(sub)
		}
	}
	walk(re)
	return in
}

// found is what findall gives: texts, or tuples of groups.
func found(pattern types.Type) types.Type {
	s, ok := pattern.Text()
	re, err := regexp.Compile(s)
	if !ok || err != nil {
		return types.ListOf(types.Any)
	}
	n := re.NumSubexp()
	if n == 0 {
		return types.ListOf(types.Kinds(types.Text))
	}
	if n == 1 {
		return types.ListOf(types.Any)
	}
	elems := make([]types.Type, n)
	for i := range elems {
		elems[i] = types.Any
	}
	return types.ListOf(types.Of(&types.Atom{Kind: types.Tuple, Sized: true, Elems: elems, Name: groupsName}))
}

// timeMember is a member of a time.
func timeMember(name string) (types.Type, bool) {
	switch name {
	case "year", "month", "day", "hour", "minute", "second", "nanosecond", "unix", "unix_nano", "weekday":
		return types.Any, true
	case "format":
		return types.Of(&types.Atom{Kind: types.Func, Name: "format", Fn: &Callable{Name: "format", Params: []Param{{Name: "layout", Type: "text", Optional: true}}, Returns: "text"}}), true
	}
	return types.Any, false
}

func durationMember(name string) (types.Type, bool) {
	switch name {
	case "hours", "minutes", "seconds":
		return types.Kinds(types.Float), true
	case "milliseconds", "microseconds", "nanoseconds":
		return types.Kinds(types.Int), true
	}
	return types.Any, false
}

// changeWatch looks for changes of what a loop iterates over.
type changeWatch struct {
	*engine
	id   *star.Ident
	name string
}

// block looks at statements of the loop's body that are followed by another round: what leaves
// the loop behind the change is fine.
func (w *changeWatch) block(stmts []star.Stmt) {
	for i, s := range stmts {
		if i+1 < len(stmts) && leaves(stmts[i+1:]) {
			return
		}
		switch s := s.(type) {
		case *star.IfStmt:
			w.block(s.True)
			w.block(s.False)
		case *star.ForStmt:
			w.block(s.Body)
		case *star.ExprStmt:
			if call, ok := s.X.(*star.CallExpr); ok {
				w.call(call)
			}
		case *star.AssignStmt:
			if call, ok := s.RHS.(*star.CallExpr); ok {
				w.call(call)
			}
			if ix, ok := s.LHS.(*star.IndexExpr); ok && w.is(ix.X) { // of a key that is there, too
				w.told(ix)
			}
		}
	}
}

// leaves reports whether statements surely leave the loop.
func leaves(stmts []star.Stmt) bool {
	for _, s := range stmts {
		switch s := s.(type) {
		case *star.ReturnStmt:
			return true
		case *star.BranchStmt:
			return s.Token == star.BREAK
		}
	}
	return false
}

func (w *changeWatch) is(x star.Expr) bool {
	id, ok := x.(*star.Ident)
	return ok && scope.First(id) == w.id
}

func (w *changeWatch) call(x *star.CallExpr) {
	dot, ok := x.Fn.(*star.DotExpr)
	if ok && scope.Changing[dot.Name.Name] && w.is(dot.X) {
		w.told(x)
	}
}

func (w *changeWatch) told(n star.Node) {
	w.tell("changed-in-loop", n, "%s is changed while it is iterated over; iterate over list(%s)", w.name, w.name)
}
