package migrate

import (
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// This part of the package reads the definitions in a file, with the position of every field, and checks
// them. Everything that the legacy engine refused is refused here, so that the emitters of both
// styles get valid workflows only.

// Workflow is a definition that was read and checked.
type Workflow struct {
	Pos               diag.Pos
	Name, Description string
	Parameters        *Value
	Timeout           time.Duration
	Steps             []*Step
	Output            *Output
	Annotations       *Value
	// GoOn is the failure mode of the engine that no file could set: the workflow continues after the failure of any step.
	GoOn bool
	// Undeclared says that notes name properties that templates use and a schema does not have.
	Undeclared bool
}

// The kinds of steps.
const (
	ToolStep        = "tool"
	ElicitationStep = "elicitation"
	ForEachStep     = "forEach"
)

// The actions after a failure or a refusal.
const (
	ActionAbort    = "abort"
	ActionContinue = "continue"
	actionRetry    = "retry"
	ActionSkip     = "skip_remaining"
)

// Step is one step.
type Step struct {
	pos       diag.Pos
	Path      string
	Id, Kind  string
	Condition *Template
	DependsOn []string
	OnError   OnError
	Timeout   time.Duration // 0: the default
	Defaults  *Value        // nil: none

	Tool      string
	Arguments *Value

	Message             *Template
	Schema              *Value
	OnDecline, OnCancel string // "": no handler

	Collection                 *Template
	itemVar                    string
	MaxParallel, MaxIterations int
	Inner                      *Step

	Templates map[*Value]*Template // of arguments, at any depth
	fields    *Mapping
	Level     int
}

// At returns the position of a field of the step; without the field, that of the step.
func (s *Step) At(name string) diag.Pos {
	if v := s.fields.Get(name); v != nil {
		return v.Pos
	}
	return s.pos
}

// OnError is the handling of a step's failure.
type OnError struct {
	action     string // "" is abort
	retryCount int
	RetryDelay time.Duration
}

// Retries returns the number of retries.
func (s *Step) Retries() int {
	if s.OnError.action != actionRetry {
		return 0
	}
	return min(s.OnError.retryCount, maxRetries)
}

// MayFail reports whether the workflow continues when the step has failed.
func (s *Step) MayFail() bool { return s.OnError.action == ActionContinue }

// Limits of the legacy engine.
const (
	maxSteps      = 100
	maxRetries    = 10
	MaxConcurrent = 10
	maxOutput     = 10 // nesting

	DefaultParallel, maxParallel     = 10, 50
	DefaultIterations, maxIterations = 100, 1000

	DefaultTimeout       = 30 * time.Minute
	DefaultStepTimeout   = 5 * time.Minute
	MaxElicitTimeout     = 10 * time.Minute
	defaultItem          = "item"
	ForEachIndex         = "index"
	maxExpansionDepth    = 100
	TimeoutSlack         = time.Minute // by which a script's timeout is longer than the workflow's deadline
	DefaultRetryDelay    = time.Second
	defaultRetryDelayStr = "1s"
)

// Template is a text that is a template.
type Template struct {
	Value *Value
	text  string
	// Parsed is nil when the text is no template.
	Parsed *gotmpl.Template
	Err    error
}

// Output is the declared result.
type Output struct {
	pos        diag.Pos
	path       string
	Properties []*Property
	Required   []string
}

// Property is a field of the result.
type Property struct {
	pos         diag.Pos
	path        string
	Name        string
	Kind        string
	Description string
	Value       *Template
	Properties  []*Property
	Fallback    *Value
	fields      *Mapping
}

// at returns the position of a field of the property; without the field, that of the property.
func (p *Property) at(name string) diag.Pos {
	if v := p.fields.Get(name); v != nil {
		return v.Pos
	}
	return p.pos
}

// Levels returns the steps by level, each in the order of the file.
func (w *Workflow) Levels() (levels [][]*Step) {
	for _, s := range w.Steps {
		for len(levels) <= s.Level {
			levels = append(levels, nil)
		}
		levels[s.Level] = append(levels[s.Level], s)
	}
	return levels
}

// Skips reports whether the user's answer to a step may end the workflow early.
func (s *Step) Skips() bool {
	return s.Kind == ElicitationStep && (s.OnDecline == ActionSkip || s.OnCancel == ActionSkip)
}

// ItemName is the name of a loop's item in templates.
func (s *Step) ItemName() string {
	if s.itemVar == "" {
		return defaultItem
	}
	return s.itemVar
}

// Note is a remark about a definition for its author, such as a field that has no effect.
type Note struct {
	Pos diag.Pos
	// Path is the field, such as steps[2].onError.
	Path string
	Msg  string
}

func (n Note) String() string {
	if n.Path == "" {
		return fmt.Sprintf("%s: %s", n.Pos, n.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", n.Pos, n.Path, n.Msg)
}
