// Package legacy is the module that migrated workflows load: load("legacy", "call", ...).
//
// Its functions treat values, errors and time as ToolHive's workflow engine did, where Starlark
// differs. A program that may load it is compiled with
//
//	p, err := script.Compile(file, legacy.With(script.Options{Builtins: builtins.All()}))
package legacy

import (
	_ "embed"
	"fmt"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
)

// source is the module that migrated workflows load. It is executed once per run,
// so that its state belongs to that run.
//
//go:embed module.star
var source []byte

// Name is the name of the module in load("legacy", ...).
const Name = "legacy"

// entry is the builtin that only the module has, and its name one that other files do not use by accident.
const entry = "_legacy"

// With returns o with the module "legacy" to load from, for scripts that
// vmcp migrate-composite wrote.
func With(o script.Options) script.Options {
	names := make(starlark.StringDict, len(o.Builtins)+1)
	for name, v := range o.Builtins {
		names[name] = v
	}
	names[entry] = script.NewBuiltin(entry, newEngine)
	load := o.Load
	o.Builtins = names
	o.Load = func(from, name string) (script.File, error) {
		switch {
		case name == Name:
			return script.File{Name: Name, Source: source}, nil
		case load == nil:
			return script.File{}, fmt.Errorf("the only library to load from is %q", Name)
		}
		return load(from, name)
	}
	return o
}

// engine is the state of a run of a migrated workflow.
type engine struct {
	began    time.Time
	deadline time.Time      // of the whole workflow
	latest   starlark.Value // output of the step that completed last
	ended    starlark.Value // output of the question whose answer skips the remaining steps
	done     int            // completed steps
	info     *starlark.Dict // .workflow of templates
}

// workflowTimeout is the default of a workflow, stepTimeout that of a step.
const (
	workflowTimeout = 30 * time.Minute
	stepTimeout     = 5 * time.Minute
)

// newEngine returns the functions of the module for one run.
func newEngine(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	began := script.RunOf(t).Began()
	w := &engine{began: began, deadline: began.Add(workflowTimeout), latest: starlark.None}
	members := starlark.StringDict{"NOTHING": noOutput{}}
	add := func(functions map[string]function) {
		for name, f := range functions {
			members[name] = script.NewBuiltin(name, f)
		}
	}
	add(valueFunctions)
	add(textFunctions)
	add(comparisons)
	add(outputFunctions)
	add(map[string]function{
		"arguments": w.arguments, "deadline": w.setDeadline, "workflow": w.workflow, "timestamp": w.timestamp,
		"condition": w.condition, "call": w.call, "retry": w.retry, "attempt": w.attempt, "skipped": w.skipped,
		"as_record": w.asRecord, "as_map": w.asMap,
		"for_each": w.forEach, "ask": w.ask, "gated": w.gated, "latest": w.latestOutput, "answer": w.answer,
	})
	return starlarkstruct.FromStringDict(starlarkstruct.Default, members), nil
}

// Error is the failure of a migrated workflow. Its method Error returns the whole text that
// the legacy engine sent to its client: a server returns it without position and backtrace.
type Error struct {
	// Cause is the text of the step's error, without what the engine added to it.
	Cause string
	text  string
	kind  failureKind
	// tool is the prefix of Cause up to the reason, for a failed call.
	tool string
}

func (e *Error) Error() string { return e.text }

// ErrorOf returns an error with a text and no other properties.
func ErrorOf(text string) *Error { return &Error{Cause: text, text: text} }

// failureKind is the class of a failure, by which attempt and for_each handle it.
type failureKind int

const (
	stepFailed    failureKind = iota // a step could not be performed
	backendFailed                    // its tool was called, and failed: defaultResults apply
	stepLate                         // the step ran out of time
	workflowLate                     // the workflow ran out of time while the step ran
	workflowOver                     // the workflow ran out of time before the step began: the run ends
)

// Texts of the legacy engine.
const (
	textFailed       = "Workflow execution failed: "
	textLevel        = textFailed + "level execution failed: "
	textStepLate     = "Workflow execution timeout exceeded"
	textWorkflowLate = textFailed + "workflow timed out"
)

// stepError is the error of a step.
func stepError(kind failureKind, format string, args ...any) *Error {
	e := &Error{Cause: fmt.Sprintf(format, args...), kind: kind}
	switch kind {
	case stepLate:
		e.text = textStepLate
	case workflowLate, workflowOver:
		e.text = textWorkflowLate
	default:
		e.text = textLevel + e.Cause
	}
	return e
}

// outputError is the error of the construction of the output.
func outputError(cause string) *Error {
	return &Error{Cause: cause, text: textFailed + cause}
}

// usesDefaults reports whether defaultResults become the output of a step that failed so.
func (e *Error) usesDefaults() bool {
	return e.kind == backendFailed || e.kind == stepLate || e.kind == workflowLate
}
