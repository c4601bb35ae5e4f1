package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// A chunk runs as a program of its own, with the engine, builtins and limits of a tool. The names that earlier chunks
// bound are predeclared in it. A program cannot rebind a predeclared name, so a name that the chunk binds is assigned
// its earlier value before the chunk, and the value that it has after the chunk is kept for later ones:
//
//	x = _repl_get("x")            if the chunk binds x, and an earlier one did
//	_ = (                         if the chunk is an expression
//	x + 1                         the chunk
//	)
//	_repl_value(_)                keeps the value as _, and prints it
//	_repl_keep("x", lambda: x)    for each name that the chunk binds; ignored if the lambda fails
//	_repl_end()                   ends the program with errEnd
//	def run(params):              never called, but a program must have it
//	    pass
//
// The origin of the program is set so that positions in the chunk are its positions in the session.
const (
	inputName = "<input>"
	getName   = "_repl_get"
	keepName  = "_repl_keep"
	valueName = "_repl_value"
	endName   = "_repl_end"
	reprFile  = "<repr>"
	runName   = "run"
)

// maxShown bounds the text of a value that is printed, in characters.
const maxShown = 20_000

// session is the state that inputs leave for later ones.
type session struct {
	o       *REPLOptions
	host    *host
	names   starlark.StringDict // bound by earlier inputs
	lines   []string            // everything that was typed, for errors
	runs    []*recordedRun      // of the tool
	effects []effect            // of the last input
	calls   []effect            // of all inputs, the last maxCalls
	tool    *catalog.ScriptedTool
	value   string         // printed value of the last input; "" for None
	repr    starlark.Value // the engine's repr, which charges the budget: an input may bind another repr
}

// effect is an effect of a chunk or of a run of the tool.
type effect struct {
	script.Event
	inRun bool // of a run of the tool
}

// maxCalls bounds the calls that :calls prints.
const maxCalls = 1000

func newSession(o *REPLOptions, h *host) *session {
	return &session{o: o, host: h, names: starlark.StringDict{}}
}

// execute runs a chunk and keeps the names that it binds.
func (s *session) execute(ctx context.Context, c *chunk) error {
	src, before := s.source(c)
	f := script.File{Name: inputName, Source: []byte(src), Origin: diag.Origin{
		Pos: diag.Pos{File: inputName, Line: c.line - before, Column: 1}, Exact: true,
	}}
	return s.run(ctx, f)
}

// source is the program of a chunk, and the number of lines in it before the chunk.
func (s *session) source(c *chunk) (src string, before int) {
	var b strings.Builder
	names := c.names()
	if c.expression() != nil {
		names = append(names, "_")
	}
	own := slices.Clone(names)
	if _, ok := s.names[runName]; ok && !slices.Contains(own, runName) {
		own = append(own, runName) // or the function at the end would hide it
	}
	for _, name := range own {
		if _, ok := s.names[name]; ok {
			fmt.Fprintf(&b, "%s = %s(%q)\n", name, getName, name)
		}
	}
	if c.expression() != nil {
		b.WriteString("_ = (\n")
	}
	before = strings.Count(b.String(), "\n")
	b.WriteString(c.text + "\n")
	if c.expression() != nil {
		fmt.Fprintf(&b, ")\n%s(_)\n", valueName)
		names = names[:len(names)-1]
	}
	for _, name := range names {
		fmt.Fprintf(&b, "%s(%q, lambda: %s)\n", keepName, name, name) // the lambda fails for a name in a branch that was not taken
	}
	b.WriteString(endName + "()\ndef run(params):\n    pass\n") // a program must define run
	return b.String(), before
}

// run executes the top level of a program, which has one of the functions.
func (s *session) run(ctx context.Context, f script.File, functions ...string) error {
	s.value, s.effects = "", nil
	if s.repr == nil && f.Name != reprFile {
		if err := s.run(ctx, script.File{Name: reprFile, Source: []byte(keepName + "(\"repr\", lambda: repr)\n" + endName + "()\ndef run(params):\n    pass\n")}); err != nil {
			return err
		}
		s.repr = s.names["repr"]
		delete(s.names, "repr")
	}
	names := builtins.All()
	maps.Copy(names, s.names)
	for name, fn := range map[string]func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error){
		getName: s.get, keepName: s.keep, valueName: s.show, endName: end,
	} {
		names[name] = starlark.NewBuiltin(name, fn)
	}
	p, err := script.Compile(f, legacy.With(script.Options{Builtins: names, Load: s.o.Load, Limits: s.o.Limits, Functions: functions}))
	if err != nil {
		return err
	}
	_, err = p.Run(ctx, script.RunOptions{Host: s.host, Adapt: s.host.adapt, Trace: func(e script.Event) { s.note(e, false) }, Print: s.print, Places: true})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// errEnd ends the program of a chunk that had no error.
var errEnd = errors.New("the end of the input")

func end(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return nil, errEnd
}

// note records an effect.
func (s *session) note(e script.Event, inRun bool) {
	s.effects = append(s.effects, effect{e, inRun})
	if e.Kind != "call" || e.Name == s.toolName() && !inRun {
		return
	}
	if s.calls = append(s.calls, effect{e, inRun}); len(s.calls) > maxCalls {
		s.calls = slices.Delete(s.calls, 0, 1)
	}
}

func (s *session) toolName() string {
	if s.tool == nil {
		return ""
	}
	return s.tool.Name
}

func (s *session) print(_, text string) { s.o.print(text) }

func (s *session) get(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	name, _ := starlark.AsString(args[0])
	return s.names[name], nil
}

// keep is _repl_keep: it keeps the value of a name, unless that is not bound.
func (s *session) keep(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	name, _ := starlark.AsString(args[0])
	v, err := script.RunOf(t).Call(t, args[1], nil, nil)
	if err != nil && script.Final(err) {
		return nil, err
	}
	if err == nil {
		s.names[name] = v
	}
	return starlark.None, nil
}

// show is _repl_value: it keeps the value of an expression as _, and its text to be printed.
func (s *session) show(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if args[0] == starlark.None {
		return starlark.None, nil
	}
	text, err := script.RunOf(t).Call(t, s.repr, args, nil)
	if err != nil {
		return nil, err
	}
	s.names["_"] = args[0]
	s.value, _ = starlark.AsString(text)
	if cut := []rune(s.value); len(cut) > maxShown {
		s.value = fmt.Sprintf("%s… (%d characters more)", string(cut[:maxShown]), len(cut)-maxShown)
	}
	return starlark.None, nil
}

// open loads a scripted tool: all names of its file, and run, which calls the tool.
func (s *session) open(ctx context.Context, tool *catalog.ScriptedTool, f script.File) error {
	tree, err := script.Parse(f, s.o.Limits)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.Write(f.Source)
	b.WriteByte('\n')
	for _, name := range (&chunk{tree: tree}).names() {
		fmt.Fprintf(&b, "%s(%q, lambda: %s)\n", keepName, name, name)
	}
	b.WriteString(endName + "()\n")
	f.Source = []byte(b.String())
	if err := s.run(ctx, f, tool.Program.Function()); err != nil {
		return err
	}
	s.tool = tool
	s.names[runName] = starlark.NewBuiltin(runName, s.runTool)
	return nil
}

// recordedRun is a run of the tool, for :save.
type recordedRun struct {
	args    json.RawMessage // without defaults
	effects []script.Event
	result  *script.Result
	err     error
}

// runTool is run(params): it calls the tool, with the checks of arguments and result by its schemas.
func (s *session) runTool(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var params *starlark.Dict
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "params?", &params); err != nil {
		return nil, err
	}
	if params == nil {
		params = starlark.NewDict(0)
	}
	given, err := script.EncodeIn(t, params, script.RunOf(t).Limits().Depth)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	e := script.Effect{Kind: "call", Name: s.tool.Name, Args: given}
	raw, err := script.RunOf(t).Do(t, e, func(ctx context.Context) (json.RawMessage, error) { return s.perform(ctx, given) })
	if err != nil {
		return nil, err
	}
	return script.DecodeIn(t, raw, script.RunOf(t).Limits().Depth)
}

func (s *session) perform(ctx context.Context, given json.RawMessage) (json.RawMessage, error) {
	r := &recordedRun{args: given}
	full, err := s.tool.Arguments(given)
	if err != nil {
		return nil, err
	}
	r.result, r.err = s.tool.Program.Run(ctx, script.RunOptions{
		Args: full, Host: s.host, Adapt: s.host.adapt, Limits: s.tool.Limits, Accept: s.tool.CheckOutput, Print: s.print, Places: true,
		Trace: func(e script.Event) {
			r.effects = append(r.effects, e)
			s.note(e, true)
		},
	})
	var cancelled *script.Cancelled
	if !errors.As(r.err, &cancelled) {
		s.runs = append(s.runs, r)
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case r.result.Structured != nil:
		return r.result.Structured, nil
	}
	return r.result.Content, nil
}

// trace describes the effects of the last input, a line each.
func (s *session) trace() (lines []string) {
	for _, e := range s.effects {
		indent := strings.Repeat("  ", strings.Count(e.Key, "/"))
		if e.inRun {
			indent = "  " + indent
		}
		line := fmt.Sprintf("%s%s %s", indent, e.Key, e.Kind)
		if e.Name != "" {
			line += " " + e.Name
		}
		if e.Pos.IsValid() {
			line += " at " + e.Pos.String()
		}
		line += " " + e.Duration.Round(time.Microsecond*10).String()
		if e.Err != nil {
			line += ": " + replFirstLine(e.Err.Error())
		}
		lines = append(lines, line)
	}
	return lines
}

// explain is an error with its positions, and the lines of the session there.
func (s *session) explain(err error) string {
	var cancelled *script.Cancelled
	if errors.As(err, &cancelled) || errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	var list script.Errors
	if !errors.As(err, &list) {
		var one *script.Error
		if !errors.As(err, &one) {
			return err.Error()
		}
		list = script.Errors{one}
	}
	var out []string
	for _, e := range list {
		out = append(out, s.explainOne(e))
	}
	return strings.Join(out, "\n")
}

func (s *session) explainOne(e *script.Error) string {
	text := e.Error()
	if line, ok := s.line(e.Pos); ok {
		text += "\n" + caret(line, int(e.Pos.Col))
	}
	return text
}

// line is a line of the session.
func (s *session) line(p syntax.Position) (string, bool) {
	if p.Filename() != inputName || p.Line < 1 || int(p.Line) > len(s.lines) {
		return "", false
	}
	return s.lines[p.Line-1], true
}

func replFirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
