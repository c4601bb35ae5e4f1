package types

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/regex"
)

// groupsName is the name of the tuple of the groups of a match.
const groupsName = "groups"

// patternProblem returns the message for a pattern that cannot be compiled.
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
	return strings.Replace(err.Error(), "error parsing regexp: ", "invalid pattern: ", 1)
}

// maxPatternCost bounds the patterns that are looked at, in microseconds.
const maxPatternCost = 50_000

// patternText returns the text of a pattern, if it is one that can be looked at in little time.
func patternText(t Type) (string, bool) {
	s, ok := t.Text()
	if !ok || len(s) > regex.MaxBytes || regex.Cost(s) > maxPatternCost {
		return "", false
	}
	return s, true
}

// match returns the result of a search for a pattern.
func match(pattern Type) Type {
	groups, named := Of(&Atom{Kind: tuple, Elem: Any}), Kinds(Dict)
	text := Kinds(Text)
	if s, ok := patternText(pattern); ok {
		if re, err := syntax.Parse(s, syntax.Perl); err == nil {
			t := &Atom{Kind: tuple, Sized: true, Name: groupsName}
			always := alwaysIn(re)
			for i := 1; i <= re.MaxCap(); i++ {
				if always[i] {
					t.Elems = append(t.Elems, text)
				} else {
					t.Elems = append(t.Elems, Join(text, Of(&Atom{Kind: None, Role: Output})))
				}
			}
			groups = Of(t)
			named = namedGroups(re, always)
		}
	}
	number := Kinds(Int)
	m := &Atom{Kind: Struct, Name: "a match", Fields: []Field{{Name: "text", Type: text}, {Name: "start", Type: number},
		{Name: "end", Type: number}, {Name: "groups", Type: groups}, {Name: "named", Type: named}}}
	return Join(Of(m), Of(&Atom{Kind: None, Role: Output}))
}

// namedGroups returns the dict of the named groups.
func namedGroups(re *syntax.Regexp, always map[int]bool) Type {
	a := &Atom{Kind: Dict, Role: Output, Name: "the pattern", Declared: true}
	for i, name := range re.CapNames() {
		if name == "" {
			continue
		}
		t := Kinds(Text)
		if !always[i] {
			t = Join(t, Of(&Atom{Kind: None, Role: Output}))
		}
		a.Fields = append(a.Fields, Field{Name: name, Type: t})
	}
	return Of(a)
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

// found returns the result of findall: strings, or tuples of groups.
func found(pattern Type) Type {
	s, ok := patternText(pattern)
	re, err := regexp.Compile(s)
	if !ok || err != nil {
		return listOf(Any)
	}
	n := re.NumSubexp()
	if n == 0 {
		return listOf(Kinds(Text))
	}
	if n == 1 {
		return listOf(Any)
	}
	elems := make([]Type, n)
	for i := range elems {
		elems[i] = Any
	}
	return listOf(Of(&Atom{Kind: tuple, Sized: true, Elems: elems, Name: groupsName}))
}
