package check_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// What a tool returns is held to its output schema where it is written out; what is computed
// is not known.
func TestReturnsFitTheOutput(t *testing.T) {
	const output = `{"type": "object", "required": ["sent", "to"], "additionalProperties": false,
		"properties": {"sent": {"type": "boolean"}, "to": {"type": "array", "items": {"type": "string"}}}}`
	for _, tt := range []struct{ name, src, want string }{
		{"fine", `{"sent": True, "to": ["a"]}`, ``},
		{"computed", `{"sent": p, "to": [p]}`, ``},
		{"all computed", `dict(p)`, ``},
		{"a result", `result(p)`, ``},
		{"a wrong value", `{"sent": "yes", "to": p}`, `s.star:5:18: error: output: sent: want boolean, have string [output]`},
		{"deep inside", `{"sent": True, "to": ["a", 1]}`, `s.star:5:36: error: output: to[1]: want string, have number [output]`},
		{"an unknown member", `{"sent": True, "to": [], "too": 1}`, `s.star:5:34: error: output: too: is not a known property [output]`},
		{"missing ones", `{}`, `s.star:5:2: error: output: sent: is required; to: is required [output]`},
		{"another type", `"sent"`, `s.star:5:9: error: output: want object, have string [output]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := "def run(p):\n\tdef inner():\n\t\treturn 1\n\tlog(inner())\n\treturn " + tt.src + "\n"
			got := check.File(script.File{Name: "s.star", Source: []byte(src)}, check.Options{Builtins: builtins.Table(), Output: []byte(output)}).Error()
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
