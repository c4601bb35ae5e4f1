// Package suite runs tests of scripted tools: functions test_* in files *_test.star.
//
//	s := &suite.Suite{Options: suite.Options{Tools: tools, Load: load, Replay: true, Orders: 24}}
//	report := s.Run(ctx, files)
//
// A test runs in a world of its own: backends are fakes that it declares, the user is a list of
// answers, and time is virtual. Nothing in it reaches the network, files or the environment.
//
// # Why a test is run many times
//
// A test that passed runs again in variants. In one kind, a run is stopped at one effect, which is
// not answered although everything else goes on, and then resumed over its journal; in the other the
// answers of parallel branches come in another order. A variant that does something else than the
// plain run shows what would happen in production one day: see variants.go.
//
// # Who computes
//
// The test is a run of the engine, and every tool that it runs is another one. None of their
// effects is answered at once: all are held until no run can compute any more, and then the
// scheduler, alone, computes what fakes answer and lets one effect go on. So a run goes the same way
// every time. See schedule.go.
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

// Tools are what scripts can call.
type Tools interface {
	// Find returns the tool of a name as clients see it, or of backend.tool; nil when there is none.
	Find(name string) *Tool
	// Names are those that clients see.
	Names() []string
}

// Tool is a tool of a backend as it is locked, or a scripted one.
type Tool struct {
	Name string // as clients see it
	// Input and Output are the locked schemas; nil: anything.
	Input, Output *schema.Schema
	Script        Script // nil: a tool of a backend
	Limits        script.Limits
}

// Script is a scripted tool with its contract.
type Script interface {
	Code() *script.Program
	// Arguments fills in defaults, and refuses what does not fit the parameters.
	Arguments(raw json.RawMessage) (json.RawMessage, error)
	// CheckOutput refuses what does not fit the declared output.
	CheckOutput(res *script.Result) error
}

// Options say what tests run with.
type Options struct {
	Tools Tools
	// Locked says that Tools has the tools of all backends: a fake of any other is wrong.
	Locked bool
	// Load finds what a test file loads.
	Load func(from, name string) (script.File, error)
	// Limits hold for what a test itself computes.
	Limits script.Limits
	// Only are the names of the tests that run; nil: all.
	Only *regexp.Regexp
	// Replay runs each test that passed again, stopped and resumed at each effect.
	Replay bool
	// Orders is in how many orders of the branches of one testing.run a test runs again.
	Orders int
	// Cover counts what plain runs reach. The tools are compiled with it. nil: nothing is counted.
	Cover *script.Coverage
	// Print gets what print() of plain runs writes. May be nil.
	Print func(pos, text string)
	// Done is called with each test when it has ended. May be nil.
	Done func(Test)
	// Budget is how long the plain run of a test may compute, and its variants together; 0: 5 s.
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
	CodeFake       = "test-fake"       // a fake, or a call of it, does not fit the locked schemas
	CodeUnfaked    = "test-unfaked"    // a tool without a fake
	CodeUnanswered = "test-unanswered" // a question without an answer
	CodeUnused     = "test-unused"     // a fake or an answer that nothing used
	CodeTime       = "test-time"       // the test computes too long, or more than its limits allow
	CodeReplay     = "test-replay"     // stopped and resumed it does something else
	CodeOrder      = "test-order"      // in another order of branches it does something else
)

// Report is what came of the tests.
type Report struct {
	OK       bool      `json:"ok"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Locked   bool      `json:"locked"`
	Tests    []Test    `json:"tests"`
	Coverage *Coverage `json:"coverage,omitempty"`
}

// Test is one test, or a file that could not be read as tests: then its name is "".
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

// Problem is why a test did not pass.
type Problem struct {
	Code    string `json:"code"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Variant says in which run it came up: "" is the plain one.
	Variant string `json:"variant"`
}

// Diag is the problem in the form that all commands print.
func (p Problem) Diag() diag.Problem {
	return diag.Problem{Pos: diag.Pos{File: p.File, Line: p.Line, Column: p.Column}, Code: p.Code, Message: p.Message}
}

func (p *Problem) Error() string { return p.Message }

// Suite runs test files.
type Suite struct{ Options }

// budget is how long a test may compute.
const budget = 5 * time.Second

// Run runs the tests of files, one after the other. When ctx ends, what is left is not run.
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

// Add adds a test, of this suite or from somewhere else.
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
