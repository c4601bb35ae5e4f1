package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Translate writes a definition as a script. The error is diag.Problems with everything that
// the legacy engine would have refused, when it loaded the file or when it started.
func Translate(def *Definition, o Options) (*Script, error) {
	d := &decoder{decoding: def.decoding, fix: o.Fix}
	d.problems = append(d.problems, def.problems...)
	w := d.workflow(def)
	d.validate(w)
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		return nil, d.problems
	}
	write := exactSource
	if o.Style == Clean {
		write = cleanSource
	}
	source, notes, err := write(w, o)
	if err != nil {
		var problems diag.Problems
		if errors.As(err, &problems) {
			return nil, problems
		}
		return nil, diag.Problems{{Pos: def.Pos, Code: compositeCode, Message: err.Error()}}
	}
	s := &Script{
		Name: w.name, Description: w.description, Source: source, Pos: def.Pos,
		Timeout: w.timeout, Unchecked: o.Style != Clean && !o.Checked,
		Tools: w.tools(),
		Notes: append(d.notes, notes...),
	}
	sortNotes(s.Notes)
	if o.Style != Clean {
		if s.Timeout == 0 {
			s.Timeout = defaultTimeout
		}
		s.Deadline = s.Timeout
		s.Timeout += timeoutSlack
	}
	if !w.parameters.isNull() {
		s.Parameters = w.parameters.json()
	}
	if w.output != nil {
		s.Output = w.output.schema()
	}
	if w.annotations != nil {
		s.Annotations = w.annotations.json()
	}
	return s, nil
}

// tools lists the tools that steps call.
func (w *workflow) tools() (list []Tool) {
	for _, s := range w.steps {
		if s.kind == forEachStep {
			s = s.inner
		}
		tool := Tool{Name: s.tool, Path: member(s.path, "tool")}
		known := slices.ContainsFunc(list, func(t Tool) bool { return t.Name == s.tool })
		if s.kind != elicitationStep && !known {
			list = append(list, tool)
		}
	}
	return list
}

// schema is the output schema that clients see.
func (o *output) schema() json.RawMessage {
	m := propertiesSchema(o.properties)
	if len(o.required) > 0 {
		m["required"] = o.required
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // only texts in there
	}
	return data
}

func propertiesSchema(list []*property) map[string]any {
	properties := map[string]any{}
	for _, p := range list {
		s := map[string]any{}
		if p.properties != nil {
			s = propertiesSchema(p.properties)
		}
		s["type"] = p.kind
		s["description"] = p.description
		if p.description == "" {
			s["description"] = p.name
		}
		properties[p.name] = s
	}
	return map[string]any{"type": "object", "properties": properties}
}

func sortProblems(list diag.Problems) {
	sort.SliceStable(list, func(i, j int) bool { return before(list[i].Pos, list[j].Pos) })
}

func sortNotes(list []Note) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Pos != b.Pos {
			return before(a.Pos, b.Pos)
		}
		return a.Msg < b.Msg
	})
}

func before(p, o Pos) bool {
	if p.Line != o.Line {
		return p.Line < o.Line
	}
	return p.Column < o.Column
}

// comparison is what people write who know other template languages.
var comparison = regexp.MustCompile(`\{\{\s*(\.[A-Za-z_][\w.]*)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)")\s*\}\}`)

// repair returns the template that a text was meant to be, and what was done; "" when
// that is not plain.
func repair(text string) (repaired, how string) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	function := map[string]string{"==": "eq", "!=": "ne"}
	repaired = comparison.ReplaceAllStringFunc(text, func(s string) string {
		m := comparison.FindStringSubmatch(s)
		return fmt.Sprintf("{{%s %s %s}}", function[m[2]], m[1], strconv.Quote(m[3]+m[4]))
	})
	return repaired, fmt.Sprintf("%s is read as the function %s", m[0], function[m[2]])
}
