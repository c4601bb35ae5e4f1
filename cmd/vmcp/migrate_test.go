package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const composites = `# The configuration of the office.
listen: 127.0.0.1:0
compositeTools:
  - name: greet
    description: Greets somebody.
    parameters: {type: object, properties: {who: {type: string}}, required: [who]}
    timeout: 10m
    steps:
      - {id: say, tool: chat.say, arguments: {text: "Hi {{.params.who}}"}}
  - name: part
    description: Says goodbye at {{.timestamp}}.
    steps:
      - {id: say, tool: chat.say, arguments: {text: "Bye, {{.timestamp}}"}}
operational: {timeouts: {default: 5s}} # short
`

// migrateCommand runs migrate-composite in a folder with vmcp.yaml.
func migrateCommand(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(dir)
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(composites), out: &out, err: &errs}
	c := a.migrate()
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.Execute()
	return out.String(), errs.String(), err
}

func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "vmcp.yaml"), []byte(composites), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMigratePrints(t *testing.T) {
	for _, tt := range []struct {
		name           string
		args           []string
		stdout, stderr string
	}{
		{"one", []string{"greet"}, `call("chat.say", {"text": "Hi %s" % text(params.get("who"))}, step = "say")`, ""},
		{"clean", []string{"greet", "--style", "clean"}, `call_tool("chat.say", {"text": "Hi %s" % params["who"]})`, ""},
		{"all", []string{"--all"}, "# Says goodbye", "vmcp: vmcp.yaml:13:53: steps[0].arguments.text: there is no .timestamp"},
		{"stdin", []string{"-f", "-", "part", "--fix"}, `"Bye, %s" % timestamp()`, "<stdin>:13:53"},
		{"entries", []string{"--all", "--output", "scripted-tools"}, "scriptedTools:\n  - name: greet\n    description: Greets somebody.\n    parameters:\n      type: object\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := migrateCommand(t, folder(t), tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("%q\nprinted %s\nand     %s", tt.args, stdout, stderr)
			}
		})
	}
}

func TestMigrateRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "vmcp.yaml has 2 workflows: greet, part"},
		{[]string{"nobody"}, `vmcp.yaml: no workflow "nobody", there is greet, part`},
		{[]string{"greet", "--all"}, "want names or --all, not both"},
		{[]string{"--style", "pretty"}, "--style: want exact or clean, have pretty"},
		{[]string{"-f", "absent.yaml"}, "absent.yaml: no such file"},
	} {
		if _, _, err := migrateCommand(t, folder(t), tt.args...); err == nil || err.Error() != tt.want {
			t.Errorf("migrate-composite %q = %v, want %s", tt.args, err, tt.want)
		}
	}
}

// TestMigrateWrites writes scripts and the configuration that uses them, and nothing over
// what is there.
func TestMigrateWrites(t *testing.T) {
	dir := folder(t)
	stdout, _, err := migrateCommand(t, dir, "--all", "--write", "scripts")
	if err != nil {
		t.Fatal(err)
	}
	if want := "scripts/greet.star\nscripts/part.star\nvmcp.migrated.yaml\n"; stdout != want {
		t.Errorf("wrote %q, want %q", stdout, want)
	}
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	cfg, err := a.load(filepath.Join(dir, "vmcp.migrated.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.CompositeTools) != 0 || len(cfg.ScriptedTools) != 2 || !strings.HasSuffix(cfg.ScriptedTools[0].ScriptFile, "scripts/greet.star") {
		t.Errorf("the new configuration has %d composite tools and %+v", len(cfg.CompositeTools), cfg.ScriptedTools)
	}
	data, err := os.ReadFile(filepath.Join(dir, "vmcp.migrated.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"# The configuration of the office.", "# short", "timeout: 11m"} {
		if !strings.Contains(string(data), kept) {
			t.Errorf("the new configuration lost %q:\n%s", kept, data)
		}
	}
	if _, _, err := migrateCommand(t, dir, "greet", "--write", "scripts"); err == nil || !strings.Contains(err.Error(), "greet.star: is there already") {
		t.Errorf("writing twice: %v, want a refusal", err)
	}
}

func TestMigrateVerifies(t *testing.T) {
	cases, err := filepath.Abs("../../migrate/testdata/oracle/091_err_continue_defaults")
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, err := migrateCommand(t, t.TempDir(), "--verify", cases)
	if err != nil || !strings.Contains(stdout, "err_continue_defaults  same") {
		t.Errorf("verify: %v\n%s", err, stdout)
	}
	dir := folder(t)
	stdout, _, err = migrateCommand(t, dir, "--verify", cases, "-f", "vmcp.yaml", "greet")
	if err == nil || !strings.Contains(stdout, "differs  calls") {
		t.Errorf("verify of another workflow: %v\n%s", err, stdout)
	}
}
