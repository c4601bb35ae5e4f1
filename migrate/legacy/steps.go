package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// arguments is arguments(params, defaults={}, filled=False): the arguments of the call as
// the legacy engine had them. Numbers are floats; defaults have the types of the YAML file.
// With filled, params has the defaults already: an argument that equals its default gets the default's type.
func (w *engine) arguments(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var params, defaults *starlark.Dict
	var filled bool
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "params", &params, "defaults?", &defaults, "filled?", &filled); err != nil {
		return nil, err
	}
	v, err := toGo(t, params)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	out, err := fromGo(t, v)
	if err != nil || defaults == nil {
		return out, err
	}
	d := out.(*starlark.Dict)
	for _, kv := range defaults.Items() {
		value, given, _ := d.Get(kv[0])
		same := false
		if given && filled {
			if same, err = starlark.Equal(value, kv[1]); err != nil {
				return nil, err
			}
		}
		if !given || same {
			if err := d.SetKey(kv[0], kv[1]); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// setDeadline is deadline(timeout): sets the timeout of the whole workflow, from its start.
func (w *engine) setDeadline(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var timeout starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "timeout", &timeout); err != nil {
		return nil, err
	}
	d, err := duration(timeout, workflowTimeout)
	if err != nil {
		return nil, fmt.Errorf("deadline: %w", err)
	}
	w.deadline = w.began.Add(d)
	return starlark.None, nil
}

// condition is condition(text, step): parses the text of a condition as a boolean, one of six words.
func (w *engine) condition(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text, step string
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "text", &text, "step", &step); err != nil {
		return nil, err
	}
	switch text {
	case "true", "True", "TRUE":
		return starlark.True, nil
	case "false", "False", "FALSE":
		return starlark.False, nil
	}
	return nil, stepError(stepFailed, "template expansion failed: failed to evaluate condition for step %s: "+
		"condition must evaluate to 'true' or 'false', got: %q", step, text)
}

// skipped is skipped(output): the record of a step that did not run.
func (w *engine) skipped(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var output starlark.Value = noOutput{}
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "output?", &output); err != nil {
		return nil, err
	}
	return record("skipped", output, starlark.NewDict(0), starlark.None), nil
}

// recordName is the constructor of the records of steps.
const recordName = starlark.String("step")

// record returns the record of a step, with the fields that templates use.
func record(status string, output, content, message starlark.Value) starlark.Value {
	return starlarkstruct.FromStringDict(recordName, starlark.StringDict{
		"status": starlark.String(status), "output": output, "content": content, "error": message,
	})
}

func isRecord(v starlark.Value) bool {
	s, ok := v.(*starlarkstruct.Struct)
	return ok && s.Constructor() == recordName
}

// asRecord is as_record(output): the record of a step that has completed.
func (w *engine) asRecord(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var output starlark.Value
	if err := starlark.UnpackPositionalArgs(fn.Name(), args, kwargs, 1, &output); err != nil {
		return nil, err
	}
	return record("completed", output, starlark.NewDict(0), starlark.None), nil
}

// asMap is as_map(record): a record as the map that templates had, with error only after a failure.
func (w *engine) asMap(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from *starlarkstruct.Struct
	if err := starlark.UnpackPositionalArgs(fn.Name(), args, kwargs, 1, &from); err != nil {
		return nil, err
	}
	d := starlark.NewDict(4)
	for _, name := range from.AttrNames() {
		v, err := from.Attr(name)
		if err != nil {
			return nil, err
		}
		if name == "error" && v == starlark.None {
			continue
		}
		if err := d.SetKey(starlark.String(name), v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// finished notes that a step has completed.
func (w *engine) finished(output starlark.Value) {
	w.latest = output
	w.done++
}

// latestOutput is latest(): the output of the step that completed last, None without any.
func (w *engine) latestOutput(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return w.latest, nil
}

// attempt is attempt(fn, defaults=NOTHING): a step whose failure does not end the
// workflow. It returns the step's record. The defaults become the output only after a
// failure of the tool.
func (w *engine) attempt(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var body starlark.Callable
	var defaults starlark.Value = noOutput{}
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fn", &body, "defaults?", &defaults); err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	done := run.Catching(t)
	v, err := run.Call(t, body, nil, nil)
	done()
	var failed *Error
	switch {
	case err == nil && isRecord(v):
		return v, nil
	case err == nil:
		return record("completed", v, starlark.NewDict(0), starlark.None), nil
	case script.Final(err) || !errors.As(err, &failed) || failed.kind == workflowOver:
		return nil, err
	case !failed.usesDefaults():
		defaults = noOutput{}
	}
	return record("failed", defaults, starlark.NewDict(0), starlark.String(failed.Cause)), nil
}

// deadlineKey is the thread-local key of the deadline of the step that the thread runs.
const deadlineKey = "vmcp.legacy.deadline"

// within runs fn with the deadline of a step on t.
func within(t *starlark.Thread, timeout time.Duration, fn func() (starlark.Value, error)) (starlark.Value, error) {
	before := t.Local(deadlineKey)
	deadline := time.Now().Add(timeout)
	if outer, ok := before.(time.Time); ok && outer.Before(deadline) {
		deadline = outer
	}
	t.SetLocal(deadlineKey, deadline)
	defer t.SetLocal(deadlineKey, before)
	return fn()
}

// stepContext returns the context of an effect of a step, with the deadlines of the step and
// of the workflow.
func (w *engine) stepContext(ctx context.Context, t *starlark.Thread, timeout time.Duration) (context.Context, context.CancelFunc) {
	deadline := w.deadline
	if d, ok := t.Local(deadlineKey).(time.Time); ok && d.Before(deadline) {
		deadline = d
	}
	if d := time.Now().Add(timeout - script.Since(ctx)); timeout > 0 && d.Before(deadline) {
		deadline = d
	}
	return context.WithDeadline(ctx, deadline)
}

// Kinds of the failures of steps in the journal.
const (
	kindStepLate     = "step_deadline"
	kindWorkflowLate = "workflow_deadline"
	kindWorkflowOver = "workflow_over"
)

// lateness returns the failure of an effect that was cancelled by the deadline of the step or the workflow; nil
// when it was not. outer is the context of the run.
func (w *engine) lateness(outer, inner context.Context) error {
	if outer.Err() != nil || inner.Err() == nil {
		return nil
	}
	f := &script.Failure{Kind: kindStepLate, Message: "context deadline exceeded"}
	if !time.Now().Before(w.deadline) {
		f.Kind = kindWorkflowLate
	}
	return f
}

// failureKindOf returns the kind of a step's failure for an error of its effect.
func failureKindOf(err error) failureKind {
	var f *script.Failure
	if !errors.As(err, &f) {
		return backendFailed
	}
	switch f.Kind {
	case kindStepLate:
		return stepLate
	case kindWorkflowLate:
		return workflowLate
	case kindWorkflowOver:
		return workflowOver
	case builtins.NotFound:
		return stepFailed
	}
	return backendFailed
}

// retry is retry(fn, attempts, delay="1s", timeout="5m"): calls fn until it succeeds. The
// delay grows by half each time, up to 60 times the first one, and is randomized by half.
func (w *engine) retry(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var body starlark.Callable
	var attempts int
	var delayArg, timeoutArg starlark.Value
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fn", &body, "attempts", &attempts, "delay?", &delayArg, "timeout?", &timeoutArg)
	if err != nil {
		return nil, err
	}
	delay, err := duration(delayArg, time.Second)
	if err != nil {
		return nil, fmt.Errorf("retry: delay: %w", err)
	}
	timeout, err := duration(timeoutArg, stepTimeout)
	if err != nil {
		return nil, fmt.Errorf("retry: timeout: %w", err)
	}
	return within(t, timeout, func() (starlark.Value, error) { return w.retryFor(t, body, attempts, delay) })
}

// retryTime bounds the retries of one step.
const retryTime = 15 * time.Minute

func (w *engine) retryFor(t *starlark.Thread, body starlark.Callable, attempts int, delay time.Duration) (starlark.Value, error) {
	run := script.RunOf(t)
	slept := time.Duration(0)
	most := 60 * delay
	unsure := run.Unsure(t)
	for i := 1; ; i++ {
		done := run.Catching(t)
		v, err := run.Call(t, body, nil, nil)
		done()
		var failed *Error
		if err == nil || script.Final(err) || !errors.As(err, &failed) {
			return v, err
		}
		if run.Unsure(t) > unsure { // the call may have been executed, and may not be repeated
			return nil, err
		}
		if i >= attempts || failed.kind == stepLate || failed.kind == workflowLate || failed.kind == workflowOver || slept > retryTime {
			return nil, err
		}
		if err := w.sleep(t, delay); err != nil {
			return nil, failed.cutOff(err)
		}
		slept += delay
		delay = min(delay+delay/2, most)
	}
}

// cutOff returns the error of a step that ran out of time between two attempts.
func (e *Error) cutOff(err error) error {
	kind := failureKindOf(err)
	if script.Final(err) || kind != stepLate && kind != workflowLate {
		return err
	}
	return stepError(kind, "%scontext deadline exceeded", e.tool)
}

// sleep waits for the delay, randomized by half.
func (w *engine) sleep(t *starlark.Thread, delay time.Duration) error {
	e := script.Effect{Kind: "sleep", Name: delay.String(), Repeatable: true}
	_, err := script.RunOf(t).Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		inner, cancel := w.stepContext(ctx, t, 0)
		defer cancel()
		varied := delay/2 + time.Duration(rand.Int64N(int64(delay)+1))
		select {
		case <-time.After(varied):
			return nil, nil
		case <-inner.Done():
			if err := w.lateness(ctx, inner); err != nil {
				return nil, err
			}
			return nil, inner.Err()
		}
	})
	return err
}

// workflow is workflow(done=False): .workflow of templates. Its counters are 0 until
// the output is constructed.
func (w *engine) workflow(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var done bool
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "done?", &done); err != nil {
		return nil, err
	}
	if w.info == nil {
		raw, err := w.begin(t)
		if err != nil {
			return nil, err
		}
		v, err := script.DecodeIn(t, raw, 2)
		if err != nil {
			return nil, err
		}
		w.info = v.(*starlark.Dict)
	}
	info := starlark.NewDict(5)
	for _, kv := range w.info.Items() {
		_ = info.SetKey(kv[0], kv[1])
	}
	status, count, spent := "pending", 0, int64(0)
	if done {
		status, count, spent = "completed", w.done, time.Since(w.began).Milliseconds()
	}
	_ = info.SetKey(starlark.String("status"), starlark.String(status))
	_ = info.SetKey(starlark.String("step_count"), starlark.MakeInt(count))
	_ = info.SetKey(starlark.String("duration_ms"), starlark.MakeInt64(spent))
	return info, nil
}

// begin returns the id and the start of the run, as JSON.
func (w *engine) begin(t *starlark.Thread) (json.RawMessage, error) {
	e := script.Effect{Kind: "workflow", Instant: true, Repeatable: true}
	return script.RunOf(t).Do(t, e, func(context.Context) (json.RawMessage, error) {
		id := fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", rand.Uint32(), rand.Uint32()>>16,
			rand.Uint32()>>20, rand.Uint32()>>18|0x8000, rand.Uint64()>>16)
		return json.Marshal(map[string]string{"id": id, "start_time": w.began.UTC().Format(time.RFC3339)})
	})
}

// timestamp is timestamp(): the time, for templates with .timestamp, which did not exist.
func (w *engine) timestamp(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	e := script.Effect{Kind: "now", Instant: true, Repeatable: true}
	raw, err := script.RunOf(t).Do(t, e, func(context.Context) (json.RawMessage, error) {
		return json.Marshal(time.Now().UTC().Format(time.RFC3339))
	})
	if err != nil {
		return nil, err
	}
	return starlark.String(strings.Trim(string(raw), `"`)), nil
}
