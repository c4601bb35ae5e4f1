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
	c.SetArgs(append([]string{}, args...)) // for nil, cobra would use those of this process
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
		{[]string{"greet", "--write", "x", "-o", "script"}, "want either --write, which writes files, or --output, which prints"},
		{[]string{"--all", "--write", ""}, "--write: want a folder"},
		{[]string{"--style", "pretty"}, "--style: want exact or clean, have pretty"},
		{[]string{"-f", "absent.yaml"}, "absent.yaml: no such file"},
	} {
		if _, _, err := migrateCommand(t, folder(t), tt.args...); err == nil || err.Error() != tt.want {
			t.Errorf("migrate-composite %q = %v, want %s", tt.args, err, tt.want)
		}
	}
}

// TestMigrateWrites: scripts and the configuration that uses them are written, and existing files are
// kept.
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
	for _, kept := range []string{
		"# The configuration of the office.", "# short", "timeout: 11m # the script itself ends after 10m, as the workflow did; 1m more are for its error",
	} {
		if !strings.Contains(string(data), kept) {
			t.Errorf("the new configuration lost %q:\n%s", kept, data)
		}
	}
}

// TestMigrateWritesAllOrNothing: every file is checked before the first is written; one that exists
// with the same content is accepted, and an edited one is kept.
func TestMigrateWritesAllOrNothing(t *testing.T) {
	dir := folder(t)
	for range 2 {
		if _, _, err := migrateCommand(t, dir, "--all", "--write", "scripts"); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := migrateCommand(t, dir, "greet", "--write", "other")
	if err == nil || !strings.HasPrefix(err.Error(), "vmcp.migrated.yaml: exists with other content") {
		t.Errorf("another configuration: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		t.Error("the refused command left a folder behind")
	}
	edited := filepath.Join(dir, "scripts", "part.star")
	if err := os.WriteFile(edited, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "scripts", "greet.star")); err != nil {
		t.Fatal(err)
	}
	if _, _, err = migrateCommand(t, dir, "--all", "--write", "scripts"); err == nil || !strings.Contains(err.Error(), "scripts/part.star") {
		t.Errorf("over an edited file: %v", err)
	}
	if data, err := os.ReadFile(edited); err != nil || string(data) != "# mine\n" {
		t.Errorf("the edited file is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "scripts", "greet.star")); err == nil {
		t.Error("the refused command wrote a script")
	}
}

const manifest = `apiVersion: toolhive.stacklok.dev/v1alpha1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: NAME-resource}
spec:
  name: NAME
  description: d
  steps: [{id: say, tool: chat.say}]
`

// TestMigrateReadsManyFiles: -f takes folders, lists of files, and can be repeated.
func TestMigrateReadsManyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("m/a.yaml", strings.ReplaceAll(manifest, "NAME", "first"))
	write("m/b.yml", strings.ReplaceAll(manifest, "NAME", "second"))
	write("m/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
	write("m/notes.txt", "not YAML: {")
	write("m/server.yaml", `apiVersion: toolhive.stacklok.dev/v1alpha1
kind: VirtualMCPServer
spec:
  config:
    compositeToolRefs: [{name: first-resource}, {name: secnd-resource}]
`)
	for _, args := range [][]string{{"-f", "m"}, {"-f", "m/a.yaml,m/b.yml"}, {"-f", "m/a.yaml", "-f", "m/b.yml"}} {
		stdout, stderr, err := migrateCommand(t, dir, append(args, "--all", "--output", "scripted-tools")...)
		if err != nil || !strings.Contains(stdout, "name: first") || !strings.Contains(stdout, "name: second") {
			t.Errorf("%q: %v\n%s", args, err, stdout)
		}
		want := `vmcp: m/server.yaml:5:56: spec.config.compositeToolRefs[1]: no VirtualMCPCompositeToolDefinition "secnd-resource" among the files, did you mean second-resource?; it is not migrated` + "\n"
		if args[1] == "m" && stderr != want {
			t.Errorf("%q says\n%swant\n%s", args, stderr, want)
		}
	}
	stdout, _, err := migrateCommand(t, dir, "-f", "m", "--all", "--write", "out")
	if want := "out/first.star\nout/second.star\nout/scripted-tools.yaml\n"; err != nil || stdout != want {
		t.Errorf("wrote %q, %v, want %q", stdout, err, want)
	}
	if _, _, err := migrateCommand(t, dir, "-f", "m/service.yaml", "--all"); err == nil || !strings.Contains(err.Error(), "no workflow here") {
		t.Errorf("a file without a workflow: %v", err)
	}
}

func TestMigrateVerifies(t *testing.T) {
	cases, err := filepath.Abs("../../migrate/testdata/oracle/091_err_continue_defaults")
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Abs("../../migrate/testdata/oracle/found_cleanup_accept")
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, err := migrateCommand(t, t.TempDir(), "--verify", cases)
	if err != nil || !strings.Contains(stdout, "err_continue_defaults  same") {
		t.Errorf("verify: %v\n%s", err, stdout)
	}
	// With --style clean the clean script is verified: it does not have the words that the legacy engine put
	// before a tool's error.
	stdout, _, err = migrateCommand(t, t.TempDir(), "--verify", cases, "--style", "clean")
	if err != nil || !strings.Contains(stdout, "err_continue_defaults  same") {
		t.Errorf("verify in the clean style: %v\n%s", err, stdout)
	}
	stdout, _, err = migrateCommand(t, t.TempDir(), "--verify", found, "--style", "clean")
	if err != nil || !strings.Contains(stdout, "same") {
		t.Errorf("verify in the clean style: %v\n%s", err, stdout)
	}
	dir := folder(t)
	stdout, _, err = migrateCommand(t, dir, "--verify", cases, "-f", "vmcp.yaml", "greet")
	if err == nil || !strings.Contains(stdout, "differs  calls") {
		t.Errorf("verify of another workflow: %v\n%s", err, stdout)
	}
}

// TestMigrateWritesOverNothing: what is not a regular file where a script would be written, also a
// dangling link, is an error and is kept.
func TestMigrateWritesOverNothing(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a folder":                     func(path string) error { return os.Mkdir(path, 0o755) },
		"a symbolic link to nothing":   func(path string) error { return os.Symlink("nowhere", path) },
		"a symbolic link to no folder": func(path string) error { return os.Symlink("vmcp.yaml/x", path) },
		"a device":                     func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			greet := filepath.Join(dir, "greet.star")
			if err := put(greet); err != nil {
				t.Skip(err)
			}
			stdout, _, err := migrateCommand(t, dir, "--all", "--write", ".")
			if err == nil || stdout != "" {
				t.Errorf("wrote %q over it", stdout)
			}
			if _, err := os.Lstat(greet); err != nil {
				t.Errorf("it is gone: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "part.star")); err == nil {
				t.Error("the refused command wrote another script")
			}
		})
	}
}

// TestMigrateGoesOnWhereItWasKilled: after the command was killed there are whole files only, and it can be run again.
func TestMigrateGoesOnWhereItWasKilled(t *testing.T) {
	dir := folder(t)
	if _, _, err := migrateCommand(t, dir, "--all", "--write", "scripts"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "vmcp.migrated.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scripts", ".vmcp.1.tmp"), []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, err := migrateCommand(t, dir, "--all", "--write", "scripts")
	if err != nil || !strings.Contains(stdout, "vmcp.migrated.yaml") {
		t.Errorf("again: %q, %v", stdout, err)
	}
}
