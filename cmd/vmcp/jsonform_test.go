package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli/jsonformtest"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/proxy/isolate"
)

// wrongForm names the file to which commands of a script in testdata report that their JSON differs from their
// help: the script may expect any exit code.
const wrongForm = "VMCP_TEST_WRONG_FORM"

// mainChecked is main in the scripts of testdata, and compares all JSON that it prints with the help.
func mainChecked() {
	args := os.Args[1:]
	c, rest, err := new(app).root().Find(args)
	if err != nil || !wantsJSON(rest) || slices.Contains(args, "-f") {
		main()
		return
	}
	isolate.ServeIfWorker()
	serve.FallBack()
	var out bytes.Buffer
	code := run(args, os.Stdin, io.MultiWriter(os.Stdout, &out), os.Stderr)
	if out.Len() > 0 {
		if err := jsonformtest.Check(c.Long, out.Bytes()); err != nil {
			note := fmt.Sprintf("vmcp %q: help and JSON differ: %v\n", args, err)
			if err := os.WriteFile(os.Getenv(wrongForm), []byte(note), 0o600); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(code)
}

// reportForms fails the test when a command of a script has reported something.
func reportForms(t *testing.T, e *testscript.Env) {
	file := filepath.Join(t.TempDir(), "wrong")
	e.Setenv(wrongForm, file)
	e.Defer(func() {
		if note, err := os.ReadFile(file); err == nil {
			t.Errorf("%s", note)
		}
	})
}

func wantsJSON(args []string) bool {
	joined := " " + strings.ReplaceAll(strings.Join(args, " "), "=", " ") + " "
	return strings.Contains(joined, " --output json ") || strings.Contains(joined, " -o json ") || strings.Contains(joined, " -ojson ")
}

// TestHelpSaysJSON: the help of every command with --output json describes its JSON.
func TestHelpSaysJSON(t *testing.T) {
	n := 0
	eachCommand(new(app).root(), func(c *cobra.Command) {
		f := c.Flags().Lookup("output")
		if f == nil || !strings.Contains(f.Usage, "json") {
			return
		}
		n++
		if err := jsonformtest.Check(c.Long, []byte("0")); err == nil || !strings.Contains(err.Error(), "$: ") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	})
	if n < 27 {
		t.Errorf("%d commands with JSON", n)
	}
}

// TestHelpIsTheJSON: what commands print has the members in their help, and no others. Scripts in testdata check
// all other JSON that they print.
func TestHelpIsTheJSON(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	for name, text := range map[string]string{
		"vmcp.yaml":   "incomingAuth: {type: local, authz: {allow: [{tools: [scripts.twice]}]}}\nscriptedTools:\n- name: twice\n  script: twice.star\n  input: {n: int}\n",
		"bad.yaml":    "backendz: []\n",
		"twice.star":  "def run(n):\n  return {\"n\": 2 * n}\n",
		"bad.star":    "def run(:\n",
		"tokens.yaml": "",
		"client.json": `{"mcpServers": {"notes": {"command": "npx", "args": ["notes"], "env": {"API_TOKEN": "${API_TOKEN}"}}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"validate bad.yaml", "check bad.star", "version", "fmt --check twice.star", "fmt --check bad.star", "import client.json --dry-run",
		"connect --list", "doctor --offline --config bad.yaml --url http://127.0.0.1:1", "token list --file tokens.yaml",
	} {
		checkForm(t, line)
	}
}

func checkForm(t *testing.T, line string) {
	t.Helper()
	args := append(strings.Fields(line), "--output", "json")
	c, _, err := new(app).root().Find(args)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	run(args, strings.NewReader(""), &stdout, &stderr)
	if err := jsonformtest.Check(c.Long, stdout.Bytes()); err != nil {
		t.Errorf("vmcp %s: %v\n%s%s", line, err, &stdout, &stderr)
	}
}

// TestWrongHelpIsFound: a member too many in the help, one too few, and one of another type.
func TestWrongHelpIsFound(t *testing.T) {
	const help = "Said.\n\nWith --output json (as here):\n\n    {\"a\",\"b\"?:number,\n     \"c\":[PROBLEM]}\n\n    PROBLEM = {\"at\":time}"
	for output, want := range map[string]string{
		`{"a":"","c":[]}`: "",
		`{"a":"","b":1,"c":[{"at":"2026-01-02T15:04:05Z"}]}`: "",
		`{"c":[]}`:                    `names a member "a"`,
		`{"a":"","c":[],"d":1}`:       `a member "d"`,
		`{"a":1,"c":[]}`:              "$.a: the help says string",
		`{"a":"","c":null}`:           "$.c: the help says a list",
		`{"a":"","c":[{"at":"now"}]}`: "$.c[0].at: the help says time",
		`{"a":"","c":[{}]}`:           `$.c[0]: the help names a member "at"`,
		``:                            "not JSON",
	} {
		if err := jsonformtest.Check(help, []byte(output)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", output, err, want)
		}
	}
}
