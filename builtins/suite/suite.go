// Package suite runs tests of scripted tools: functions test_* in files *_test.star.
//
//	s := &suite.Suite{Options: suite.Options{Tools: tools, Load: load, Replay: true, Orders: 24}}
//	report := s.Run(ctx, files)
//
// A test is isolated: backends are fakes that it declares, the user is a list of answers, and time is virtual. It has
// no access to the network, files or the environment.
//
// # Why a test is run many times
//
// A test that passed is run again in variants. In one kind, a run is stopped at one effect, which is not answered
// while everything else continues, and then resumed over its journal; in the other, the answers to parallel branches
// arrive in another order. A variant with other effects or another output than the plain run shows a bug that could
// occur in production: see variants.go.
//
// # Scheduling
//
// The test is a run of the engine, and every tool that it runs is another one. Their effects are not answered
// immediately: all are held until no run can compute any more; then the scheduler computes the answers of fakes and
// releases one effect. So a run is deterministic. See schedule.go.
package suite

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// Tools are the tools that scripts can call.
type Tools interface {
	// Find returns the tool with a name as clients see it, or backend.tool; nil when there is none.
	Find(name string) *Tool
	// Names returns the names that clients see.
	Names() []string
}

// Tool is a backend's tool as in vmcp.lock, or a scripted one.
type Tool struct {
	Name string // as clients see it
	// Input and Output are the locked schemas; nil: anything. Those of a scripted tool, which checks for itself, only
	// convert arguments.
	Input, Output *schema.Schema
	Script        Script // nil: a tool of a backend
	Limits        script.Limits
	Repeat        script.Repeat // of a tool of a backend
}

// Script is a scripted tool with its schemas.
type Script interface {
	Code() *script.Program
	// Arguments fills in defaults, and returns an error for arguments that do not fit the input schema.
	Arguments(raw json.RawMessage) (json.RawMessage, error)
	// CheckOutput returns an error for a result that does not fit the declared output.
	CheckOutput(res *script.Result) error
}

// Options configure a run of tests.
type Options struct {
	Tools Tools
	// Locked says that Tools has the tools of all backends: a fake of any other is a mistake.
	Locked bool
	// Load returns the file that a test file loads.
	Load func(from, name string) (script.File, error)
	// Limits bound what a test itself computes.
	Limits script.Limits
	// Only matches the names of the tests to run; nil: all.
	Only *regexp.Regexp
	// Replay runs each test that passed again, stopped and resumed at each effect.
	Replay bool
	// Orders is the number of orders of the branches of one testing.run in which a test is run again.
	Orders int
	// Cover counts what plain runs reach; the tools have to be compiled with it. nil: nothing is counted.
	Cover *script.Coverage
	// Print receives the output of print() of plain runs. May be nil.
	Print func(pos, text string)
	// Done is called with each test after it has ended. May be nil.
	Done func(Test)
	// Budget bounds the computing time of the plain run of a test, and that of its variants together; 0: 5 s.
	Budget time.Duration
}

// Statuses of a test.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Codes of problems.
const (
	CodeFailed     = "test-failed"     // an assertion, or an error of the test
	codeFake       = "test-fake"       // a fake, or a call of it, does not fit the locked schemas
	codeUnfaked    = "test-unfaked"    // a tool without a fake
	codeUnanswered = "test-unanswered" // a question without an answer
	codeUnused     = "test-unused"     // a fake or an answer that nothing used
	CodeTime       = "test-time"       // the test computes too long, or more than its limits allow
	codeReplay     = "test-replay"     // stopped and resumed, it has other effects or another output
	codeOrder      = "test-order"      // in another order of branches, it has other effects or another output
)

// Report is the outcome of all tests.
type Report struct {
	OK       bool      `json:"ok"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Locked   bool      `json:"locked"`
	Tests    []Test    `json:"tests"`
	Coverage *Coverage `json:"coverage,omitempty"`
}

// Test is the outcome of one test, or of a file that could not be compiled: then its name is "".
type Test struct {
	File       string    `json:"file"`
	Name       string    `json:"name"`
	Line       int       `json:"line"`
	Status     string    `json:"status"`
	DurationMs float64   `json:"durationMs"`
	Variants   Variants  `json:"variants"`
	Problems   []Problem `json:"problems"`
}

// Variants counts the runs beyond the plain one.
type Variants struct {
	Replay int `json:"replay"`
	Orders int `json:"orders"`
}

// Problem is the reason why a test did not pass.
type Problem struct {
	Code    string `json:"code"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Variant is the variant with the problem: "" is the plain run.
	Variant string `json:"variant"`
}

// Diag returns the problem in the form that all commands print.
func (p Problem) Diag() diag.Problem {
	return diag.Problem{Pos: diag.Pos{File: p.File, Line: p.Line, Column: p.Column}, Code: p.Code, Message: p.Message}
}

func (p *Problem) Error() string { return p.Message }

// Suite runs test files.
type Suite struct{ Options }

// budget is the default of Options.Budget.
const budget = 5 * time.Second

// Run runs the tests of files, one after the other. When ctx ends, the remaining tests are not run.
func (s *Suite) Run(ctx context.Context, files []script.File) *Report {
	r := &Report{OK: true, Locked: s.Locked, Tests: []Test{}}
	if s.Budget == 0 {
		s.Budget = budget
	}
	for _, f := range files {
		s.file(ctx, f, r)
	}
	r.OK = r.Failed == 0
	if s.Cover != nil {
		r.Coverage = coverageOf(s.Cover)
	}
	return r
}

// Add adds a test, of this suite or from another source.
func (r *Report) Add(t Test) {
	if t.Problems == nil {
		t.Problems = []Problem{}
	}
	switch t.Status {
	case Passed:
		r.Passed++
	case Skipped:
		r.Skipped++
	default:
		r.Failed++
		r.OK = false
	}
	r.Tests = append(r.Tests, t)
}
