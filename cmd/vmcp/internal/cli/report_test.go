package cli_test

import (
	"bytes"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// hostile are problems whose names and messages contain control characters of the formats.
var hostile = diag.Problems{
	{Pos: diag.Pos{File: "tools/a.star", Line: 3, Column: 9}, EndLine: 3, EndColumn: 12, Code: "undefined", Message: "undefined: x", Hint: "did you mean y?",
		Related: []diag.Related{{Pos: diag.Pos{File: "lib/b.star", Line: 1, Column: 1}, Message: "in this call"}}},
	{Pos: diag.Pos{File: "a:b,c %41#?[x] é\n::error::.star", Line: 1, Column: 1}, Severity: diag.Warning, Code: "unused", Message: "100% of\r\n::error file=x::\tthis, that: a::b"},
	{Pos: diag.Pos{File: "vmcp.yaml"}, Code: "con:fig,\n", Path: "tools[0].a\"b", Message: strings.Repeat("long ", 20_000)},
	{Message: ""},
}

func written(t *testing.T, format string, problems diag.Problems) string {
	var b bytes.Buffer
	if err := cli.Write(&b, format, problems, false, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSARIFFitsTheStandard validates the output by a schema of the standard's sections.
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
	var uris []string
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
		uris = urisOf(v)
	}
	for _, p := range hostile { // the URI leads to the same file
		if p.File == "" {
			continue
		}
		if !slices.ContainsFunc(uris, func(text string) bool {
			u, err := url.Parse(text)
			return err == nil && u.Path == p.File && !u.IsAbs() && u.RawQuery == "" && u.Fragment == ""
		}) {
			t.Errorf("no URI leads to %q: %q", p.File, uris)
		}
	}
}

// urisOf are the values of all members named uri.
func urisOf(v any) (uris []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			uris = append(uris, urisOf(e)...)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && key == "uri" {
				uris = append(uris, text)
			}
			uris = append(uris, urisOf(e)...)
		}
	}
	return uris
}

// commandOf parses a workflow command as GitHub's runner does: one line, ::name key=value,key=value::message, with
// %25, %0D and %0A escaped in both, %3A and %2C in values.
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

// lineOf is the text output for a problem, without its position, severity and code.
func lineOf(p diag.Problem) string {
	p.Pos, p.Code, p.Severity = diag.Pos{}, "", diag.Error
	return strings.TrimPrefix(p.Error(), "error: ")
}

// TestAnnotationsAreOneCommandEach: no name or message becomes another command, or another property.
func TestAnnotationsAreOneCommandEach(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(written(t, "github", hostile), "\n"), "\n")
	if len(lines) != len(hostile) {
		t.Fatalf("%d lines for %d problems:\n%q", len(lines), len(hostile), lines)
	}
	for i, p := range hostile {
		name, properties, message := commandOf(t, lines[i])
		if name != p.Severity.String() || properties["file"] != p.File || properties["title"] != p.Code || message != lineOf(p) {
			t.Errorf("%q\n name %s, properties %q, message %q", lines[i], name, properties, message)
		}
	}
}
