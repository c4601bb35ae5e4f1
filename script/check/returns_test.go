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
		{"a wrong value", `{"sent": "yes", "to": p}`, `s.star:5:18: error: sent wants a bool, this is a string [output]`},
		{"deep inside", `{"sent": True, "to": ["a", 1]}`, `s.star:5:36: error: to[1] wants a string, this is an integer [output]`},
		{"an unknown member", `{"sent": True, "to": [], "too": 1}`, `s.star:5:34: error: output has no too; it has sent, to [output]`},
		{"missing ones", `{}`, `s.star:5:9: error: output also needs sent and to [output]`},
		{"another type", `"sent"`, `s.star:5:9: error: output wants an object, this is a string [output]`},
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
