package migrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	texttemplate "text/template"
	"text/template/parse"

	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// The differences that a script in the clean style may have from the legacy engine, where that
// completes; docs/migrate.md lists the same. The interpreter with clean set implements all of them,
// with the real text/template:
//
//   - what is missing or null prints as nothing; alone in an argument it is left out, as it
//     is in the result, where a text is empty
//   - numbers print with their digits; booleans, lists and objects as JSON, in the order of
//     their members and with <, > and & as they are; quote writes JSON, too
//   - values are compared by value: 5 is 5.0, and values of different kinds are not equal
//   - a number in a format suits the verb; %T is a type of Starlark
//   - an element of a text is a character; a slice goes as far as there is something
//   - a text formatted from a missing value is empty, and false as a condition
//   - the fields of an empty value are missing, and no error for which a default is used
//   - a template of a single action keeps the type of its value, and a text stays a text, whatever the tool's schema
//   - the output of a step that did not run or has failed is empty where it was null
//   - the output of a tool without structured content is its text and its content
//   - continue catches all failures of the tool, and defaultResults are used after each of them; a stored
//     error has the text of scripts

// missing is the value of a template of a single action without a value.
const missing = "\x00"

// checkClean checks the workflow in the clean style, when the legacy engine completes.
func checkClean(t *testing.T, f *flow, legacy *interpreter, ended *ending, counts map[string]int) bool {
	t.Helper()
	switch {
	case ended.isError:
		counts["failed in the legacy engine"]++
		return true
	case legacy.beyond:
		counts["went on after a failure that is not the tool's"]++
		return true
	}
	in := newInterpreter(f)
	in.clean = true
	want := in.run()
	fails := want.isError || in.beyond // scripts do not continue after a failure that is not the tool's
	s, have, err := runRandom(t, f, migrate.Clean)
	switch {
	case fails && strings.Contains(string(f.json()), "index "):
		counts["computes with the code of a character"]++
		return true
	case fails && completesWith(f, printsNil):
		counts["fails where a text of nothing, which is empty, chooses what the engine did not"]++
		return true
	case fails:
		t.Errorf("the reference fails where the legacy engine completes: %q\n%s", want.texts, s.Source)
	case err != nil:
		t.Errorf("%v\n%s", err, s.Source)
	case have.Result.IsError:
		t.Errorf("fails: %s\nwant %q\n%s", have.Result.Text, want.texts, s.Source)
	default:
		problem := want.unlike(have)
		if problem == "" {
			counts["same"]++
			return true
		}
		if legacy.fieldless || in.fieldless {
			counts["finds nothing where the engine found no field and took the default"]++
			return true
		}
		t.Errorf("%s\n%s", problem, s.Source)
	}
	return false
}

// completesWith reports whether the clean reference completes with other functions.
func completesWith(f *flow, functions texttemplate.FuncMap) bool {
	in := newInterpreter(f)
	in.clean, in.functions = true, functions
	return !in.run().isError && !in.beyond
}

// printsNil are the functions that print a text for nil, as the legacy engine's did.
var printsNil = texttemplate.FuncMap{
	"printf": fmt.Sprintf, "print": fmt.Sprint, "println": fmt.Sprintln,
	"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
}

// unlike returns a difference of a run from those that are allowed, "" for none.
func (e *ending) unlike(have verify.Outcome) string {
	result := alike(string(have.Result.Structured))
	if len(have.Result.Structured) == 0 {
		result = "null"
	}
	if !slices.ContainsFunc(e.texts, func(text string) bool { return alike(text) == result }) {
		return fmt.Sprintf("returns\n%s\nwant one of %q", result, e.texts)
	}
	var calls, wanted []string
	for _, c := range have.Trace {
		calls = append(calls, c.Tool+" "+alike(string(c.Args)))
	}
	for _, level := range e.levels {
		for _, c := range level {
			tool, args, _ := strings.Cut(c, " ")
			wanted = append(wanted, tool+" "+alike(args))
		}
	}
	slices.Sort(calls)
	slices.Sort(wanted)
	if !slices.Equal(calls, wanted) {
		return fmt.Sprintf("calls\nhave %q\nwant %q", calls, wanted)
	}
	return ""
}

// alike writes JSON so that values have the same text that count as equal: a value and
// its text, and JSON in texts with any order of members.
func alike(data string) string {
	var v any
	if json.Unmarshal([]byte(data), &v) != nil {
		return data
	}
	out, err := json.Marshal(asTexts(v, 0))
	if err != nil {
		return data
	}
	return string(out)
}

func asTexts(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = asTexts(e, depth+1)
		}
		if depth > 0 {
			return sortedJSON(show(out))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = asTexts(e, depth+1)
		}
		if depth > 0 {
			return sortedJSON(show(out))
		}
		return out
	case string:
		return sortedJSON(v)
	}
	return show(v)
}

// sortedJSON writes the JSON objects and lists inside of a text in one order, and all that
// is in them as texts.
func sortedJSON(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] != '{' && text[i] != '[' {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(text[i:]))
		var v any
		if dec.Decode(&v) != nil {
			continue
		}
		n := int(dec.InputOffset())
		flat := show(asTexts(v, 0))
		rest := sortedJSON(text[i+n:])
		return text[:i] + flat + rest
	}
	return text
}

// show is the text that the clean style prints for a value.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case template.HTML:
		return string(v)
	}
	return plainJSON(v)
}

func plainJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(inOrder(v)); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// inOrder puts the members of the output of a tool without structured content in the order of
// the engine, which is not that of their names.
func inOrder(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["text"]; ok && len(v) == 2 && v["content"] != nil {
			return struct {
				Text    any `json:"text"`
				Content any `json:"content"`
			}{text, inOrder(v["content"])}
		}
		out := map[string]any{}
		for k, e := range v {
			out[k] = inOrder(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = inOrder(e)
		}
		return out
	}
	return v
}

// renderClean renders a template by the rules of the clean style. The value of a template of a single
// action is also returned.
func renderClean(text string, ctx any, others texttemplate.FuncMap) (string, any, error) {
	var alone any
	show := func(v any) string {
		alone = v
		if v == nil {
			return missing
		}
		return show(v)
	}
	t, err := texttemplate.New("expand").Funcs(cleanFunctions).Funcs(others).Funcs(texttemplate.FuncMap{"_show": show}).Parse(text)
	if err != nil {
		return "", nil, fmt.Errorf("failed to parse template: %w", err)
	}
	for _, defined := range t.Templates() {
		if defined.Tree != nil {
			showing(defined.Tree.Root, defined.Tree)
		}
	}
	var b bytes.Buffer
	if err := t.Execute(&b, ctx); err != nil {
		return "", nil, err
	}
	out := b.String()
	if t.Tree == nil || len(t.Tree.Root.Nodes) != 1 || t.Tree.Root.Nodes[0].Type() != parse.NodeAction {
		out = strings.ReplaceAll(out, missing, "")
		return out, out, nil
	}
	if alone == nil {
		return missing, missing, nil
	}
	return out, alone, nil
}

// showing adds the function _show to the end of every action that prints.
func showing(n parse.Node, tree *parse.Tree) {
	list := func(lists ...*parse.ListNode) {
		for _, l := range lists {
			if l != nil {
				showing(l, tree)
			}
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			showing(c, tree)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{parse.NewIdentifier("_show").SetPos(n.Pos).SetTree(tree)}}
			n.Pipe.Cmds = append(n.Pipe.Cmds, call)
		}
	case *parse.IfNode:
		list(n.List, n.ElseList)
	case *parse.WithNode:
		list(n.List, n.ElseList)
	case *parse.RangeNode:
		list(n.List, n.ElseList)
	}
}

var cleanFunctions = texttemplate.FuncMap{
	"json":  plainJSON,
	"quote": func(v any) string { return plainJSON(show(v)) },
	"fromJson": func(v any) (any, error) {
		var out any
		err := json.Unmarshal([]byte(show(v)), &out)
		return out, err
	},
	"html":     func(v ...any) string { return template.HTMLEscapeString(shownAll(v)) },
	"js":       func(v ...any) string { return template.JSEscapeString(shownAll(v)) },
	"urlquery": func(v ...any) string { return template.URLQueryEscaper(shownAll(v)) },
	"print":    func(v ...any) string { return shownAll(v) },
	"println":  func(v ...any) string { return shownAll(v) + "\n" },
	"printf": func(format any, args ...any) string {
		wrapped := make([]any, len(args))
		for i, a := range args {
			wrapped[i] = suiting{a}
			if show(format) == "%T" {
				return starlarkType(a)
			}
		}
		return fmt.Sprintf(show(format), wrapped...)
	},
	"index": indexClean,
	"slice": sliceClean,
	"eq": func(a any, others ...any) bool {
		return slices.ContainsFunc(others, func(b any) bool { return same(a, b) })
	},
	"ne": func(a, b any) bool { return !same(a, b) },
	"lt": func(a, b any) (bool, error) { c, err := order(a, b); return c < 0, err },
	"le": func(a, b any) (bool, error) { c, err := order(a, b); return c <= 0, err },
	"gt": func(a, b any) (bool, error) { c, err := order(a, b); return c > 0, err },
	"ge": func(a, b any) (bool, error) { c, err := order(a, b); return c >= 0, err },
}

func shownAll(v []any) string {
	var b strings.Builder
	for _, e := range v {
		b.WriteString(show(e))
	}
	return b.String()
}

// starlarkType is the name of a type.
func starlarkType(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	case float64:
		if v != math.Trunc(v) {
			return "float"
		}
	}
	return "int"
}

// suiting is a value that is converted to the type of the verb that formats it.
type suiting struct{ v any }

func (s suiting) Format(state fmt.State, verb rune) {
	var v any = show(s.v)
	n, isNumber := toFloat(s.v)
	switch {
	case isNumber && strings.ContainsRune("eEfFgG", verb):
		v = n
	case isNumber && strings.ContainsRune("dboOcUxX", verb) && n == math.Trunc(n):
		v = int64(n)
	case isNumber && strings.ContainsRune("dboOcUxX", verb):
		v = n
	case verb == 't':
		if b, ok := s.v.(bool); ok {
			v = b
		}
	}
	fmt.Fprintf(state, fmt.FormatString(state, verb), v)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

func same(a, b any) bool {
	x, isNumber := toFloat(a)
	y, both := toFloat(b)
	if isNumber && both {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func order(a, b any) (int, error) {
	x, isNumber := toFloat(a)
	y, both := toFloat(b)
	s, isText := a.(string)
	u, bothTexts := b.(string)
	switch {
	case isNumber && both && x < y:
		return -1, nil
	case isNumber && both && x > y:
		return 1, nil
	case isNumber && both:
		return 0, nil
	case isText && bothTexts:
		return strings.Compare(s, u), nil
	}
	return 0, errors.New("these do not compare")
}

func indexClean(v any, keys ...any) (any, error) {
	for _, key := range keys {
		n, isNumber := toFloat(key)
		switch on := v.(type) {
		case map[string]any:
			k, ok := key.(string)
			if !ok {
				return nil, errors.New("want a string")
			}
			v = on[k]
		case []any:
			if !isNumber || int(n) < 0 || int(n) >= len(on) {
				return nil, errors.New("out of range")
			}
			v = on[int(n)]
		case string:
			if !isNumber || int(n) < 0 || int(n) >= len(on) {
				return nil, errors.New("out of range")
			}
			v = on[int(n) : int(n)+1]
		default:
			return nil, errors.New("cannot be indexed")
		}
	}
	return v, nil
}

func sliceClean(v any, bounds ...any) (any, error) {
	size := 0
	switch v := v.(type) {
	case string:
		size = len(v)
	case []any:
		size = len(v)
	default:
		return nil, errors.New("cannot be sliced")
	}
	from, to := 0, size
	for i, bound := range bounds {
		n, ok := toFloat(bound)
		if !ok || i > 1 {
			return nil, errors.New("want two numbers")
		}
		if i == 0 {
			from = min(int(n), size)
		} else {
			to = max(min(int(n), size), from)
		}
	}
	if s, ok := v.(string); ok {
		return s[from:to], nil
	}
	return v.([]any)[from:to], nil
}
