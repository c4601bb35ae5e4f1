package verify

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/migrate"
)

// Exception returns the reason why the script deliberately differs from the recorded run: a bug of
// the legacy engine that its later versions do not have, or in the clean style a difference that
// docs/migrate.md lists and that CompareClean does not tolerate. "" for no exception.
func (c *Case) Exception() string {
	if strings.Contains(c.Want.Result.Text, "output construction failed") && strings.Contains(c.Want.Result.Text, "failed to parse template") {
		return "an invalid template of the output failed after all effects; the script is refused instead"
	}
	var def recorded
	if json.Unmarshal(c.Tool, &def) != nil {
		return ""
	}
	if def.skips(c.Fake.Elicitations) {
		return "skip_remaining ran the remaining steps; later versions skip them, and so does the script"
	}
	switch {
	case c.Style != migrate.Clean && c.Composite:
		return ""
	case !c.fits(def.Parameters):
		return "arguments are checked against parameters"
	case c.Style != migrate.Clean:
		return ""
	case c.misfits():
		return "arguments of calls are checked against the input schema of the tool, which the recorded tool did not"
	case c.severalTexts():
		return "several texts of a result are one, beside its content"
	case def.decodesText():
		return "an object prints as JSON, so that it is one again"
	case bytes.Contains(c.Tool, []byte("%T")):
		return "the type of a value has its name in Starlark"
	case def.Timeout != "" && c.endedLate():
		return "the timeout of a workflow is a limit of the run, which ends the run"
	}
	return ""
}

// recorded has the fields of a case's definition on which exceptions depend.
type recorded struct {
	Timeout    string
	Parameters json.RawMessage
	Steps      []struct {
		Type                string
		OnDecline, OnCancel struct{ Action string }
	}
	Output struct {
		Properties map[string]struct{ Type, Value string }
	}
}

// skips reports whether an answer skips the remaining steps.
func (d *recorded) skips(answers []Answer) bool {
	for _, s := range d.Steps {
		if s.Type != "elicitation" || len(answers) == 0 {
			continue
		}
		a := answers[0]
		answers = answers[1:]
		declined := a.Action == "decline" && s.OnDecline.Action == "skip_remaining"
		if declined || (a.Action == "cancel" || a.Timeout) && s.OnCancel.Action == "skip_remaining" {
			return true
		}
	}
	return false
}

// decodesText reports whether an object of the output is decoded from the text of a value, which the
// legacy engine did not print as JSON.
func (d *recorded) decodesText() bool {
	for _, p := range d.Output.Properties {
		if p.Type == "object" && !strings.Contains(p.Value, "json") {
			return true
		}
	}
	return false
}

// fits reports whether the arguments are valid, so that a server would run the script.
func (c *Case) fits(parameters json.RawMessage) bool {
	s, err := schema.CompileForeign(parameters)
	return parameters == nil || err != nil || s.Validate(c.Params) == nil
}

// misfits reports whether a recorded tool took arguments that do not fit its input schema.
func (c *Case) misfits() bool {
	h := &host{fake: c.Fake}
	for _, call := range c.Want.Trace {
		if s := h.inputOf(call.Tool); s != nil && len(call.Args) > 0 && string(call.Args) != "null" && s.Validate(call.Args) != nil {
			return true
		}
	}
	return false
}

// severalTexts reports whether a tool replies with several texts and no structured content.
func (c *Case) severalTexts() bool {
	for _, t := range c.Fake.Tools {
		if t.Structured == nil && bytes.Count(t.Content, []byte(`"text":`)) > 1 {
			return true
		}
	}
	return false
}

// endedLate reports whether a step was still running at the workflow's deadline.
func (c *Case) endedLate() bool {
	for _, call := range c.Want.Trace {
		if strings.HasPrefix(call.Result, "ctx: ") {
			return true
		}
	}
	return false
}
