package migrate

import (
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// workflow is a definition with its fields understood.
type workflow struct {
	pos               diag.Pos
	name, description string
	parameters        *value
	timeout           time.Duration
	steps             []*step
	output            *output
	annotations       *value
	// goOn is the mode that no file could set, but many wanted to: a step that fails ends nothing.
	goOn bool
}

// The kinds of steps.
const (
	toolStep        = "tool"
	elicitationStep = "elicitation"
	forEachStep     = "forEach"
)

// What happens after a failure or a refusal.
const (
	actionAbort    = "abort"
	actionContinue = "continue"
	actionRetry    = "retry"
	actionSkip     = "skip_remaining"
)

// step is one step.
type step struct {
	pos       diag.Pos
	path      string
	id, kind  string
	condition *tmpl
	dependsOn []string
	onError   onError
	timeout   time.Duration // 0: the default
	defaults  *value        // nil: none

	tool      string
	arguments *value

	message             *tmpl
	schema              *value
	onDecline, onCancel string // "": no handler

	collection                 *tmpl
	itemVar                    string
	maxParallel, maxIterations int
	inner                      *step

	templates map[*value]*tmpl // of arguments, at any depth
	fields    *mapping
	level     int
}

// at returns where a field of the step is; without the field, where the step is.
func (s *step) at(name string) diag.Pos {
	if v := s.fields.get(name); v != nil {
		return v.pos
	}
	return s.pos
}

// onError is what happens when a step fails.
type onError struct {
	action     string // "" is abort
	retryCount int
	retryDelay time.Duration
}

// retries returns how often the step is tried again.
func (s *step) retries() int {
	if s.onError.action != actionRetry {
		return 0
	}
	return min(s.onError.retryCount, maxRetries)
}

// mayFail reports whether the workflow goes on when the step has failed.
func (s *step) mayFail() bool { return s.onError.action == actionContinue }

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
	timeoutSlack         = time.Minute // by which a script's limit is longer than the workflow's own deadline
	defaultRetryDelay    = time.Second
	defaultRetryDelayStr = "1s"
)

// tmpl is a text that is a template.
type tmpl struct {
	value *value
	text  string
	// parsed is nil when the text is no template.
	parsed *gotmpl.Template
	err    error
}

// output is the declared result.
type output struct {
	pos        diag.Pos
	path       string
	properties []*property
	required   []string
}

// property is a field of the result.
type property struct {
	pos         diag.Pos
	path        string
	name        string
	kind        string
	description string
	value       *tmpl
	properties  []*property
	fallback    *value
	fields      *mapping
}

// at returns where a field of the property is; without the field, where the property is.
func (p *property) at(name string) diag.Pos {
	if v := p.fields.get(name); v != nil {
		return v.pos
	}
	return p.pos
}

// levels returns the steps by level, each in the order of the file.
func (w *workflow) levels() (levels [][]*step) {
	for _, s := range w.steps {
		for len(levels) <= s.level {
			levels = append(levels, nil)
		}
		levels[s.level] = append(levels[s.level], s)
	}
	return levels
}

// skips reports whether the user's answer to a step may end the workflow early.
func (s *step) skips() bool {
	return s.kind == elicitationStep && (s.onDecline == actionSkip || s.onCancel == actionSkip)
}

// itemName is what templates call the item of a loop.
func (s *step) itemName() string {
	if s.itemVar == "" {
		return defaultItem
	}
	return s.itemVar
}

// note is something about a definition that deserves a human's eye.
type note struct {
	Pos diag.Pos
	// Path is the field, such as steps[2].onError.
	Path string
	Msg  string
}

func (n note) String() string {
	if n.Path == "" {
		return fmt.Sprintf("%s: %s", n.Pos, n.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", n.Pos, n.Path, n.Msg)
}
