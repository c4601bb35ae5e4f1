package builtins

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
)

// reModule has regular expressions with the syntax of RE2, whose time is bounded by the length of the text times that
// of the pattern.
var reModule = &starlarkstruct.Module{Name: "re", Members: starlark.StringDict{
	"match":   script.NewBuiltin("re.match", reMatch),
	"search":  script.NewBuiltin("re.search", reSearch),
	"findall": script.NewBuiltin("re.findall", reFindall),
	"sub":     script.NewBuiltin("re.sub", reSub),
	"split":   script.NewBuiltin("re.split", reSplit),
}}

// reArgs unpacks pattern and text, and compiles the pattern.
func reArgs(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple, more ...any) (*pattern, string, error) {
	var expr, text string
	pairs := append([]any{"pattern", &expr, "text", &text}, more...)
	if fn.Name() == "re.sub" {
		pairs = append([]any{"pattern", &expr, more[0], more[1], "text", &text}, more[2:]...)
	}
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, pairs...); err != nil {
		return nil, "", err
	}
	p, err := compilePattern(t, expr)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", fn.Name(), err)
	}
	return p, text, nil
}

// reSearch implements re.search(pattern, text): the first match, or None.
func reSearch(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, text, err := reArgs(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	return first(t, p, text)
}

// reMatch implements re.match(pattern, text): a match at the start of the text, or None.
func reMatch(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, text, err := reArgs(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	anchored, err := compilePattern(t, `\A(?:`+p.re.String()+`)`)
	if err != nil {
		return nil, fmt.Errorf("re.match: %w", err)
	}
	return first(t, anchored, text)
}

func first(t *starlark.Thread, p *pattern, text string) (starlark.Value, error) {
	loc, err := p.find(t, text, 0)
	if err != nil || loc == nil {
		return starlark.None, err
	}
	return p.match(t, text, loc)
}

// match returns the value of a match in a script: struct(text, start, end, groups, named).
func (p *pattern) match(t *starlark.Thread, text string, loc []int) (starlark.Value, error) {
	if err := script.Charge(t, 512+64*int64(len(loc))); err != nil {
		return nil, err
	}
	groups := make(starlark.Tuple, len(loc)/2-1)
	named := new(starlark.Dict)
	for i := range groups {
		groups[i] = group(text, loc, i+1)
		if name := p.re.SubexpNames()[i+1]; name != "" {
			if err := named.SetKey(starlark.String(name), groups[i]); err != nil {
				return nil, err
			}
		}
	}
	return starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
		"text": group(text, loc, 0), "start": starlark.MakeInt(loc[0]), "end": starlark.MakeInt(loc[1]),
		"groups": groups, "named": named,
	}), nil
}

// group returns the text of one group, or None when it is not part of the match.
func group(text string, loc []int, i int) starlark.Value {
	if loc[2*i] < 0 {
		return starlark.None
	}
	return starlark.String(text[loc[2*i]:loc[2*i+1]])
}

// reFindall implements re.findall(pattern, text): for every match its text, the text of its group if the pattern has
// one, or a tuple of its groups.
func reFindall(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, text, err := reArgs(t, fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	var found []starlark.Value
	err = p.each(t, text, -1, func(loc []int) error {
		switch n := len(loc)/2 - 1; n {
		case 0, 1:
			found = append(found, group(text, loc, n))
		default:
			all := make(starlark.Tuple, n)
			for i := range all {
				all[i] = group(text, loc, i+1)
			}
			found = append(found, all)
			return script.Charge(t, 32*int64(n))
		}
		return nil
	})
	return starlark.NewList(found), err
}

// reSplit implements re.split(pattern, text, max=-1).
func reSplit(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	most := -1
	p, text, err := reArgs(t, fn, args, kwargs, "max?", &most)
	if err != nil {
		return nil, err
	}
	var parts []starlark.Value
	pos := 0
	err = p.each(t, text, most, func(loc []int) error {
		parts = append(parts, starlark.String(text[pos:loc[0]]))
		pos = loc[1]
		return nil
	})
	return starlark.NewList(append(parts, starlark.String(text[pos:]))), err
}

// reSub implements re.sub(pattern, replacement, text, max=-1). The replacement is a function of the match, or a string
// in which \1 and \g<name> stand for groups.
func reSub(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var replacement starlark.Value
	most := -1
	p, text, err := reArgs(t, fn, args, kwargs, "replacement", &replacement, "max?", &most)
	if err != nil {
		return nil, err
	}
	replace, err := p.replacer(t, text, replacement)
	if err != nil {
		return nil, fmt.Errorf("re.sub: replacement: %w", err)
	}
	var out strings.Builder
	pos := 0
	write := func(s string) error {
		if err := script.Charge(t, 3*int64(len(s))); err != nil { // a builder that grows copies
			return err
		}
		out.WriteString(s)
		return nil
	}
	err = p.each(t, text, most, func(loc []int) error {
		s, err := replace(loc)
		if err != nil {
			return err
		}
		if err := write(text[pos:loc[0]]); err != nil {
			return err
		}
		pos = loc[1]
		return write(s)
	})
	if err == nil {
		err = write(text[pos:])
	}
	return starlark.String(out.String()), err
}

// replacer returns the function that makes the replacement of a match.
func (p *pattern) replacer(t *starlark.Thread, text string, v starlark.Value) (func(loc []int) (string, error), error) {
	switch v := v.(type) {
	case starlark.Callable:
		return func(loc []int) (string, error) {
			m, err := p.match(t, text, loc)
			if err != nil {
				return "", err
			}
			s, err := script.RunOf(t).Call(t, v, starlark.Tuple{m}, nil)
			if err != nil {
				return "", err
			}
			str, ok := s.(starlark.String)
			if !ok {
				return "", fmt.Errorf("the function returned %s, want a string", s.Type())
			}
			return string(str), nil
		}, nil
	case starlark.String:
		if len(v) > maxPattern {
			return nil, fmt.Errorf("has %d bytes, the limit is %s", len(v), script.Bytes(maxPattern))
		}
		parts, err := p.template(string(v))
		return func(loc []int) (string, error) { return expand(t, parts, text, loc) }, err
	}
	return nil, fmt.Errorf("want a string or a function, have %s", v.Type())
}

// part is a part of a replacement: a text, or the number of a group.
type part struct {
	text  string
	group int // 0: text
}

var reference = regexp.MustCompile(`\\(?:([1-9][0-9]?)|g<(\w+)>|(\\))`)

func (p *pattern) template(s string) ([]part, error) {
	var parts []part
	pos := 0
	for _, loc := range reference.FindAllStringSubmatchIndex(s, -1) {
		parts = append(parts, part{text: s[pos:loc[0]]})
		pos = loc[1]
		if loc[6] >= 0 {
			parts = append(parts, part{text: `\`})
			continue
		}
		name := s[max(loc[2], loc[4]):max(loc[3], loc[5])]
		n, err := strconv.Atoi(name)
		if err != nil {
			n = p.re.SubexpIndex(name)
		}
		if n < 1 || n > p.re.NumSubexp() {
			return nil, fmt.Errorf("the pattern has no group %s", name)
		}
		parts = append(parts, part{group: n})
	}
	return append(parts, part{text: s[pos:]}), nil
}

func expand(t *starlark.Thread, parts []part, text string, loc []int) (string, error) {
	size := 0
	for _, p := range parts {
		size += len(p.in(text, loc))
	}
	if err := script.Charge(t, int64(size)); err != nil {
		return "", err
	}
	var b strings.Builder
	b.Grow(size)
	for _, p := range parts {
		b.WriteString(p.in(text, loc))
	}
	return b.String(), nil
}

func (p part) in(text string, loc []int) string {
	if p.group == 0 {
		return p.text
	}
	if loc[2*p.group] < 0 {
		return ""
	}
	return text[loc[2*p.group]:loc[2*p.group+1]]
}
