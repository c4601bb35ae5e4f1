package migrate_test

import (
	"encoding/json"
	"testing"
)

// TestCleanShapes checks shapes that random workflows seldom have, as TestRandomWorkflows does:
// the exact and the clean script of each end as the interpreter does.
func TestCleanShapes(t *testing.T) {
	echo := func(condition string) *flowStep {
		return &flowStep{id: "a", tool: "t.echo", args: map[string]any{}, condition: condition, continuesOnError: true}
	}
	output := func(value string) map[string]flowProperty {
		return map[string]flowProperty{"p": {kind: "string", value: value, fallback: "D"}}
	}
	for name, c := range map[string]struct {
		flow *flow
		same bool
	}{
		// A character is no number, and scripts do not continue after that failure.
		"condition on the code of a character": {&flow{steps: []*flowStep{echo("{{gt (index .params.s 0) (len .params.l)}}")}}, false},
		// A range over an empty text fails, unlike one over a missing value.
		"range over an empty text":           {&flow{output: output("{{range .params.empty}}x{{end}}")}, true},
		"range over an empty text, pairs":    {&flow{output: output("{{range $i, $e := .params.empty}}x{{end}}")}, true},
		"range over an empty text, else":     {&flow{output: output("{{range .params.empty}}x{{else}}none{{end}}")}, true},
		"range over an empty text, function": {&flow{output: output("{{range .params.empty}}{{$x := 1}}{{$x}}{{else}}none{{end}}")}, true},
		"range over false, pairs with else":  {&flow{output: output("{{range $i, $e := .params.no}}x{{else}}none{{end}}")}, true},
		"range over null":                    {&flow{output: output("{{range .params.nul}}x{{else}}none{{end}}")}, true},
		"range over what is missing":         {&flow{output: output("{{range $i, $e := .params.missing}}x{{else}}none{{end}}")}, true},
		"range over a list":                  {&flow{output: output("{{range .params.rows}}{{.k}}{{else}}none{{end}}")}, true},
		"range over an object":               {&flow{output: output("{{range $k, $v := .params.o}}{{$k}}{{else}}none{{end}}")}, true},
		// An object is indexed by a text only.
		"index by null":                        {&flow{output: output("x{{index .params.o .params.nul}}")}, true},
		"index by a number":                    {&flow{output: output("x{{index .params.o .params.n}}")}, true},
		"index by a text":                      {&flow{output: output("{{index .params.o .params.s}}{{index .params.o .params.o.k}}")}, true},
		"output of a tool that returns a text": {&flow{steps: []*flowStep{{id: "b", tool: "t.text", args: map[string]any{}}}, output: output("{{html .steps.b.output}}{{urlquery .steps.b.output}}")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.flow
			if f.steps == nil {
				f.steps = []*flowStep{echo("")}
			}
			if err := json.Unmarshal([]byte(data), &f.params); err != nil {
				t.Fatal(err)
			}
			legacy, counts := newInterpreter(f), map[string]int{}
			ended := legacy.run()
			checkWorkflow(t, f, ended)
			if checkClean(t, f, legacy, ended, counts); (counts["same"] == 1) != c.same {
				t.Errorf("counted as %v", counts)
			}
		})
	}
}
