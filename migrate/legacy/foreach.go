package legacy

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// loop is the state of a for_each.
type loop struct {
	w          *engine
	step       string
	fn         starlark.Callable
	items      []starlark.Value
	keepGoing  bool
	iterations []starlark.Value
	completed  int
}

// Limits of the legacy engine.
const (
	maxIterations = 100
	parallelWidth = 10
	widest        = 50
)

// forEach is for_each(fn, items=None, step=..., text=None, max_parallel=10,
// max_iterations=100, keep_going=False, timeout="5m"): calls fn(item, index) for every
// element of a list, or of the JSON text of one. With keep_going a failed iteration does not end the loop.
func (w *engine) forEach(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	l := &loop{w: w}
	var items, text, timeoutArg starlark.Value
	parallel, most := parallelWidth, maxIterations
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fn", &l.fn, "items?", &items, "step", &l.step, "text?", &text,
		"max_parallel?", &parallel, "max_iterations?", &most, "keep_going?", &l.keepGoing, "timeout?", &timeoutArg)
	if err != nil {
		return nil, err
	}
	timeout, err := duration(timeoutArg, stepTimeout)
	if err != nil {
		return nil, fmt.Errorf("for_each: timeout: %w", err)
	}
	if l.items, err = l.collection(t, items, text); err != nil {
		return nil, err
	}
	if len(l.items) > most {
		return nil, stepError(stepFailed, "forEach step %s: collection size %d exceeds maxIterations %d", l.step, len(l.items), most)
	}
	return within(t, timeout, func() (starlark.Value, error) { return l.run(t, min(parallel, widest)) })
}

// collection returns the elements: of the JSON in text, or of the value items, converted as by JSON.
func (l *loop) collection(t *starlark.Thread, items, text starlark.Value) ([]starlark.Value, error) {
	s, isText := starlark.AsString(orNone(text))
	if !isText {
		v, err := toGo(t, orNone(items))
		if err != nil {
			return nil, fmt.Errorf("for_each: %w", err)
		}
		data, err := goJSON(t, v)
		if err != nil {
			return nil, err
		}
		s = string(data)
	}
	var list []any
	if err := parseJSON(t, s, &list); err != nil {
		return nil, stepError(stepFailed, "forEach step %s: collection must resolve to a JSON array, got: %s", l.step, shorten(s, 100))
	}
	v, err := fromGo(t, list)
	if err != nil || v == starlark.None {
		return nil, err
	}
	out := make([]starlark.Value, len(list))
	for i := range out {
		out[i] = v.(*starlark.List).Index(i)
	}
	return out, nil
}

func orNone(v starlark.Value) starlark.Value {
	if v == nil {
		return starlark.None
	}
	return v
}

// shorten cuts a text after n characters.
func shorten(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}

// run performs the iterations and returns the output of the step.
func (l *loop) run(t *starlark.Thread, width int) (starlark.Value, error) {
	l.iterations = make([]starlark.Value, len(l.items))
	deadline := t.Local(deadlineKey)
	_, err := script.RunOf(t).Parallel(t, len(l.items), max(width, 1), func(t *starlark.Thread, i int) (starlark.Value, error) {
		t.SetLocal(deadlineKey, deadline)
		return starlark.None, l.iteration(t, i)
	})
	if err != nil {
		return nil, err
	}
	out := starlark.NewDict(4)
	_ = out.SetKey(starlark.String("iterations"), starlark.NewList(l.iterations))
	_ = out.SetKey(starlark.String("count"), starlark.MakeInt(len(l.items)))
	_ = out.SetKey(starlark.String("completed"), starlark.MakeInt(l.completed))
	_ = out.SetKey(starlark.String("failed"), starlark.MakeInt(len(l.items)-l.completed))
	l.w.finished(out)
	return out, nil
}

// iteration calls the function for one element and notes the result.
func (l *loop) iteration(t *starlark.Thread, i int) error {
	run := script.RunOf(t)
	if l.keepGoing {
		defer run.Catching(t)()
	}
	output, err := run.Call(t, l.fn, starlark.Tuple{element(l.items[i]), starlark.MakeInt(i)}, nil)
	var failed *Error
	switch {
	case err == nil:
		l.completed++
		l.note(i, "completed", output, "")
		return nil
	case script.Final(err) || !errors.As(err, &failed) || failed.kind == workflowOver:
		return err
	case !l.keepGoing:
		return stepError(failed.kind.ofLoop(), "forEach step %s iteration %d: %s", l.step, i, failed.Cause)
	}
	l.note(i, "failed", starlark.None, failed.Cause)
	return nil
}

// ofLoop is the kind of the failure of a loop: defaultResults do not apply to loops.
func (k failureKind) ofLoop() failureKind {
	if k == backendFailed {
		return stepFailed
	}
	return k
}

func (l *loop) note(i int, status string, output starlark.Value, message string) {
	d := starlark.NewDict(5)
	_ = d.SetKey(starlark.String("index"), starlark.MakeInt(i))
	_ = d.SetKey(starlark.String("item"), l.items[i])
	_ = d.SetKey(starlark.String("status"), starlark.String(status))
	_ = d.SetKey(starlark.String("output"), output)
	if message != "" {
		_ = d.SetKey(starlark.String("error"), starlark.String(message))
	}
	l.iterations[i] = d
}
