package migrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// interpreter executes a workflow step by step, by the documented rules, with the real
// text/template. The results of scripts are compared with its results.
type interpreter struct {
	flow  *flow
	steps map[string]any // as templates see them
	calls []string       // of the current level
	// clean executes it by the rules of the clean style, see clean_reference_test.go.
	clean bool
	// functions replace some of the clean style's.
	functions template.FuncMap
	// beyond says that the workflow continued after a failure that is not the tool's.
	beyond bool
	// fieldless says that a default was used for a field of a value without fields.
	fieldless bool
}

func newInterpreter(f *flow) *interpreter { return &interpreter{flow: f, steps: map[string]any{}} }

// run executes all levels and constructs the result.
func (in *interpreter) run() *ending {
	e := &ending{}
	var last []any
	for level := 0; ; level++ {
		var now []*flowStep
		for _, s := range in.flow.steps {
			if s.level == level {
				now = append(now, s)
			}
		}
		if now == nil {
			break
		}
		in.calls = nil
		records, outputs, failed := in.level(now)
		e.levels = append(e.levels, in.calls)
		if failed != nil {
			for _, err := range failed {
				e.texts = append(e.texts, "Workflow execution failed: level execution failed: "+err.Error())
			}
			e.isError = true
			return e
		}
		maps.Copy(in.steps, records)
		if len(outputs) > 0 {
			last = outputs
		}
	}
	in.result(e, last)
	return e
}

// level executes the steps of a level; failed are the errors that end the workflow.
func (in *interpreter) level(now []*flowStep) (records map[string]any, outputs []any, failed []error) {
	records = map[string]any{}
	for _, s := range now {
		rec := map[string]any{"status": "completed", "output": in.nothing(), "content": map[string]any{}}
		records[s.id] = rec
		out, content, skipped, err := in.step(s)
		var backend *backendError
		switch {
		case skipped:
			rec["status"], rec["output"] = "skipped", in.defaults(s)
		case err == nil:
			rec["output"], rec["content"] = out, content
			outputs = append(outputs, out)
		case !s.continuesOnError:
			var all several
			if !errors.As(err, &all) {
				all = several{err}
			}
			failed = append(failed, all...)
		default:
			rec["status"], rec["error"] = "failed", err.Error()
			if errors.As(err, &backend) {
				rec["output"] = in.defaults(s)
			} else {
				in.beyond = true
			}
		}
	}
	return records, outputs, failed
}

// defaults are the default results with the types of the file: integers stay integers.
func (in *interpreter) defaults(s *flowStep) any {
	if in.clean && s.defaults == nil {
		return map[string]any{}
	}
	return s.defaults
}

// several are the errors of the elements of a loop, one of which is the step's.
type several []error

func (s several) Error() string { return s[0].Error() }

type backendError struct{ msg string }

func (e *backendError) Error() string { return e.msg }

// step performs one step.
func (in *interpreter) step(s *flowStep) (out, content map[string]any, skipped bool, err error) {
	ctx := in.context(s.id)
	if s.condition != "" {
		text, err := in.render(s.condition, ctx)
		if err != nil {
			return nil, nil, false, fmt.Errorf("template expansion failed: failed to evaluate condition for step %s: failed to evaluate condition: %w", s.id, err)
		}
		switch text {
		case "true", "True", "TRUE":
		case "false", "False", "FALSE":
			return nil, nil, true, nil
		default:
			return nil, nil, false, fmt.Errorf("template expansion failed: failed to evaluate condition for step %s: condition must evaluate to 'true' or 'false', got: %q", s.id, text)
		}
	}
	if s.collection != "" {
		out, err := in.loop(s, ctx)
		return out, map[string]any{}, false, err
	}
	args, err := in.arguments(s, ctx)
	if err != nil {
		return nil, nil, false, fmt.Errorf("template expansion failed: failed to expand arguments for step %s: %w", s.id, err)
	}
	out, content, err = in.call(s, args)
	var backend *backendError
	switch {
	case errors.As(err, &backend):
		if !in.clean || in.wantsContent(s) {
			err = &backendError{fmt.Sprintf("tool call failed: tool %s in step %s: %s", s.tool, s.id, err)}
		}
	case err != nil:
		err = fmt.Errorf("failed to route tool %s in step %s: tool not found: %s", s.tool, s.id, s.tool)
	}
	return out, content, false, err
}

func (in *interpreter) context(id string) map[string]any {
	steps := maps.Clone(in.steps)
	if id != "" {
		steps[id] = map[string]any{"status": "running", "output": in.nothing(), "content": map[string]any{}}
	}
	return map[string]any{"params": in.flow.params, "steps": steps, "vars": map[string]any{}}
}

// loop performs a forEach step.
func (in *interpreter) loop(s *flowStep, ctx map[string]any) (map[string]any, error) {
	text, err := in.render(s.collection, ctx)
	if err != nil {
		return nil, err
	}
	var items []any
	if json.Unmarshal([]byte(text), &items) != nil {
		return nil, fmt.Errorf("forEach step %s: collection must resolve to a JSON array, got: %s", s.id, text)
	}
	iterations, completed := []any{}, 0
	var failed several
	for i, item := range items {
		it := map[string]any{"index": i, "item": item, "status": "completed", "output": nil}
		iterations = append(iterations, it)
		ctx["forEach"] = map[string]any{"item": item, "index": i}
		out, err := in.iteration(s, ctx)
		switch {
		case err == nil:
			it["output"] = out
			completed++
		case !s.continuesOnError: // others may have begun, and fail first
			failed = append(failed, fmt.Errorf("forEach step %s iteration %d: %s", s.id, i, err))
		default:
			it["status"], it["error"] = "failed", err.Error()
			var backend *backendError
			in.beyond = in.beyond || !errors.As(err, &backend)
			if in.clean {
				it["output"] = map[string]any{}
			}
		}
	}
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"iterations": iterations, "count": len(items), "completed": completed, "failed": len(items) - completed}, nil
}

func (in *interpreter) iteration(s *flowStep, ctx map[string]any) (map[string]any, error) {
	args, err := in.arguments(s, ctx)
	if err != nil {
		return nil, fmt.Errorf("template expansion failed: %w", err)
	}
	out, _, err := in.call(s, args)
	var backend *backendError
	if err != nil && !errors.As(err, &backend) {
		err = fmt.Errorf("failed to route tool: tool not found: %s", s.tool)
	}
	return out, err
}

// arguments expands the arguments, and converts them by the schema of the tool.
func (in *interpreter) arguments(s *flowStep, ctx map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(s.args)) {
		v, err := in.expand(s.args[k], ctx)
		if err != nil {
			return nil, fmt.Errorf("failed to expand value for key %q: %w", k, err)
		}
		if v != missing {
			out[k] = v
		}
	}
	if s.tool != "t.echo" || in.clean && !in.wantsContent(s) {
		return out, nil
	}
	for k, v := range out {
		text, ok := v.(string)
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && k == "i" {
			out[k] = n
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && k == "f" {
			out[k] = f
		}
		if b, err := strconv.ParseBool(text); err == nil && k == "b" {
			out[k] = b
		}
	}
	return out, nil
}

func (in *interpreter) expand(v any, ctx map[string]any) (any, error) {
	switch v := v.(type) {
	case string:
		if in.clean {
			_, alone, err := renderClean(v, ctx, in.functions)
			return alone, err
		}
		return in.render(v, ctx)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = in.expand(e, ctx); err != nil {
				return nil, fmt.Errorf("failed to expand array element %d: %w", i, err)
			}
			if out[i] == missing {
				out[i] = ""
			}
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			var err error
			if out[k], err = in.expand(e, ctx); err != nil {
				return nil, fmt.Errorf("failed to expand nested key %q: %w", k, err)
			}
			if out[k] == missing {
				delete(out, k)
			}
		}
		return out, nil
	}
	return v, nil
}

// call calls a tool.
func (in *interpreter) call(s *flowStep, args map[string]any) (out, content map[string]any, err error) {
	if s.tool == "t.nowhere" {
		if in.clean {
			return nil, nil, &backendError{"no tool t.nowhere"}
		}
		return nil, nil, errors.New("not found")
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, nil, &backendError{err.Error()}
	}
	in.calls = append(in.calls, s.tool+" "+canonical(raw))
	switch s.tool {
	case "t.fail":
		if in.clean && !in.wantsContent(s) {
			return nil, nil, &backendError{"boom"}
		}
		return nil, nil, &backendError{"tool execution failed: boom"}
	case "t.text":
		content = map[string]any{"text": `{"a": [1, 2]}`}
		if in.clean && !in.wantsContent(s) {
			block := map[string]any{"type": "text", "text": content["text"]}
			return map[string]any{"content": []any{block}, "text": content["text"]}, content, nil
		}
		return content, content, nil
	case "t.data":
		err = json.Unmarshal([]byte(data), &out)
	default:
		err = json.Unmarshal(fmt.Appendf(nil, `{"tool": "echo", "args": %s}`, raw), &out)
	}
	return out, map[string]any{}, err
}

// render renders a template as the legacy engine did.
func (in *interpreter) render(text string, ctx any) (string, error) {
	if in.clean {
		out, _, err := renderClean(text, ctx, in.functions)
		return out, err
	}
	t, err := template.New("expand").Funcs(template.FuncMap{
		"json":  func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"quote": func(s string) string { return strconv.Quote(s) },
		"fromJson": func(s string) (any, error) {
			var v any
			if err := json.Unmarshal([]byte(s), &v); err != nil {
				return nil, fmt.Errorf("failed to unmarshal JSON: %w", err)
			}
			return v, nil
		},
	}).Parse(text)
	if err != nil {
		return "", fmt.Errorf("failed to parse template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, ctx); err != nil {
		return "", fmt.Errorf("failed to execute template: %w", err)
	}
	return b.String(), nil
}

// wantsContent reports whether a template uses the content array of a step.
func (in *interpreter) wantsContent(s *flowStep) bool {
	text := string(in.flow.json())
	return s.collection == "" && strings.Contains(text, ".steps."+s.id+".content")
}

// nothing is the output of a step that has none.
func (in *interpreter) nothing() map[string]any {
	if in.clean {
		return map[string]any{}
	}
	return nil
}

// result constructs the result of the client.
func (in *interpreter) result(e *ending, last []any) {
	if in.flow.output == nil {
		if last == nil {
			last = []any{nil}
		}
		for _, out := range last {
			text, _ := json.Marshal(out)
			e.texts = append(e.texts, string(text))
		}
		return
	}
	out, problems := in.properties(in.flow.output, true)
	if problems != nil {
		e.isError, e.texts = true, problems
		e.levels = append(e.levels, nil)
		return
	}
	text, _ := json.Marshal(out)
	e.texts = []string{string(text)}
}

// properties constructs an object of the output.
func (in *interpreter) properties(list map[string]flowProperty, top bool) (out map[string]any, problems []string) {
	out = map[string]any{}
	for name, p := range list {
		if p.inner != nil {
			var inside []string
			out[name], inside = in.properties(p.inner, false)
			problems = append(problems, inside...)
			continue
		}
		v, err := in.property(name, p)
		if err != nil {
			problems = append(problems, fmt.Sprintf("Workflow execution failed: output construction failed: failed to construct output property %q: %v", name, err))
			continue
		}
		if in.clean && v == nil && p.required && top {
			v = map[string]any{"object": map[string]any{}, "array": []any{}}[p.kind]
		}
		if !in.clean || v != nil && v != missing {
			out[name] = v
		}
	}
	return out, problems
}

func (in *interpreter) property(name string, p flowProperty) (any, error) {
	text, err := in.render(p.value, in.context(""))
	if err != nil {
		if p.fallback != nil {
			in.fieldless = in.fieldless || strings.Contains(err.Error(), "can't evaluate field")
			return p.fallback, nil
		}
		return nil, fmt.Errorf("failed to expand template for property %q: failed to expand value for key \"_value\": %w", name, err)
	}
	if (text == "<no value>" || text == missing) && p.fallback != nil {
		return p.fallback, nil
	}
	if text == missing {
		text = ""
	}
	v, err := typed(name, p.kind, text)
	if err != nil && p.fallback != nil {
		return p.fallback, nil
	}
	return v, err
}

func typed(name, kind, text string) (any, error) {
	coerce := func(v any, err error) (any, error) {
		if err != nil {
			return nil, fmt.Errorf("failed to coerce value for property %q: cannot coerce %q to %s: %w", name, text, kind, err)
		}
		return v, nil
	}
	switch kind {
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		return coerce(n, err)
	case "number":
		f, err := strconv.ParseFloat(text, 64)
		return coerce(f, err)
	case "boolean":
		b, err := strconv.ParseBool(text)
		return coerce(b, err)
	case "object":
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return nil, fmt.Errorf("failed to deserialize JSON for object property %q: %w", name, err)
		}
		if m == nil {
			return nil, nil
		}
		return m, nil
	case "array":
		var l []any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("failed to deserialize JSON array for property %q: %w", name, err)
		}
		if l == nil {
			return nil, nil
		}
		return l, nil
	}
	return text, nil
}
