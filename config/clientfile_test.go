package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const clientFile = `{
	// of a client
	"inputs": [{"id": "api-key", "password": true}],
	"servers": {
		"files": {"command": "./server", "args": ["${workspaceFolder}", "${LEVEL:-info}"], "env": {"KEY": "${input:api-key}"}, "envFile": "${workspaceFolder}/.env", "cwd": "."},
		"my server!": {"url": "https://mcp.example.com/mcp", "includeTools": ["read_*", "["], "timeout": 5000},
		"missing": {"command": "x", "env": {"T": "${input:token}"}},
		"off": {"command": "x", "env": {"T": "${input:token}"}, "disabled": true},
		"odd": {"type": "ws", "url": "ws://127.0.0.1"},
		"bad url": {"url": "127.0.0.1:80"},
		"bad-url": {"url": "ftp://127.0.0.1"},
		"only-here": {"command": "x", "args": ["${selectedText}"]},
		"vmcp": {"url": "http://127.0.0.1:4483/mcp"},
	},
}`

// A client's file can be used as a configuration; the problem of one server concerns only its backend.
func TestClientFile(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, ".vscode", "mcp.json")
	for file, text := range map[string]string{".vscode/mcp.json": clientFile, ".env": "A=1\nB='${C}' # quoted\n", ".vscode/vmcp.env": "API_KEY=\"s3cr3t-of-vmcp-env\"\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, b := range c.Backends {
		have = append(have, strings.Join([]string{b.Name, b.URL + b.Command, b.Transport, b.Unusable}, " "))
	}
	want := []string{
		"files " + folder + "/server stdio ",
		"my-server https://mcp.example.com/mcp  ",
		"missing x stdio env.T: the environment has no variable TOKEN (from ${input:token})",
		"off x stdio ",
		`odd http://unusable.invalid/  its type is "ws"; want stdio, http or sse`,
		"bad-url http://unusable.invalid/  url: not a URL; want one such as https://mcp.example.com/mcp",
		"bad-url-2 http://unusable.invalid/  url: want a URL that begins with http:// or https://",
		"only-here x stdio args: ${selectedText} is what the editor knows of the file that is open or of itself, which there is not here; write the value, or ${env:NAME} for a variable of the environment",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("backends (-want +have):\n%s", diff)
	}
	if at := c.Place(""); at.File != filepath.ToSlash(name) || at.Line != 1 {
		t.Errorf("the configuration is in %s, want %s", at, name)
	}
	files := c.Backends[0]
	if !slices.Equal(files.Args, []string{folder, "info"}) || files.Cwd != folder {
		t.Errorf("args %q, cwd %q", files.Args, files.Cwd)
	}
	if diff := cmp.Diff(map[string]string{"KEY": "s3cr3t-of-vmcp-env", "A": "1", "B": "${C}"}, files.Env); diff != "" {
		t.Errorf("env (-want +have):\n%s", diff)
	}
	if !c.Backends[3].Disabled || c.Backends[1].Timeout.String() != "5s" {
		t.Errorf("%+v\n%+v", c.Backends[3], c.Backends[1])
	}
	if diff := cmp.Diff([]WorkloadTools{{Workload: "my-server", Filter: []string{"read_*"}}}, c.Aggregation.Tools); diff != "" {
		t.Errorf("filters (-want +have):\n%s", diff)
	}
	if !slices.Contains(c.Secrets(), "s3cr3t-of-vmcp-env") {
		t.Error("the value of vmcp.env is not hidden")
	}
	for _, file := range []string{filepath.Join(folder, ".env"), filepath.Join(folder, ".vscode", "vmcp.env")} {
		if !slices.Contains(c.envFiles, file) {
			t.Errorf("%s is not followed: %q", file, c.envFiles)
		}
	}
	if at := c.Place("backends[1].url"); at.Line != 6 || at.Column != 3 {
		t.Errorf("backends[1] is at %v", at)
	}
	warnings := c.Warnings().Error()
	for _, want := range []string{
		`mcp.json:6:3: warning: servers["my server!"]: "[" is not a valid glob for tools; it is ignored`,
		`mcp.json:9:3: warning: servers.odd: the backend odd is down: its type is "ws"`,
		"mcp.json:13:3: warning: servers.vmcp: left out: it is vmcp itself",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning %q in\n%s", want, warnings)
		}
	}
}

func TestEnvFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "vmcp.env")
	text := "\ufeff# comment\n\nA = a b # c\nexport B=\"x\\n\\\"y\\\" \\z\" # d\nC='\\n'\nSET=file\nE=\nno equals\n1X=2\nOPEN=\"a\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	env, problems := below(func(name string) (string, bool) { return "process", name == "SET" }, name, code)
	for name, want := range map[string]string{"A": "a b", "B": "x\n\"y\" \\z", "C": `\n`, "SET": "process", "E": ""} {
		if have, ok := env(name); have != want || !ok {
			t.Errorf("%s is %q, %t; want %q", name, have, ok, want)
		}
	}
	if _, ok := env("NONE"); ok {
		t.Error("NONE is there")
	}
	var have []string
	for _, p := range problems {
		have = append(have, strings.ReplaceAll(p.Error(), name, "vmcp.env"))
	}
	want := []string{
		"vmcp.env:8:1: error: want NAME=value [config]",
		"vmcp.env:9:1: error: want a name of letters, digits and _ before the = [config]",
		"vmcp.env:10:1: error: the value of OPEN is quoted and does not end with its quotation mark [config]",
		"vmcp.env:1:1: warning: others on this machine can read the file: run chmod 600 vmcp.env [config]",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("problems (-want +have):\n%s", diff)
	}
}
