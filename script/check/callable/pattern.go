package callable

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/vmcp-dev/vmcp/script/check/types"
)

// GroupsName is the name of the tuple of the groups of a match.
const GroupsName = "groups"

// PatternProblem returns the message for a pattern that cannot be compiled.
func PatternProblem(text string, err error) string {
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
	return strings.Replace(err.Error(), "error parsing regexp: ", "invalid pattern: ", 1)
}

// Match returns the result of a search for a pattern.
func Match(pattern types.Type) types.Type {
	groups, named := types.Of(&types.Atom{Kind: types.Tuple, Elem: types.Any}), types.Kinds(types.Dict)
	text := types.Kinds(types.Text)
	if s, ok := pattern.Text(); ok {
		if re, err := syntax.Parse(s, syntax.Perl); err == nil {
			t := &types.Atom{Kind: types.Tuple, Sized: true, Name: GroupsName}
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

// namedGroups returns the dict of the named groups.
func namedGroups(re *syntax.Regexp, always map[int]bool) types.Type {
	a := &types.Atom{Kind: types.Dict, Role: types.Output, Name: "the pattern", Declared: true}
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

// alwaysIn returns the groups that are part of every match.
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

// Found returns the result of findall: strings, or tuples of groups.
func Found(pattern types.Type) types.Type {
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
	return types.ListOf(types.Of(&types.Atom{Kind: types.Tuple, Sized: true, Elems: elems, Name: GroupsName}))
}
