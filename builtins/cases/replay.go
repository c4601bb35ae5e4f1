package cases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package runs recorded cases again: the present script with the recorded answers. No tool is called and no
// user is asked; the clock and sleeps are answered from the case, too.
//
//	r := replay.File(ctx, "tools/refund_cases/late.json", tool)
//	r.Problems // tools/refund.star:9:14: error: 1: shop_refund: /cents: 1250 → "1250" [case-differs]
//
// A run passes when it has the recorded effects, in any order of its branches, and the recorded output. Log messages
// and progress are not compared.

// ReplayCode is the code of a case with differences.
const ReplayCode = "case-differs"

// maxProblems bounds the problems of one case.
const maxProblems = 20

// Tool is a scripted tool in its present version.
type Tool struct {
	Name    string
	Program *script.Program
	Limits  script.Limits
	// Arguments fills in defaults and checks arguments against the tool's schema; nil accepts any.
	Arguments func(json.RawMessage) (json.RawMessage, error)
	// CheckOutput checks a result against the tool's schema; nil accepts any.
	CheckOutput func(*script.Result) error
	// Schema returns the input schema of a tool that the script calls, for migrated workflows; nil: none is known.
	Schema func(name string) (json.RawMessage, bool)
}

// Result is the outcome of one case.
type Result struct {
	File, Tool string
	Problems   diag.Problems // empty if it passed
	// Updated is the case with the present output, if only that differs; otherwise nil.
	Updated *Case
}

// Find returns the case files beside scripts, sorted: in every folder DIR/NAME_cases, and in DIR if it is such a
// folder.
func Find(dirs ...string) (all []string, err error) {
	for _, dir := range dirs {
		pattern := filepath.Join(escapeGlob(dir), "*_cases", "*.json")
		if strings.HasSuffix(filepath.Clean(dir), "_cases") {
			pattern = filepath.Join(escapeGlob(dir), "*.json")
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// escapeGlob returns a pattern that matches only the folder itself.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// File runs the case of a file. tool returns a scripted tool by its name, or nil.
func File(ctx context.Context, path string, tool func(name string) *Tool) Result {
	c, err := Read(path)
	r := Result{File: diag.File(path)}
	if err != nil {
		p, ok := errors.AsType[diag.Problem](err)
		if !ok {
			p = diag.Problem{Pos: diag.Pos{File: r.File, Line: 1, Column: 1}, Code: casesCode, Message: err.Error()}
		}
		r.Problems = diag.Problems{p}
		return r
	}
	r.Tool = c.Tool
	t := tool(c.Tool)
	if t == nil {
		r.Problems = diag.Problems{{Pos: diag.Pos{File: r.File, Line: 1, Column: 1}, Code: ReplayCode, Message: fmt.Sprintf("no scripted tool %q", c.Tool)}}
		return r
	}
	r.Problems, r.Updated = Run(ctx, c, t)
	for i := range r.Problems {
		r.Problems[i].Hint = "recorded in " + r.File
	}
	return r
}

// Run runs a case.
func Run(ctx context.Context, c *Case, t *Tool) (problems diag.Problems, updated *Case) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := newWorld(c, t, stop)
	res, err := w.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errUnknown) {
		return w.problems, nil
	}
	w.missing()
	same := len(w.problems) == 0
	w.outcome(res, err)
	if same && len(w.problems) > 0 {
		updated = update(c, t, res, err)
	}
	return w.problems, updated
}

// errUnknown ends a run with an effect that was not recorded, for which there is no answer.
var errUnknown = errors.New("an effect was not recorded")

// A world answers the effects of a run from a case.
type world struct {
	*line
	c     *Case
	tool  *Tool
	stop  context.CancelCauseFunc
	known map[string]int   // indexes of c.Effects, by their keys without messages
	quiet map[string][]int // positions of messages, by branch

	problems diag.Problems
	met      map[int]bool // indexes of c.Effects
}

func newWorld(c *Case, t *Tool, stop context.CancelCauseFunc) *world {
	w := &world{c: c, tool: t, stop: stop, known: map[string]int{}, quiet: map[string][]int{}, met: map[int]bool{}}
	recorded := map[string][]int{}
	for i := range c.Effects {
		if e := &c.Effects[i]; isMessage(e.Kind) {
			noteMessage(recorded, e.Key)
		}
	}
	rank := map[string]int{}
	for i, key := range c.Order {
		rank[key] = i
	}
	w.line = newLine()
	for i := range c.Effects {
		if e := &c.Effects[i]; !isMessage(e.Kind) && !e.Nested() {
			key := withoutMessages(recorded, e.Key)
			w.known[key] = i
			if r, ok := rank[e.Key]; ok {
				w.rank[key] = r
			}
		}
	}
	return w
}

func (w *world) run(ctx context.Context) (*script.Result, error) {
	args := w.c.Arguments
	if w.tool.Arguments != nil {
		filled, err := w.tool.Arguments(args)
		switch {
		case err == nil:
			args = filled
		case len(w.c.Redacted) == 0: // a placeholder may not fit
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}
		}
	}
	res, err := w.tool.Program.Run(ctx, script.RunOptions{
		Args: args, Host: &host{w}, Limits: w.tool.Limits, Around: w.around, Idle: w.idled,
	})
	if err == nil && w.tool.CheckOutput != nil && len(w.c.Redacted) == 0 {
		if err = w.tool.CheckOutput(res); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
		}
	}
	return res, err
}

// around answers one effect, when it is released.
func (w *world) around(ctx context.Context, a script.Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if isMessage(a.Kind) {
		w.mu.Lock()
		noteMessage(w.quiet, a.Key)
		w.mu.Unlock()
		return nil, nil
	}
	w.mu.Lock()
	key := withoutMessages(w.quiet, a.Key)
	w.mu.Unlock()
	if !a.Instant {
		if err := w.wait(ctx, key); err != nil {
			return nil, err
		}
	}
	e, err := w.meet(key, a)
	if err != nil {
		return nil, err
	}
	if e.Kind == "call" || e.Kind == "elicit" { // the builtin may process the answer differently now
		return perform(context.WithValue(ctx, answerKey{}, e))
	}
	if e.Failure != nil {
		return nil, &script.Failure{Kind: e.Failure.Kind, Message: e.Failure.Message}
	}
	return e.Result, nil
}

// meet compares an effect with the one recorded at its position.
func (w *world) meet(key string, a script.Attempt) (*Effect, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.known[key]
	if !ok || w.c.Effects[i].Kind != a.Kind {
		w.unknown(a)
		w.stop(errUnknown)
		return nil, errUnknown
	}
	w.met[i] = true
	e := &w.c.Effects[i]
	args := a.Args
	if e.Note != "" { // they were recorded as they were sent
		args = schema.Like(e.Args, args)
	}
	found := w.visible(Diff(e.Args, args), fmt.Sprintf("/effects/%d/args", i))
	switch {
	case e.Name != a.Name:
		w.differs(a.Pos, "%s: %s → %s", a.Key, what(e.Kind, e.Name), what(a.Kind, a.Name))
		if a.Kind == "call" { // another tool has another answer
			w.stop(errUnknown)
			return nil, errUnknown
		}
	case len(found) > 0:
		w.differs(a.Pos, "%s: %s: %s", a.Key, what(a.Kind, a.Name), Explain(found))
	}
	return e, nil
}

// what names an effect: the tool, or its kind.
func what(kind, name string) string {
	if kind == "call" {
		return name
	}
	return strings.TrimSpace(kind + " " + name)
}

// visible returns the differences outside of redacted values.
func (w *world) visible(all []Difference, below string) []Difference {
	return slices.DeleteFunc(all, func(d Difference) bool {
		at := below + d.Pointer
		return slices.ContainsFunc(w.c.Redacted, func(p string) bool { return p == at || strings.HasPrefix(at, p+"/") })
	})
}

// unknown reports an effect that was not recorded, with the most similar recorded one.
func (w *world) unknown(a script.Attempt) {
	message := fmt.Sprintf("%s: %s: was not recorded", a.Key, what(a.Kind, a.Name))
	if near, found := w.c.Near(a.Kind, a.Name, a.Args); near != nil {
		message += fmt.Sprintf("; the nearest is %s: %s", near.Key, what(near.Kind, near.Name))
		if text := Explain(found); text != "" {
			message += ": " + text
		} else {
			message += ", with the same arguments"
		}
	}
	w.differs(a.Pos, "%s", message)
}

// missing reports recorded effects that the run did not have.
func (w *world) missing() {
	for _, i := range slices.Sorted(maps.Values(w.known)) {
		if e := &w.c.Effects[i]; !w.met[i] {
			at := w.tool.Program.Entry()
			name := at.Filename()
			w.differs(syntax.MakePosition(&name, at.Line, at.Col), "%s: %s: is no longer performed", e.Key, what(e.Kind, e.Name))
		}
	}
}

// outcome compares the outcome of the run with the recorded one.
func (w *world) outcome(res *script.Result, err error) {
	at := w.tool.Program.Entry()
	c := w.c
	switch {
	case err != nil && c.Failure == nil:
		if e, ok := errors.AsType[*script.Error](err); ok && e.Pos.IsValid() {
			at = e.Pos
		}
		w.differs(at, "%s: now fails: %s", c.Tool, failureOfRun(err).Message)
	case err != nil:
		if have := failureOfRun(err); have.Message != c.Failure.Message {
			w.differs(at, "%s: fails with another error: %q → %q", c.Tool, c.Failure.Message, have.Message)
		}
	case c.Failure != nil:
		w.differs(at, "%s: no longer fails: %s", c.Tool, c.Failure.Message)
	default:
		found := append(w.visible(Diff(c.Output, res.Structured), "/output"), w.visible(Diff(c.Content, res.Content), "/content")...)
		switch {
		case len(found) > 0:
			w.differs(at, "%s: output: %s", c.Tool, Explain(found))
		case c.IsError != res.IsError:
			w.differs(at, "%s: isError: %v → %v", c.Tool, c.IsError, res.IsError)
		}
	}
}

func (w *world) differs(at syntax.Position, format string, args ...any) {
	if len(w.problems) >= maxProblems {
		return
	}
	pos := diag.Pos{File: w.tool.Program.Name(), Line: 1, Column: 1}
	if at.IsValid() {
		pos = diag.Pos{File: diag.File(at.Filename()), Line: int(at.Line), Column: int(max(at.Col, 1))}
	}
	w.problems = append(w.problems, diag.Problem{Pos: pos, Code: ReplayCode, Message: fmt.Sprintf(format, args...)})
}

// update returns the case with the present output.
func update(c *Case, t *Tool, res *script.Result, err error) *Case {
	now := *c
	now.Output, now.Content, now.IsError, now.Failure = nil, nil, false, nil
	now.Program = programOf(t.Program)
	if err != nil {
		now.Failure = failureOfRun(err)
		return &now
	}
	now.Output, now.Content, now.IsError = res.Structured, res.Content, res.IsError
	return &now
}

// host answers calls and questions with the answers from around.
type host struct{ *world }

type answerKey struct{}

// CallTool returns the recorded answer of the tool.
func (h *host) CallTool(ctx context.Context, _ string, _ json.RawMessage, _ builtins.CallOptions) (json.RawMessage, error) {
	e, ok := ctx.Value(answerKey{}).(*Effect)
	switch {
	case !ok:
		return nil, errUnknown
	case e.Failure != nil:
		return nil, &builtins.ToolError{Kind: e.Failure.Kind, Msg: e.Failure.Message}
	}
	return e.Result, nil
}

// Elicit returns the recorded answer of the user.
func (h *host) Elicit(ctx context.Context, _ script.Question) (json.RawMessage, error) {
	e, ok := ctx.Value(answerKey{}).(*Effect)
	switch {
	case !ok:
		return nil, errUnknown
	case e.Failure != nil && e.Failure.Kind == builtins.Unanswerable:
		return nil, builtins.ErrNoElicitation
	case e.Failure != nil:
		return nil, &script.Failure{Kind: e.Failure.Kind, Message: e.Failure.Message}
	}
	return e.Result, nil
}

// Notify discards messages.
func (h *host) Notify(context.Context, builtins.Notice) {}

// InputSchema returns the schema of a tool, if it is known.
func (h *host) InputSchema(name string) (json.RawMessage, bool) {
	if h.tool.Schema == nil {
		return nil, false
	}
	return h.tool.Schema(name)
}

// Case returns the file name of a result, as its name as a test.
func (r Result) Case() string {
	return cmp.Or(strings.TrimSuffix(filepath.Base(r.File), ".json"), r.File)
}
