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

// workflow is a definition that was read and checked.
type workflow struct {
	Pos               diag.Pos
	Name, Description string
	Parameters        *value
	Timeout           time.Duration
	Steps             []*step
	Output            *output
	Annotations       *value
	// GoOn is the failure mode of the engine that no file could set: the workflow continues after the failure of any step.
	GoOn bool
	// Undeclared says that notes name properties that templates use and a schema does not have.
	Undeclared bool
}

// The kinds of steps.
const (
	toolStep        = "tool"
	elicitationStep = "elicitation"
	forEachStep     = "forEach"
)

// The actions after a failure or a refusal.
const (
	actionAbort    = "abort"
	actionContinue = "continue"
	actionRetry    = "retry"
	actionSkip     = "skip_remaining"
)

// step is one step.
type step struct {
	pos       diag.Pos
	Path      string
	Id, Kind  string
	Condition *template
	DependsOn []string
	OnError   onError
	Timeout   time.Duration // 0: the default
	Defaults  *value        // nil: none

	Tool      string
	Arguments *value

	Message             *template
	Schema              *value
	OnDecline, OnCancel string // "": no handler

	Collection                 *template
	itemVar                    string
	MaxParallel, MaxIterations int
	Inner                      *step

	Templates map[*value]*template // of arguments, at any depth
	fields    *mapping
	Level     int
}

// At returns the position of a field of the step; without the field, that of the step.
func (s *step) At(name string) diag.Pos {
	if v := s.fields.Get(name); v != nil {
		return v.Pos
	}
	return s.pos
}

// onError is the handling of a step's failure.
type onError struct {
	action     string // "" is abort
	retryCount int
	RetryDelay time.Duration
}

// Retries returns the number of retries.
func (s *step) Retries() int {
	if s.OnError.action != actionRetry {
		return 0
	}
	return min(s.OnError.retryCount, maxRetries)
}

// MayFail reports whether the workflow continues when the step has failed.
func (s *step) MayFail() bool { return s.OnError.action == actionContinue }

// Limits of the legacy engine.
const (
	maxSteps      = 100
	maxRetries    = 10
	maxConcurrent = 10
	maxOutput     = 10 // nesting

	defaultParallel, maxParallel     = 10, 50
	defaultIterations, maxIterations = 100, 1000

	defaultTimeout       = 30 * time.Minute
	defaultStepTimeout   = 5 * time.Minute
	maxElicitTimeout     = 10 * time.Minute
	defaultItem          = "item"
	forEachIndex         = "index"
	maxExpansionDepth    = 100
	timeoutSlack         = time.Minute // by which a script's timeout is longer than the workflow's deadline
	defaultRetryDelay    = time.Second
	defaultRetryDelayStr = "1s"
)

// template is a text that is a template.
type template struct {
	Value *value
	text  string
	// Parsed is nil when the text is no template.
	Parsed *gotmpl.Template
	Err    error
}

// output is the declared result.
type output struct {
	pos        diag.Pos
	path       string
	Properties []*property
	Required   []string
}

// property is a field of the result.
type property struct {
	pos         diag.Pos
	path        string
	Name        string
	Kind        string
	Description string
	Value       *template
	Properties  []*property
	Fallback    *value
	fields      *mapping
}

// at returns the position of a field of the property; without the field, that of the property.
func (p *property) at(name string) diag.Pos {
	if v := p.fields.Get(name); v != nil {
		return v.Pos
	}
	return p.pos
}

// Levels returns the steps by level, each in the order of the file.
func (w *workflow) Levels() (levels [][]*step) {
	for _, s := range w.Steps {
		for len(levels) <= s.Level {
			levels = append(levels, nil)
		}
		levels[s.Level] = append(levels[s.Level], s)
	}
	return levels
}

// Skips reports whether the user's answer to a step may end the workflow early.
func (s *step) Skips() bool {
	return s.Kind == elicitationStep && (s.OnDecline == actionSkip || s.OnCancel == actionSkip)
}

// ItemName is the name of a loop's item in templates.
func (s *step) ItemName() string {
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
