package meter_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/lib/math"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/starlarktest"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

// Programs behave the same with and without metering: those that the interpreter's own
// tests are made of give the same results, the same errors at the same places.
func TestUpstreamBehaviour(t *testing.T) {
	testmode.NeedThorough(t)
	dir := upstreamTests(t)
	for _, file := range []string{
		"assign", "bool", "builtins", "bytes", "control", "dict", "float", "function", "int", "list", "math",
		"misc", "module", "recursion", "set", "string", "time", "tuple", "while", "function_param", "paths",
	} {
		data, err := os.ReadFile(filepath.Join(dir, file+".star"))
		if err != nil {
			t.Fatal(err)
		}
		chunks := strings.Split(string(data), "\n---\n")
		line := 0
		for i, chunk := range chunks {
			name := fmt.Sprintf("%s/%d", file, i)
			source := strings.Repeat("\n", line) + chunk
			line += strings.Count(chunk, "\n") + 2
			t.Run(name, func(t *testing.T) {
				want := runChunk(t, source, false)
				got := runChunk(t, source, true)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("metered behaves differently (-plain +metered):\n%s", diff)
				}
			})
		}
	}
}

// upstreamTests returns the folder of the interpreter's own test programs, in the
// module that this test is built with. Binaries need not know it: -trimpath.
func upstreamTests(t *testing.T) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "go.starlark.net").Output()
	if err != nil {
		t.Fatalf("the interpreter's tests are needed: go list: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "starlark", "testdata")
}

type reports []string

func (r *reports) Error(args ...any) { *r = append(*r, fmt.Sprint(args...)) }

// runChunk runs a piece of a test program and returns what it complained of.
func runChunk(t *testing.T, source string, metering bool) []string {
	thread := &starlark.Thread{}
	predeclared := starlark.StringDict{
		"hasfields": starlark.NewBuiltin("hasfields", newHasFields),
		"fibonacci": fibonacci{},
		"struct":    starlark.NewBuiltin("struct", starlarkstruct.Make),
	}
	if metering {
		thread = metertest.Thread(meter.Amount{Steps: 1e12, Memory: 1 << 50}, 200_000)
		maps.Copy(predeclared, meter.Universe())
	}
	var complaints reports
	starlarktest.SetReporter(thread, &complaints)
	thread.Print = func(_ *starlark.Thread, msg string) { complaints.Error("print: ", msg) }
	thread.Load = loadUpstream
	opts := &syntax.FileOptions{
		Set:             has(source, "option:set"),
		While:           has(source, "option:while"),
		TopLevelControl: has(source, "option:toplevelcontrol"),
		GlobalReassign:  has(source, "option:globalreassign"),
		Recursion:       has(source, "option:recursion"),
	}
	if err := execChunk(thread, opts, source, predeclared, metering); err != nil {
		complaints.Error(located(err))
	}
	return complaints
}

func has(source, option string) bool { return strings.Contains(source, option) }

func execChunk(thread *starlark.Thread, opts *syntax.FileOptions, source string, predeclared starlark.StringDict, metering bool) error {
	f, err := opts.Parse("chunk.star", source, 0)
	if err != nil {
		return err
	}
	if metering {
		if _, err := meter.Instrument(f, nil); err != nil {
			return err
		}
	}
	p, err := starlark.FileProgram(f, predeclared.Has)
	if err != nil {
		return err
	}
	globals, err := p.Init(thread, predeclared)
	if err == nil {
		globals.Freeze()
	}
	return err
}

// located adds to an error where in the program it happened.
func located(err error) string {
	eval, ok := err.(*starlark.EvalError)
	if !ok {
		return err.Error()
	}
	var frames []string
	for _, f := range eval.CallStack {
		if f.Pos.Filename() == "chunk.star" {
			frames = append(frames, f.Pos.String())
		}
	}
	return strings.Join(frames, " > ") + ": " + eval.Msg
}

func loadUpstream(thread *starlark.Thread, module string) (starlark.StringDict, error) {
	switch module {
	case "assert.star":
		return starlarktest.LoadAssertModule()
	case "time.star":
		return starlark.StringDict{"time": startime.Module}, nil
	case "math.star":
		return starlark.StringDict{"math": math.Module}, nil
	}
	return nil, fmt.Errorf("no module %q", module)
}

// fibonacci is an iterable without an end.
type fibonacci struct{ starlark.NoneType }

func (fibonacci) String() string             { return "fib" }
func (fibonacci) Type() string               { return "fib" }
func (fibonacci) Truth() starlark.Bool       { return true }
func (fibonacci) Iterate() starlark.Iterator { return &fibIterator{0, 1} }

type fibIterator struct{ x, y int }

func (it *fibIterator) Next(p *starlark.Value) bool {
	*p = starlark.MakeInt(it.x)
	it.x, it.y = it.y, it.x+it.y
	return true
}

func (it *fibIterator) Done() {}

// hasfields is a value whose fields can be set.
type hasfields struct {
	attrs  starlark.StringDict
	frozen bool
}

func newHasFields(_ *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return &hasfields{attrs: starlark.StringDict{}}, nil
}

func (h *hasfields) String() string        { return "hasfields" }
func (h *hasfields) Type() string          { return "hasfields" }
func (h *hasfields) Truth() starlark.Bool  { return true }
func (h *hasfields) Hash() (uint32, error) { return 42, nil }
func (h *hasfields) Freeze()               { h.frozen = true; h.attrs.Freeze() }

func (h *hasfields) Attr(name string) (starlark.Value, error) { return h.attrs[name], nil }
func (h *hasfields) AttrNames() []string                      { return h.attrs.Keys() }

func (h *hasfields) SetField(name string, v starlark.Value) error {
	if h.frozen {
		return fmt.Errorf("cannot set field on a frozen hasfields")
	}
	if strings.HasPrefix(name, "no") {
		return starlark.NoSuchAttrError(fmt.Sprintf("no .%s field", name))
	}
	h.attrs[name] = v
	return nil
}

func (h *hasfields) Binary(op syntax.Token, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	if _, ok := y.(*starlark.List); ok && op == syntax.PLUS {
		return starlark.MakeInt(42), nil
	}
	return nil, nil
}
