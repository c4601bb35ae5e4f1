package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// errBudget ends a test that computes for too long.
var errBudget = errors.New("computes for too long")

// attempt is one run of one test, plain or as a variant, with its own fakes, answers and clock.
type attempt struct {
	suite   *Suite
	file    *testFile
	name    string
	variant variant
	plain   *attempt // the plain run to compare with; nil: this is the plain run

	*scheduler
	main      *script.Run // of the test itself, set when it declares something
	fakes     []*fake
	answers   []*answer
	calls     []called
	questions []said
	logs      []said
	runs      []*toolRun
	effects   map[string]seen // by their IDs
	replies   map[string]reply
	nows      map[string]string
	problem   *Problem // ends the test, whatever the script does
	skipped   string
}

// test runs one test, and its variants.
func (s *Suite) test(ctx context.Context, f *testFile, def *syntax.DefStmt) Test {
	began := time.Now()
	at, _ := f.file.Place(def.Name.NamePos)
	t := Test{File: f.file.Origin.File, Name: def.Name.Name, Line: at.Line, Status: Passed}
	plain := s.newAttempt(f, t.Name, variant{}, nil)
	problem := plain.run(ctx, s.Budget)
	if problem == nil {
		problem = plain.unused()
	}
	switch {
	case plain.skipped != "":
		t.Status = Skipped
	case problem == nil:
		problem = s.variants(ctx, plain, &t.Variants)
	}
	if problem != nil && plain.skipped == "" {
		t.Status, t.Problems = Failed, []Problem{*problem}
	}
	t.DurationMs = milliseconds(began)
	return t
}

func (s *Suite) newAttempt(f *testFile, name string, v variant, plain *attempt) *attempt {
	a := &attempt{suite: s, file: f, name: name, variant: v, plain: plain,
		effects: map[string]seen{}, replies: map[string]reply{}, nows: map[string]string{}}
	a.scheduler = newScheduler(a)
	return a
}

// run runs the test, and returns why it did not pass, or nil.
func (a *attempt) run(ctx context.Context, most time.Duration) *Problem {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errBudget)
	defer cancel()
	ctx, a.abort = context.WithCancelCause(ctx)
	defer a.abort(nil)
	a.base = ctx
	done := make(chan struct{})
	go a.drive(ctx, done)
	o := script.RunOptions{Entry: a.name, Limits: a.suite.Limits}
	self := a.begin(nil, "", a.suite.Limits)
	_, err := a.compute(ctx, self, a.file.program, o)
	a.end(self)
	close(done)
	<-a.stopped
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errBudget) {
		return a.failure(CodeTime, err, fmt.Sprintf("the test computes for more than %s", most))
	}
	if a.problem != nil || err == nil {
		return a.problem
	}
	var limit *script.LimitError
	if errors.As(err, &limit) {
		return a.failure(CodeTime, err, err.Error())
	}
	var known *Problem
	if errors.As(err, &known) {
		return known
	}
	return a.failure(CodeFailed, err, "")
}

// failure returns the problem for an error of the test.
func (a *attempt) failure(code string, err error, message string) *Problem {
	var e *script.Error
	at := a.file.file.Origin.Pos
	if errors.As(err, &e) {
		if e.Pos.IsValid() {
			at = a.file.place(e.Pos)
		}
		if message == "" || code == CodeTime && message == err.Error() {
			message = e.Msg
		}
	} else if message == "" && err != nil {
		message = err.Error()
	}
	message = strings.ReplaceAll(message, "  _", " _") // see script.Options.Entries
	if at.Line == 0 {
		at = diag.Pos{File: at.File, Line: 1, Column: 1}
	}
	p := problemAt(code, at, message)
	return &p
}

// unused returns the problem of a fake or an answer that was not used, or nil.
func (a *attempt) unused() *Problem {
	for _, f := range a.fakes {
		if f.used == 0 {
			p := problemAt(codeUnused, f.at, fmt.Sprintf("%s was not called: this fake is not used", f.name))
			return &p
		}
	}
	for _, w := range a.answers {
		if !w.used {
			p := problemAt(codeUnused, w.at, fmt.Sprintf("no question contains %q: this answer is not used", w.part))
			return &p
		}
	}
	return nil
}
