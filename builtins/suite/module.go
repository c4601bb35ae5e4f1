package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// module is the module testing of test files; functions has its members.
var module = &starlarkstruct.Module{Name: "testing", Members: starlark.StringDict{}}

// call is one call of a function of the module.
type call struct {
	*attempt
	t      *starlark.Thread
	fn     *starlark.Builtin
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

func builtin(name string, f func(*call) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin("testing."+name, func(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		h, ok := script.RunOf(t).Host().(*host)
		if !ok {
			return nil, fmt.Errorf("%s: available in tests only", fn.Name())
		}
		h.a.main = script.RunOf(t)
		v, err := f(&call{h.a, t, fn, args, kwargs})
		if err != nil && !script.Final(err) {
			var failed *assertion
			if !errors.As(err, &failed) {
				err = fmt.Errorf("%s: %w", fn.Name(), err)
			}
		}
		return v, err
	})
}

func (c *call) unpack(pairs ...any) error {
	err := starlark.UnpackArgs(c.fn.Name(), c.args, c.kwargs, pairs...)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), c.fn.Name()+": "))
	}
	return nil
}

// at returns where the function is called.
func (c *call) at() diag.Pos { return c.file.place(c.position()) }

func (c *call) position() syntax.Position { return c.t.CallFrame(1).Pos }

func (c *call) json(v starlark.Value) (json.RawMessage, error) {
	return script.EncodeIn(c.t, v, c.main.Limits().Depth)
}

func (c *call) value(raw json.RawMessage) (starlark.Value, error) {
	return script.DecodeIn(c.t, raw, c.main.Limits().Depth)
}

// declareFake implements testing.tool(name, returns=, returns_each=[…], answer=fn, text=, fails="…", kind="tool",
// takes="0s").
func declareFake(c *call) (starlark.Value, error) {
	f := &fake{at: c.at()}
	var returns, each, fn, text, fails, takes starlark.Value
	kind := builtins.Tool
	if err := c.unpack("name", &f.name, "returns?", &returns, "returns_each?", &each, "answer?", &fn, "text?", &text,
		"fails?", &fails, "kind?", &kind, "takes?", &takes); err != nil {
		return nil, err
	}
	var given []string
	for _, g := range []struct {
		name string
		v    starlark.Value
	}{{"returns", returns}, {"returns_each", each}, {"answer", fn}, {"text", text}, {"fails", fails}} {
		if g.v != nil {
			given = append(given, g.name)
		}
	}
	if len(given) != 1 {
		return nil, fmt.Errorf("want one of returns, returns_each, answer, text and fails, have %s", strings.Join(append(given, "none")[:max(1, len(given))], " and "))
	}
	if kind != builtins.Tool && fails == nil {
		return nil, errors.New("kind can be given only with fails")
	}
	if !slices.Contains(failureKinds, kind) {
		return nil, fmt.Errorf("kind: want one of %s, have %q", strings.Join(failureKinds, ", "), kind)
	}
	if err := c.findTool(f); err != nil {
		return nil, err
	}
	var err error
	if f.takes, err = builtins.Duration(takes, 0); err != nil {
		return nil, fmt.Errorf("takes: %w", err)
	}
	if err := c.fill(f, returns, each, fn, text, fails, kind); err != nil {
		return nil, err
	}
	for i, raw := range f.results {
		if problem := f.check(raw); problem != "" {
			if f.each {
				problem = fmt.Sprintf("answer %d: %s", i+1, problem)
			}
			return nil, c.fatal(f.problem("%s", problem))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fakes) == maxDeclared {
		return nil, fmt.Errorf("more than %d fakes in one test", maxDeclared)
	}
	c.fakes = append(c.fakes, f)
	return starlark.None, nil
}

// maxDeclared bounds the fakes and the answers of a test.
const maxDeclared = 10_000

// findTool finds the tool that a fake replaces; if the lock has all tools, it must exist.
func (c *call) findTool(f *fake) error {
	f.tool = c.suite.Tools.Find(f.name)
	if f.tool != nil {
		f.name = f.tool.Name
		return nil
	}
	if !c.suite.Locked {
		return nil
	}
	msg := fmt.Sprintf("no tool %q", f.name)
	if near := display.Nearest(f.name, c.suite.Tools.Names()); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return c.fatal(f.problem("%s", msg))
}

// fill sets the answers of a fake.
func (c *call) fill(f *fake, returns, each, fn, text, fails starlark.Value, kind string) (err error) {
	switch {
	case returns != nil:
		f.results, err = c.results("returns", returns)
	case each != nil:
		f.each = true
		list, ok := each.(starlark.Sequence)
		if _, isDict := each.(starlark.IterableMapping); !ok || isDict {
			return fmt.Errorf("returns_each: want a list of answers, have %s", each.Type())
		}
		f.results, err = c.results("returns_each", slices.Collect(starlark.Elements(list))...)
	case fn != nil:
		if f.fn, _ = fn.(starlark.Callable); f.fn == nil {
			return fmt.Errorf("answer: want a function of the arguments, have %s", fn.Type())
		}
	case text != nil:
		s, ok := starlark.AsString(text)
		if !ok {
			return fmt.Errorf("text: want a string, have %s", text.Type())
		}
		f.results = []json.RawMessage{new(jsonscan.Object).Raw("content", builtins.TextContent(s)).JSON()}
	default:
		s, ok := starlark.AsString(fails)
		if !ok {
			return fmt.Errorf("fails: want a string, have %s", fails.Type())
		}
		f.failure = &builtins.ToolError{Kind: kind, Msg: s}
	}
	return err
}

func (c *call) results(what string, values ...starlark.Value) (all []json.RawMessage, err error) {
	for _, v := range values {
		raw, err := resultIn(c.t, v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		all = append(all, raw)
	}
	return all, nil
}

// resultIn returns a value as a tool returns it; the value of result(...) may have content blocks, too.
func resultIn(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	depth := script.RunOf(t).Limits().Depth
	ret, ok := v.(*script.Returned)
	if !ok {
		ret = &script.Returned{Structured: v}
	}
	res := &script.Result{IsError: ret.IsError}
	var err error
	if ret.Structured != nil {
		if res.Structured, err = script.EncodeIn(t, ret.Structured, depth); err != nil {
			return nil, err
		}
	}
	if ret.Content != nil {
		if res.Content, err = script.EncodeIn(t, ret.Content, depth); err != nil {
			return nil, err
		}
	}
	return builtins.CallResult(res), nil
}

// fatal ends the test with a problem that has its own position and code.
func (c *call) fatal(p *Problem) error {
	if c.problem == nil {
		c.problem = p
	}
	return &script.Cancelled{Cause: p}
}

// declareAnswer implements testing.answer(part_of_message, action="accept", content={}).
func declareAnswer(c *call) (starlark.Value, error) {
	w := &answer{at: c.at()}
	action := "accept"
	var content starlark.Value = starlark.NewDict(0)
	if err := c.unpack("part_of_message", &w.part, "action?", &action, "content?", &content); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"accept", "decline", "cancel"}, action) {
		return nil, fmt.Errorf(`action: want "accept", "decline" or "cancel", have %q`, action)
	}
	if _, ok := content.(starlark.IterableMapping); !ok {
		return nil, fmt.Errorf("content: want a dict, have %s", content.Type())
	}
	raw, err := c.json(content)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	out := new(jsonscan.Object).Text("action", action)
	if action == "accept" {
		out.Raw("content", raw)
	}
	w.raw = out.JSON()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == maxDeclared {
		return nil, fmt.Errorf("more than %d answers in one test", maxDeclared)
	}
	c.answers = append(c.answers, w)
	return starlark.None, nil
}

// calls implements testing.calls(name=None).
func calls(c *call) (starlark.Value, error) {
	name := ""
	if err := c.unpack("name?", &name); err != nil {
		return nil, err
	}
	want := name
	if t := c.suite.Tools.Find(name); t != nil {
		want = t.Name
	}
	c.mu.Lock()
	all := slices.Clone(c.attempt.calls)
	c.mu.Unlock()
	slices.SortStableFunc(all, func(x, y called) int { return compareIDs(x.id, y.id) })
	out := []starlark.Value{}
	for _, one := range all {
		if name != "" && one.tool != want {
			continue
		}
		args, err := c.value(one.args)
		if err != nil {
			return nil, err
		}
		if name == "" {
			args = starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{"tool": starlark.String(one.tool), "args": args})
		}
		out = append(out, args)
	}
	return starlark.NewList(out), nil
}

func questions(c *call) (starlark.Value, error) { return c.texts(&c.attempt.questions) }
func logs(c *call) (starlark.Value, error)      { return c.texts(&c.attempt.logs) }

// texts returns a list of texts, ordered by the keys of their effects.
func (c *call) texts(list *[]said) (starlark.Value, error) {
	if err := c.unpack(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	all := slices.Clone(*list)
	c.mu.Unlock()
	slices.SortStableFunc(all, func(x, y said) int { return compareIDs(x.id, y.id) })
	out := []starlark.Value{}
	for _, s := range all {
		if err := script.Charge(c.t, int64(len(s.text))+64); err != nil {
			return nil, err
		}
		out = append(out, starlark.String(s.text))
	}
	return starlark.NewList(out), nil
}

// now implements testing.now(): the same as time.now() of the scripts.
func now(c *call) (starlark.Value, error) {
	if err := c.unpack(); err != nil {
		return nil, err
	}
	clock := builtins.All()["time"].(*starlarkstruct.Module).Members["now"]
	return c.main.Call(c.t, clock, nil, nil)
}

// setClock implements testing.clock(text).
func setClock(c *call) (starlark.Value, error) {
	var text string
	if err := c.unpack("text", &text); err != nil {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf(`want a time such as "2026-01-01T00:00:00Z", have %q`, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.live {
		if r.parent != nil {
			return nil, errors.New("the clock cannot be set while a tool runs")
		}
	}
	c.scheduler.now = t.UTC()
	return starlark.None, nil
}

// errSkip ends a skipped test.
var errSkip = errors.New("skipped")

func skip(c *call) (starlark.Value, error) {
	if err := c.unpack("why", &c.skipped); err != nil {
		return nil, err
	}
	if c.skipped == "" {
		return nil, errors.New("want a reason")
	}
	return nil, &script.Cancelled{Cause: errSkip}
}

// toolRun is one testing.run.
type toolRun struct {
	id   string // prefix of the IDs of its effects
	tool string
	at   syntax.Position
	self *running
	out  string // its outcome, as JSON
}

// runTool implements testing.run(tool, args={}).
func runTool(c *call) (starlark.Value, error) {
	var name string
	var args starlark.Value = starlark.NewDict(0)
	if err := c.unpack("tool", &name, "args?", &args); err != nil {
		return nil, err
	}
	if _, ok := args.(starlark.IterableMapping); !ok {
		return nil, fmt.Errorf("args: want a dict, have %s", args.Type())
	}
	raw, err := c.json(args)
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	tool := c.suite.Tools.Find(name)
	if tool == nil || tool.Script == nil {
		return nil, c.notAScript(name, tool)
	}
	r := &toolRun{id: c.main.Key(c.t) + "#", tool: tool.Name, at: c.position()}
	out, err := c.main.Do(c.t, script.Effect{Kind: runKind, Name: name, Args: raw, Free: true}, func(ctx context.Context) (json.RawMessage, error) {
		return c.attempt.runTool(ctx, r, tool, raw)
	})
	if err != nil {
		return nil, err
	}
	v, err := c.value(out)
	if err != nil {
		return nil, err
	}
	return structOf(v.(*starlark.Dict)), nil
}

func (c *call) notAScript(name string, tool *Tool) error {
	if tool != nil {
		return fmt.Errorf("%s is a tool of a backend: a test runs scripted tools", tool.Name)
	}
	var names []string
	for _, n := range c.suite.Tools.Names() {
		if t := c.suite.Tools.Find(n); t != nil && t.Script != nil {
			names = append(names, n)
		}
	}
	if near := display.Nearest(name, names); near != "" {
		return fmt.Errorf("no scripted tool %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("no scripted tool %q", name)
}

func structOf(d *starlark.Dict) starlark.Value {
	fields := starlark.StringDict{}
	for _, item := range d.Items() {
		fields[string(item[0].(starlark.String))] = item[1]
	}
	return starlarkstruct.FromStringDict(starlarkstruct.Default, fields)
}
