// Package imports reads the configurations of MCP clients with `vmcp import` and `vmcp serve --config`, and compares the arguments,
// environment and headers that every server gets.
package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var vmcp string // the binary under test

func TestMain(m *testing.M) {
	if isProgram() {
		_ = beProgram() // the end of its input
		os.Exit(0)
	}
	testmode.SideBySide(4)
	os.Exit(rig.WithBinary(&vmcp, m.Run))
}

// testTimeout bounds every wait of a test.
const testTimeout = 2 * time.Minute

// wanted is the expected result of a configuration.
type wanted struct {
	// Servers by the name of the backend, with the arguments, variables, path and headers that each gets; of the last three
	// there may be more.
	Servers map[string]struct {
		witness
		Tools []string // that clients see; nil: all
	}
	Not       map[string]string // servers that are not taken over, with a part of the reason
	NoProblem bool              // that they are not
	Off       []string          // disabled
	Lacking   map[string]string // servers that are down, for want of a variable
	Secrets   []string          // of the file: they are beside what import writes
}

// client is one configuration in its folders.
type client struct {
	home, dir, file string
	text            []byte
	env             []string
	want            wanted
}

// unpack writes a configuration of testdata to new folders.
func unpack(t *testing.T, archive, url string) *client {
	t.Helper()
	c := &client{home: t.TempDir(), dir: filepath.Join(t.TempDir(), "project")}
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	place := strings.NewReplacer("HOME/", c.home+"/", "DIR", c.dir, "URL/", url+"/")
	for _, f := range a.Files {
		text := []byte(place.Replace(string(f.Data)))
		switch f.Name {
		case "env":
			c.env = strings.Fields(string(text))
			continue
		case "want.json":
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(&c.want); err != nil {
				t.Fatal(err)
			}
			continue
		}
		path := place.Replace(f.Name)
		if isClients(path) {
			if c.file = path; bytes.Contains(a.Comment, []byte("\ncrlf\n")) {
				text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
			}
			if bytes.Contains(a.Comment, []byte("\nbom\n")) {
				text = append([]byte("\xef\xbb\xbf"), text...)
			}
			c.text = text
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range programs {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.env = append(c.env, "HOME="+c.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "PATH="+bin+":"+os.Getenv("PATH"))
	return c
}

// isClients reports whether a file is a client's configuration, not a file of variables beside it.
func isClients(path string) bool {
	return slices.Contains([]string{".json", ".toml", ".yaml"}, filepath.Ext(path))
}

// TestClients: every server of every configuration is reached with its arguments, variables, headers and folders, or the reason
// is reported: with the file that `vmcp import` writes, and with the client's file, which is not changed.
func TestClients(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) != 12 {
		t.Fatalf("%v %v, want twelve configurations", archives, err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".txtar")
		t.Run(name, func(t *testing.T) {
			if name != "cursor" && name != "vscode" && !testmode.Thorough() {
				t.Skip("one of several of its kind: runs with " + testmode.Environment + "=thorough")
			}
			t.Parallel()
			c := unpack(t, archive, site(t))
			t.Run("import", func(t *testing.T) { c.serve(t, c.importAll(t)) })
			t.Run("serve", func(t *testing.T) { c.serve(t, c.file) })
			if now, err := os.ReadFile(c.file); err != nil || !bytes.Equal(now, c.text) {
				t.Errorf("the client's file has changed: %v\n%s", err, now)
			}
		})
	}
}

// run runs vmcp in the folder of the project.
func (c *client) run(t *testing.T, args ...string) (code int, out, log string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), vmcp, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// importAll writes a configuration from the client's file.
func (c *client) importAll(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(c.dir, "vmcp.yaml")
	code, out, log := c.run(t, "import", c.file, "--workspace", c.dir, "--write", file, "-o", "json")
	want := 0
	if len(c.want.Not) > 0 && !c.want.NoProblem {
		want = 1
	}
	if code != want {
		t.Errorf("vmcp import: exit %d, want %d: %s", code, want, log)
	}
	var report struct {
		Backends []struct{ Name, Action, Reason string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, b := range report.Backends {
		if why, not := c.want.Not[b.Name]; not && (b.Action != "skipped" || b.Reason == "" || !strings.Contains(b.Reason, why)) || !not && b.Action != "added" {
			t.Errorf("%s is %s: %s; want %q", b.Name, b.Action, b.Reason, why)
		}
	}
	if n := len(c.want.Servers) + len(c.want.Off) + len(c.want.Lacking) + len(c.want.Not); len(report.Backends) != n {
		t.Errorf("the report has %d servers, want %d: %s", len(report.Backends), n, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secrets, _ := os.ReadFile(filepath.Join(c.dir, "vmcp.env")) // there may be none
	for _, s := range c.want.Secrets {
		if bytes.Contains(text, []byte(s)) || strings.Contains(out+log, s) || !bytes.Contains(secrets, []byte(s)) {
			t.Errorf("the output has the secret %s, or the configuration is missing beside it:\n%s", s, text)
		}
	}
	// In a configuration of vmcp a missing variable is an error.
	for _, variable := range c.want.Lacking {
		if code, out, _ := c.run(t, "validate", file); code != 1 || !strings.Contains(out, variable) {
			t.Errorf("vmcp validate without %s: exit %d: %s", variable, code, out)
		}
		c.env = append(c.env, variable+"=is-set-by-now-83")
	}
	if code, out, log := c.run(t, "validate", file); code != 0 {
		t.Errorf("vmcp validate: exit %d: %s%s", code, out, log)
	}
	return file
}

// serve serves a file and checks each server of it.
func (c *client) serve(t *testing.T, file string) {
	t.Helper()
	ours := filepath.Ext(file) == ".yaml" && filepath.Base(file) == "vmcp.yaml"
	env := slices.DeleteFunc(slices.Clone(c.env), func(pair string) bool { return !ours && strings.HasSuffix(pair, "=is-set-by-now-83") })
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p, addr, err := rig.Serve(ctx, &log, vmcp, file, env...)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	defer func() {
		_ = p.Stop()
		if t.Failed() {
			t.Logf("log of vmcp:\n%s", &log)
		}
		for _, s := range c.want.Secrets {
			if strings.Contains(log.String(), s) {
				t.Errorf("the log shows the secret %s:\n%s", s, &log)
			}
		}
	}()
	state := c.settled(t, ctx, addr)
	for name := range c.want.Servers {
		if state[name] != "ready" {
			t.Errorf("%s is %q, want ready", name, state[name])
			continue
		}
		c.ask(t, addr, name, len(state) > 1)
	}
	for _, name := range c.want.Off {
		if state[name] != "disabled" {
			t.Errorf("%s is %q, want disabled", name, state[name])
		}
	}
	for name, variable := range c.want.Lacking {
		if ours && state[name] != "ready" || !ours && !strings.Contains(state[name], variable) {
			t.Errorf("%s is %q, for want of %s", name, state[name], variable)
		}
	}
	for name, why := range c.want.Not { // of a client's own file that is said of a backend that is down
		if state[name] != "" && (ours || !strings.HasPrefix(state[name], "down: ") || !strings.Contains(state[name], why)) {
			t.Errorf("%s is %q, want none, or why: %s", name, state[name], why)
		}
	}
}

// settled waits until no backend is connecting, and returns the states by name, with the reasons of those that are down.
func (c *client) settled(t *testing.T, ctx context.Context, addr string) (state map[string]string) {
	t.Helper()
	if err := rig.Poll(ctx, "the state of all backends", func() (bool, error) {
		resp, err := http.Get("http://" + addr + "/api/v1/status")
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		var s struct {
			Backends []struct{ Name, State, Error string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			return false, err
		}
		state = map[string]string{}
		for _, b := range s.Backends {
			if state[b.Name] = b.State; b.State == "down" {
				state[b.Name] += ": " + b.Error
			}
			if b.State == "connecting" {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

// ask compares the data that a server got with those of the client's file.
func (c *client) ask(t *testing.T, addr, name string, several bool) {
	t.Helper()
	r := &raw.Client{URL: "http://" + addr + "/mcp", Revision: raw.Modern}
	prefix := ""
	if several {
		prefix = name + "_"
	}
	got, err := r.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, prefix+"who"))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var result struct{ Content []struct{ Text string } }
	var w witness
	if err := json.Unmarshal(got, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(result.Content[0].Text), &w); err != nil {
		t.Fatal(err)
	}
	want := c.want.Servers[name]
	if diff := cmp.Diff(want.Args, w.Args); diff != "" || w.Path != want.Path {
		t.Errorf("%s has path %s and arguments (-want +got):\n%s", name, w.Path, diff)
	}
	for variable, value := range want.Env {
		if w.Env[variable] != value {
			t.Errorf("%s has %s=%q, want %q", name, variable, w.Env[variable], value)
		}
	}
	for header, value := range want.Headers {
		if w.Headers[header] != value {
			t.Errorf("%s gets %s: %q, want %q", name, header, w.Headers[header], value)
		}
	}
	if want.Tools == nil {
		return
	}
	listed, err := r.Call(t.Context(), "tools/list", `{}`)
	if err != nil || strings.Contains(string(listed), `"`+prefix+`hidden"`) || !strings.Contains(string(listed), `"`+prefix+`who"`) {
		t.Errorf("%s has the tools %s, want %v: %v", name, listed, want.Tools, err)
	}
}
