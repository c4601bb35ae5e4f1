package builtins

import (
	_ "embed"
	"fmt"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
)

// legacySource is the module that migrated workflows load. It is executed once per run,
// so that what it makes belongs to that run.
//
//go:embed legacy.star
var legacySource []byte

// LegacyModule is what scripts write in load("legacy", ...).
const LegacyModule = "legacy"

// legacyEntry is the one name that the module has and other files cannot use by accident.
const legacyEntry = "_legacy"

// Legacy returns o with the module "legacy" to load from: the functions of scripts that
// vmcp migrate-composite wrote, which keep what ToolHive's workflow engine did with
// values, errors and time.
func Legacy(o script.Options) script.Options {
	names := make(starlark.StringDict, len(o.Builtins)+1)
	for name, v := range o.Builtins {
		names[name] = v
	}
	names[legacyEntry] = starlark.NewBuiltin(legacyEntry, newLegacy)
	load := o.Load
	o.Builtins = names
	o.Load = func(from, name string) (script.File, error) {
		switch {
		case name == LegacyModule:
			return script.File{Name: LegacyModule, Source: legacySource}, nil
		case load == nil:
			return script.File{}, fmt.Errorf("there are no libraries to load from but %q", LegacyModule)
		}
		return load(from, name)
	}
	return o
}

// legacy is what a run of a migrated workflow remembers.
type legacy struct {
	began    time.Time
	deadline time.Time      // of the whole workflow
	latest   starlark.Value // output of the step that completed last
	done     int            // completed steps
	info     *starlark.Dict // what templates call .workflow
}

// legacyTimeout is the default of a workflow, legacyStepTimeout that of a step.
const (
	legacyTimeout     = 30 * time.Minute
	legacyStepTimeout = 5 * time.Minute
)

// newLegacy makes the functions of the module for one run.
func newLegacy(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	now := time.Now()
	w := &legacy{began: now, deadline: now.Add(legacyTimeout), latest: starlark.None}
	members := starlark.StringDict{"NOTHING": noOutput{}}
	add := func(functions map[string]function) {
		for name, f := range functions {
			members[name] = starlark.NewBuiltin(name, f)
		}
	}
	add(legacyValues)
	add(legacyTexts)
	add(legacyComparisons)
	add(legacyOutputs)
	add(map[string]function{
		"arguments": w.arguments, "deadline": w.setDeadline, "workflow": w.workflow, "timestamp": w.timestamp,
		"condition": w.condition, "call": w.call, "retry": w.retry, "attempt": w.attempt, "skipped": w.skipped,
		"as_record": w.asRecord, "as_map": w.asMap,
		"for_each": w.forEach, "ask": w.ask, "latest": w.latestOutput, "answer": w.answer,
	})
	return starlarkstruct.FromStringDict(starlarkstruct.Default, members), nil
}

// WorkflowError is the failure of a migrated workflow. Error returns the whole text that
// the legacy engine gave its client: a server shows it without place and backtrace.
type WorkflowError struct {
	// Cause is the failure as the step's own error has it, without what the engine put around it.
	Cause string
	text  string
	kind  failureKind
	// tool is the beginning of Cause up to the reason, for a failed call.
	tool string
}

func (e *WorkflowError) Error() string { return e.text }

// failureKind says what may be done about a failure.
type failureKind int

const (
	stepFailed    failureKind = iota // a step could not be performed
	backendFailed                    // its tool was called, and failed: defaultResults apply
	stepLate                         // the step ran out of time
	workflowLate                     // the workflow ran out of time while the step ran
	workflowOver                     // the workflow ran out of time before the step began: nothing goes on
)

// Texts of the legacy engine.
const (
	textFailed       = "Workflow execution failed: "
	textLevel        = textFailed + "level execution failed: "
	textStepLate     = "Workflow execution timeout exceeded"
	textWorkflowLate = textFailed + "workflow timed out"
)

// stepError makes the error of a step.
func stepError(kind failureKind, format string, args ...any) *WorkflowError {
	e := &WorkflowError{Cause: fmt.Sprintf(format, args...), kind: kind}
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

// outputError makes the error of the construction of the output.
func outputError(cause string) *WorkflowError {
	return &WorkflowError{Cause: cause, text: textFailed + cause}
}

// usesDefaults reports whether defaultResults become the output of a step that failed so.
func (e *WorkflowError) usesDefaults() bool {
	return e.kind == backendFailed || e.kind == stepLate || e.kind == workflowLate
}
