package report

import (
	"bytes"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// hostile are problems with names and messages that mean something to those who read them.
var hostile = diag.Problems{
	{Pos: diag.Pos{File: "tools/a.star", Line: 3, Column: 9}, EndLine: 3, EndColumn: 12, Code: "undefined", Message: "undefined: x", Hint: "did you mean y?",
		Related: []diag.Related{{Pos: diag.Pos{File: "lib/b.star", Line: 1, Column: 1}, Message: "in this call"}}},
	{Pos: diag.Pos{File: "a:b,c %41#?[x] é\n::error::.star", Line: 1, Column: 1}, Severity: diag.Warning, Code: "unused", Message: "100% of\r\n::error file=x::\tthis, that: a::b"},
	{Pos: diag.Pos{File: "vmcp.yaml"}, Code: "con:fig,\n", Path: "tools[0].a\"b", Message: strings.Repeat("long ", 20_000)},
	{Message: ""},
}

func written(t *testing.T, format string, problems diag.Problems) string {
	var b bytes.Buffer
	if err := Write(&b, format, problems, false, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSARIFFitsTheStandard holds what is written to a schema of the standard's sections.
func TestSARIFFitsTheStandard(t *testing.T) {
	f, err := os.Open("testdata/sarif-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, problems := range []diag.Problems{nil, hostile} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(written(t, "sarif", problems)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Error(err)
		}
		run := v.(map[string]any)["runs"].([]any)[0].(map[string]any)
		if n := len(run["results"].([]any)); n != len(problems) {
			t.Errorf("%d results, want %d", n, len(problems))
		}
	}
	for _, p := range hostile { // what is written as a URI leads to the same file
		u, err := url.Parse(uri(p.File))
		if err != nil || u.Path != p.File || u.IsAbs() || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("uri(%q) = %s: %+v, %v", p.File, uri(p.File), u, err)
		}
	}
}

// commandOf reads a workflow command as GitHub's runner does: one line, ::name key=value,key=value::message, with
// %25, %0D and %0A in both, %3A and %2C in values.
func commandOf(t *testing.T, line string) (name string, properties map[string]string, message string) {
	rest, ok := strings.CutPrefix(line, "::")
	head, message, found := strings.Cut(rest, "::")
	if !ok || !found || strings.ContainsAny(line, "\r") {
		t.Fatalf("%q is no command", line)
	}
	name, list, _ := strings.Cut(head, " ")
	properties = map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(one, "=")
		properties[key] = strings.NewReplacer("%3A", ":", "%2C", ",", "%0D", "\r", "%0A", "\n", "%25", "%").Replace(value)
	}
	return name, properties, strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%").Replace(message)
}

// TestAnnotationsAreOneCommandEach: no name or message becomes another command, or another property.
func TestAnnotationsAreOneCommandEach(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(written(t, "github", hostile), "\n"), "\n")
	if len(lines) != len(hostile) {
		t.Fatalf("%d lines for %d problems:\n%q", len(lines), len(hostile), lines)
	}
	for i, p := range hostile {
		name, properties, message := commandOf(t, lines[i])
		if name != p.Severity.String() || properties["file"] != p.File || properties["title"] != p.Code || message != text(p) {
			t.Errorf("%q\n name %s, properties %q, message %q", lines[i], name, properties, message)
		}
	}
}
