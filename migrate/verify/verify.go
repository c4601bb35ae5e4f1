// Package verify runs migrated workflows against recorded runs of the legacy engine.
//
// A case is one run: the definition, the arguments, the recorded replies of tools, and
// the recorded outcome. Run migrates the definition and runs the script; Compare returns
// the differences of the outcomes.
package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// Case is one recorded run.
type Case struct {
	Name    string          `json:"name"`
	Note    string          `json:"note"`
	Decoder string          `json:"decoder"`
	Flags   []string        `json:"flags"`
	Params  json.RawMessage `json:"params"`
	Fake    Fake            `json:"fake"`
	Tool    json.RawMessage `json:"tool"`
	Want    Outcome         `json:"expected"`

	// Style is the style of the script; exact by default.
	Style migrate.Style `json:"-"`
	// Composite runs the script as one of compositeTools, whose arguments and result are not checked; else it runs as one
	// of scriptedTools.
	Composite bool `json:"-"`
}

// Outcome is the part of a run that its client and its tools can observe.
type Outcome struct {
	Status string `json:"status"`
	Result Result `json:"tool_result"`
	Trace  []Call `json:"trace"`
	// Why the engine refused the definition; one of them is set when it did.
	Load     string `json:"load_error"`
	Config   string `json:"config_validation_error"`
	Convert  string `json:"convert_error"`
	Validate string `json:"engine_validation_error"`

	together bool // the last level has several steps, any of which may end last
}

// Refused returns why the definition was refused, "" when it was not.
func (o *Outcome) Refused() string { return o.Load + o.Config + o.Convert + o.Validate }

// Result is the result that the client got.
type Result struct {
	IsError    bool            `json:"isError"`
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured"`
}

// Call is one call of a tool, or one question.
type Call struct {
	Kind    string          `json:"kind"`
	Tool    string          `json:"tool"`
	Target  string          `json:"target"`
	Args    json.RawMessage `json:"args"`
	Message string          `json:"message"`
	Result  string          `json:"result"`
	EndMs   int             `json:"end_ms"`
}

// Load reads a case, or all the cases of a folder.
func Load(path string) ([]Case, error) {
	var cases []Case
	err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(file) != ".json" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var c Case
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("%s: %v", file, err)
		}
		if c.Name == "" {
			c.Name = strings.TrimSuffix(filepath.Base(file), ".json")
		}
		c.Want.together = c.lastLevel() > 1
		cases = append(cases, c)
		return nil
	})
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("%s: no recorded cases here", path)
	}
	return cases, err
}

// lastLevel returns how many steps the last level of the workflow has.
func (c *Case) lastLevel() (n int) {
	var def struct {
		Steps []struct {
			ID        string   `json:"id"`
			DependsOn []string `json:"dependsOn"`
		} `json:"steps"`
	}
	if json.Unmarshal(c.Tool, &def) != nil {
		return 0
	}
	levels, deepest := map[string]int{}, 0
	for range def.Steps { // the number of levels at most, for any order of the steps in the file
		for _, s := range def.Steps {
			for _, before := range s.DependsOn {
				levels[s.ID] = max(levels[s.ID], levels[before]+1)
			}
			deepest = max(deepest, levels[s.ID])
		}
	}
	for _, s := range def.Steps {
		if levels[s.ID] == deepest {
			n++
		}
	}
	return n
}

// Definition returns the workflow of the case.
func (c *Case) Definition() (*migrate.Definition, error) {
	data := c.Tool
	if slices.Contains(c.Flags, "-failure-mode") {
		// No file could set the mode; failureMode, which is no field, is translated to it.
		data = slices.Concat([]byte(`{"failureMode": "`+c.Flags[len(c.Flags)-1]+`",`), bytes.TrimSpace(data)[1:])
	}
	switch c.Decoder {
	case "crd":
		return migrate.ParseResource(c.Name+".json", data)
	case "lax":
		return migrate.ParseLax(c.Name+".json", data)
	}
	defs, err := migrate.Parse(c.Name+".json", data)
	if err != nil {
		return nil, err
	}
	return defs[0], nil
}

// Options returns how to migrate the definition.
func (c *Case) Options() migrate.Options {
	return migrate.Options{Style: c.Style, Checked: !c.Composite, Fix: slices.Contains(c.Flags, "-failure-mode")}
}

// Migrate writes the script of the case; a refusal is returned as an outcome.
func (c *Case) Migrate() (*migrate.Script, Outcome) {
	def, err := c.Definition()
	if err != nil {
		return nil, Outcome{Load: err.Error()}
	}
	s, err := migrate.Translate(def, c.Options())
	if err != nil {
		return nil, Outcome{Config: err.Error()}
	}
	return s, Outcome{}
}

// Run migrates the case's workflow and runs it.
func (c *Case) Run(ctx context.Context) (Outcome, error) {
	s, refused := c.Migrate()
	if s == nil {
		return refused, nil
	}
	return c.RunScript(ctx, s)
}

// RunScript runs a script with the case's arguments and tools. Arguments and result are checked as a server does.
func (c *Case) RunScript(ctx context.Context, s *migrate.Script) (Outcome, error) {
	p, err := script.Compile(script.File{Name: s.Name + ".star", Source: []byte(s.Source)},
		legacy.With(script.Options{Builtins: builtins.All()}))
	if err != nil {
		return Outcome{}, fmt.Errorf("the script does not compile: %w", err)
	}
	contract, err := contractOf(s)
	if err != nil {
		return Outcome{}, err
	}
	args, err := contract.arguments(c.Params)
	if err != nil {
		return outcome(nil, err), nil
	}
	h := &host{fake: c.Fake}
	res, err := p.Run(ctx, script.RunOptions{
		Args: args, Host: h, Adapt: h.adapt, Limits: script.Limits{Time: script.Duration(s.Timeout), Parallel: 50},
	})
	if err == nil {
		err = contract.checkOutput(res)
	}
	out := outcome(res, err)
	out.Trace = h.trace
	return out, nil
}

// outcome is the result that a server returns for the end of a run.
func outcome(res *script.Result, err error) Outcome {
	var failed *legacy.Error
	switch {
	case errors.As(err, &failed):
		return Outcome{Status: "failed", Result: Result{IsError: true, Text: failed.Error()}}
	case err != nil:
		return Outcome{Status: "failed", Result: Result{IsError: true, Text: err.Error()}}
	}
	var content []struct{ Text string }
	text := string(res.Structured)
	if json.Unmarshal(res.Content, &content) == nil && len(content) > 0 {
		text = content[0].Text
	}
	return Outcome{Status: "completed", Result: Result{IsError: res.IsError, Text: text, Structured: res.Structured}}
}

// Difference is one difference of an outcome from the recorded one.
type Difference struct{ What, Have, Want string }

// Compare returns the differences of have from the recorded outcome want. Behaviour of the engine
// that depends on scheduling is not compared: the order of the steps of a level and of the elements
// of a loop, which of two steps that end at the same time is the last one, how many elements were
// begun before one failed, and how many attempts fit into a deadline.
func Compare(have, want Outcome) (diffs []Difference) {
	differ := func(what, h, w string) {
		if h != w {
			diffs = append(diffs, Difference{what, h, w})
		}
	}
	if (have.Refused() != "") != (want.Refused() != "") {
		differ("refused", have.Refused(), want.Refused())
		return diffs
	}
	if want.Refused() != "" {
		return nil
	}
	status := want.Status
	if status == "timed_out" {
		status = "failed"
	}
	differ("status", have.Status, status)
	differ("isError", fmt.Sprint(have.Result.IsError), fmt.Sprint(want.Result.IsError))
	if !want.raced() {
		differ("text", have.Result.Text, want.Result.Text)
		differ("structured", canonical(have.Result.Structured), canonical(want.Result.Structured))
	}
	differ("calls", have.calls(want.Result.Text), want.calls(want.Result.Text))
	return diffs
}

// raced reports whether two calls ended at the same time at the end of a run that returned the
// output of one of them.
func (o *Outcome) raced() bool {
	last, at := 0, -1
	for i, c := range o.Trace {
		if at < 0 || c.EndMs > o.Trace[at].EndMs {
			at = i
		}
	}
	for _, c := range o.Trace {
		if o.Trace[at].EndMs-c.EndMs <= 2 && (o.together || c.EndMs > 10) {
			last++
		}
	}
	return last > 1 && o.Status == "completed"
}

// calls writes the calls of a run, one per line, sorted; result is the text of the recorded
// run's result.
func (o *Outcome) calls(result string) string {
	late := strings.Contains(result, "timed out") || strings.Contains(result, "timeout exceeded")
	loop := strings.Contains(result, " iteration ")
	var lines []string
	for _, c := range o.Trace {
		if loop && c.Result != "isError" && !strings.HasPrefix(c.Result, "error") {
			continue
		}
		lines = append(lines, strings.Join([]string{c.Kind, c.Tool, c.Target, c.Message, canonical(c.Args), c.Result}, " "))
	}
	sort.Strings(lines)
	if late {
		lines = slices.Compact(lines)
	}
	return strings.Join(lines, "\n")
}

// canonical writes JSON so that equal values have equal texts.
func canonical(data json.RawMessage) string {
	if len(data) == 0 {
		return "null"
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return string(data)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(data)
	}
	return string(out)
}
