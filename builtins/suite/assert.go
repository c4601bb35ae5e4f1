package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/script"
)

// assertion is the error of a failed assertion.
type assertion struct{ msg string }

func (e *assertion) Error() string { return e.msg }

func failed(format string, args ...any) error { return &assertion{fmt.Sprintf(format, args...)} }

// shown returns a value for a message.
func shown(v starlark.Value) string { return display.Counted(v.String(), 300) }

// eq implements testing.eq(have, want).
func eq(c *call) (starlark.Value, error) {
	have, want, equal, err := c.compare()
	if err != nil || equal {
		return starlark.None, err
	}
	d := &differences{}
	d.find("", have, want, 0)
	if len(d.lines) == 0 {
		d.add("", "have %s, want %s", shown(have), shown(want))
	}
	return nil, failed("%s", strings.Join(d.lines, "; "))
}

// ne implements testing.ne(have, other).
func ne(c *call) (starlark.Value, error) {
	have, _, equal, err := c.compare()
	if err == nil && equal {
		err = failed("both are %s", shown(have))
	}
	return starlark.None, err
}

func (c *call) compare() (have, want starlark.Value, equal bool, err error) {
	if err = c.unpack("have", &have, "want", &want); err == nil {
		equal, err = starlark.Equal(have, want)
	}
	return have, want, equal, err
}

func isTrue(c *call) (starlark.Value, error)  { return c.truth(true) }
func isFalse(c *call) (starlark.Value, error) { return c.truth(false) }

func (c *call) truth(want bool) (starlark.Value, error) {
	var x starlark.Value
	if err := c.unpack("x", &x); err != nil {
		return nil, err
	}
	if bool(x.Truth()) != want {
		return nil, failed("want something that is %s, have %s", map[bool]string{true: "true", false: "false"}[want], shown(x))
	}
	return starlark.None, nil
}

// contains implements testing.contains(x, part): a substring, an element, a key, or the entries of a dict.
func contains(c *call) (starlark.Value, error) {
	var x, part starlark.Value
	if err := c.unpack("x", &x, "part", &part); err != nil {
		return nil, err
	}
	if d, ok := x.(*starlark.Dict); ok {
		if want, ok := part.(*starlark.Dict); ok {
			return starlark.None, entries(d, want)
		}
	}
	if s, ok := x.(starlark.String); ok && part.Type() != "string" {
		return nil, fmt.Errorf("a string contains strings, not %s (%s)", part.Type(), shown(s))
	}
	in, err := starlark.Binary(syntax.IN, part, x)
	if err != nil {
		return nil, fmt.Errorf("x: want a string, a list or a dict, have %s", x.Type())
	}
	if in != starlark.True {
		return nil, failed("%s is not in %s", shown(part), shown(x))
	}
	return starlark.None, nil
}

// entries returns an error for the entries of want that d does not have.
func entries(d, want *starlark.Dict) error {
	diff := &differences{}
	for _, item := range want.Items() {
		have, ok, err := d.Get(item[0])
		if err != nil {
			return err
		}
		path := step("", item[0])
		if !ok {
			diff.add(path, "is missing, want %s", shown(item[1]))
			continue
		}
		diff.find(path, have, item[1], 0)
	}
	if len(diff.lines) > 0 {
		return failed("%s", strings.Join(diff.lines, "; "))
	}
	return nil
}

// fails implements testing.fails(fn, text): it returns the message.
func fails(c *call) (starlark.Value, error) {
	var fn starlark.Callable
	var text string
	if err := c.unpack("fn", &fn, "text?", &text); err != nil {
		return nil, err
	}
	done := c.main.Catching(c.t)
	v, err := c.main.Call(c.t, fn, nil, nil)
	done()
	switch {
	case err == nil:
		return nil, failed("want a failure, have %s", shown(v))
	case script.Final(err):
		return nil, err
	}
	msg := message(err)
	if !strings.Contains(msg, text) {
		return nil, failed("fails with %q, want %q in it", display.Counted(msg, 300), text)
	}
	return starlark.String(msg), script.Charge(c.t, int64(len(msg)))
}

// message returns the text of an error as a script shows it.
func message(err error) string {
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		return eval.Msg
	}
	return err.Error()
}

// innermost returns the position in a script that an error comes from.
func innermost(err error) (at syntax.Position) {
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		for _, f := range slices.Backward(eval.CallStack) {
			if f.Pos.Line > 0 {
				return f.Pos
			}
		}
	}
	return at
}

// differences are the differences between two values, by their paths.
type differences struct{ lines []string }

const (
	mostDifferences = 8
	deepest         = 50
)

func (d *differences) add(path, format string, args ...any) {
	switch {
	case len(d.lines) < mostDifferences:
		d.lines = append(d.lines, strings.TrimPrefix(path+": "+fmt.Sprintf(format, args...), ": "))
	case len(d.lines) == mostDifferences:
		d.lines = append(d.lines, "and more")
	}
}

// find collects the differences between two values.
func (d *differences) find(path string, have, want starlark.Value, depth int) {
	if same, err := starlark.Equal(have, want); err == nil && same || len(d.lines) > mostDifferences {
		return
	}
	switch w := want.(type) {
	case *starlark.Dict:
		if h, ok := have.(*starlark.Dict); ok && depth < deepest {
			d.dicts(path, h, w, depth)
			return
		}
	case starlark.Indexable:
		h, ok := have.(starlark.Indexable)
		if _, text := want.(starlark.String); ok && !text && have.Type() == want.Type() && depth < deepest {
			d.lists(path, h, w, depth)
			return
		}
	}
	d.add(path, "have %s, want %s", shown(have), shown(want))
}

func (d *differences) dicts(path string, have, want *starlark.Dict, depth int) {
	for _, item := range want.Items() {
		h, ok, err := have.Get(item[0])
		if err == nil && ok {
			d.find(step(path, item[0]), h, item[1], depth+1)
			continue
		}
		d.add(step(path, item[0]), "is missing, want %s", shown(item[1]))
	}
	for _, item := range have.Items() {
		if _, ok, err := want.Get(item[0]); err == nil && !ok {
			d.add(step(path, item[0]), "have %s, want none", shown(item[1]))
		}
	}
}

func (d *differences) lists(path string, have, want starlark.Indexable, depth int) {
	for i := range max(have.Len(), want.Len()) {
		at := fmt.Sprintf("%s/%d", path, i)
		switch {
		case i >= have.Len():
			d.add(at, "is missing, want %s", shown(want.Index(i)))
		case i >= want.Len():
			d.add(at, "have %s, want none", shown(have.Index(i)))
		default:
			d.find(at, have.Index(i), want.Index(i), depth+1)
		}
		if len(d.lines) > mostDifferences {
			return
		}
	}
}

// step returns the path of an entry.
func step(path string, key starlark.Value) string {
	s, ok := key.(starlark.String)
	if !ok {
		return path + "/" + shown(key)
	}
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(string(s))
}
