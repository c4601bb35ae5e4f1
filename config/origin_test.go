package config

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The origin of a script is exact for literal block scalars in all their forms, and the position of
// the field for every other form.
func TestOriginOfScripts(t *testing.T) {
	const head = "scriptedTools:\n  - name: a\n    description: A.\n"
	exact := func(line, column int) diag.Origin {
		return diag.Origin{Pos: diag.Pos{File: "vmcp.yaml", Line: line, Column: column}, Exact: true}
	}
	field := func(line, column int) diag.Origin {
		return diag.Origin{Pos: diag.Pos{File: "vmcp.yaml", Line: line, Column: column}}
	}
	for _, tt := range []struct {
		name, yaml string
		want       diag.Origin
	}{
		{"literal", "    script: |\n      def run(p):\n        return 1\n", exact(5, 7)},
		{"stripped", "    script: |-\n      def run(p):\n        return 1\n", exact(5, 7)},
		{"kept", "    script: |+\n      def run(p):\n        return 1\n\n\n", exact(5, 7)},
		{"comment behind the bar", "    script: | # Starlark\n      def run(p): pass\n", exact(5, 7)},
		{"blank first lines", "    script: |\n\n   \n      def run(p): pass\n", exact(5, 7)},
		{"blank lines inside", "    script: |\n      x = 1\n\n      def run(p): pass\n", exact(5, 7)},
		{"indentation indicator", "    script: |1\n       def run(p): pass\n", exact(5, 6)},
		{"tabs", "    script: |\n      def run(p):\n      \treturn 1\n", exact(5, 7)},
		{"windows", "    script: |\r\n      def run(p):\r\n        return 1\r\n", exact(5, 7)},
		{"tag", "    script: !!str |\n      def run(p): pass\n", exact(5, 7)},
		{"tag above", "    script: !!str\n      |\n      def run(p): pass\n", exact(6, 7)},
		{"no final newline", "    script: |\n      def run(p): pass", exact(5, 7)},
		{"folded", "    script: >\n      def run(p): pass\n", field(4, 13)},
		{"quoted", `    script: "def run(p): pass"` + "\n", field(4, 13)},
		{"plain", "    script: x = 1\n", field(4, 13)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, problems := Read("vmcp.yaml", []byte(head+tt.yaml))
			if c == nil {
				t.Fatal(problems)
			}
			if got := c.Origin("scriptedTools[0].script"); got != tt.want {
				t.Errorf("Origin = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The origin of an alias is its anchor's.
func TestOriginOfAnAlias(t *testing.T) {
	c, err := Parse("vmcp.yaml", []byte("scriptedTools:\n  - name: a\n    description: A.\n    script: &s |\n      def run(p): pass\n"+
		"  - name: b\n    description: B.\n    script: *s\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Origin("scriptedTools[1].script"); !got.Exact || got.Line != 5 || got.Column != 7 {
		t.Errorf("Origin = %+v", got)
	}
}

func TestTestsAreNeitherToolsNorLibraries(t *testing.T) {
	_, problems := Read("vmcp.yaml", []byte("libraries: [{name: a_test.star, source: x = 1}]\nscriptedTools: [{name: a, description: A., scriptFile: origin_test.star}]\n"))
	got := problems.Error()
	for _, want := range []string{`"a_test.star" is named like a test; tests are no libraries`, `no such file "origin_test.star"`} {
		if !strings.Contains(got, want) {
			t.Errorf("problems\n%s\nlack %s", got, want)
		}
	}
}
