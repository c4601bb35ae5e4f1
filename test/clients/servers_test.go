//go:build npm

package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// A server is the set of backends of one configuration.
type server struct {
	name   string
	pkg    string // of npm, for its version; "" for our own
	parts  []part
	config string // the file; "" for the demo, which has none
	// The profile that clients use, which has the parts; "" for none. The configuration may have other backends, too.
	profile string
	others  int
	calls   []call
	// Scripted tools of the proxy: the same over both transports, with this text in
	// their results.
	scripted map[string]string
	// Tools that the server lists for clients with certain capabilities. The proxy has these capabilities, and
	// lists the tools to all clients.
	forOthers []string

	// A server with state between calls has a connection for each session of a
	// client. Clients of 2026-07-28 have no sessions: they share one connection.
	sharing string

	url, sharedURL string // of running proxies before it
	tokenFile      string // a proxy before it asks for the token in this file, too; "" for none
	guarded        job    // that proxy, with the token
	dir            string // where `vmcp serve` is started
}

// A part is a backend, with the command to start it directly.
type part struct {
	prefix string // that the proxy puts before its names
	job
}

// A job is the task of drive.mjs in one connection.
type job struct {
	ID      string            `json:"id"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Calls   []call            `json:"calls"`
}

// A call is one call, with the proxy's name of the tool.
type call struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`

	refused bool // by the server
}

type args = map[string]any

func node(name, file string, more ...string) job {
	return job{Command: world.npm.Node(), Args: append([]string{world.npm.Path(name + "/" + file)}, more...)}
}

// script is j without arguments, which one-shot clients would parse as theirs.
func (j job) script(t *testing.T) job {
	var words []string
	for k, v := range j.Env {
		words = append(words, k+"='"+v+"'")
	}
	for _, word := range append([]string{j.Command}, j.Args...) {
		words = append(words, "'"+word+"'")
	}
	path := filepath.Join(t.TempDir(), "start")
	write(t, path, "#!/bin/sh\nexec env "+strings.Join(words, " ")+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return job{Command: path, Args: []string{}}
}

// one is a server that is the only backend of the proxy, so that its names are not prefixed.
func one(t *testing.T, name, pkg string, how job, calls ...call) *server {
	return withConfig(t, &server{name: name, pkg: pkg, parts: []part{{job: how}}, calls: calls}, backend(name, how))
}

// stateful is a server that is the only backend of the proxy and has state between calls.
func stateful(t *testing.T, name, pkg string, how job, calls ...call) *server {
	s := one(t, name, pkg, how, calls...)
	s.sharing = s.config
	return withConfig(t, s, backend(name, how, "    sessions: exclusive"))
}

func backend(name string, how job, more ...string) string {
	var quoted []string
	for _, a := range how.Args {
		quoted = append(quoted, fmt.Sprintf("%q", a))
	}
	// Under the load of all these tests a Node process may start slowly.
	lines := []string{"operational: {startup: {wait: 60s}}", "backends:", "  - name: " + name, fmt.Sprintf("    command: %q", how.Command), "    args: [" + strings.Join(quoted, ", ") + "]"}
	for k, v := range how.Env {
		lines = append(lines, fmt.Sprintf("    env: {%s: %q}", k, v))
	}
	return strings.Join(append(lines, more...), "\n") + "\n"
}

func withConfig(t *testing.T, s *server, text string) *server {
	s.dir = t.TempDir()
	s.config = filepath.Join(s.dir, "vmcp.yaml")
	write(t, s.config, text)
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// servers starts the servers and their proxies.
func servers(t *testing.T) []*server {
	folder := filepath.Join(world.dir, "folder")
	write(t, filepath.Join(folder, "note.txt"), "a note\nwith é\n")
	write(t, filepath.Join(folder, "sub", "more.md"), "more")
	memory := filepath.Join(world.dir, "memory.json")
	write(t, memory, `{"type":"entity","name":"Ada","entityType":"person","observations":["counts"]}`+"\n")

	remember := node("@modelcontextprotocol/server-memory", "dist/index.js")
	remember.Env = map[string]string{"MEMORY_FILE_PATH": memory}
	think := node("@modelcontextprotocol/server-sequential-thinking", "dist/index.js")
	all := []*server{
		demo(t), readme(t), profile(t),
		one(t, "everything", "@modelcontextprotocol/server-everything", node("@modelcontextprotocol/server-everything", "dist/index.js", "stdio"),
			call{Name: "echo", Args: args{"message": "hé 😀"}}, call{Name: "get-sum", Args: args{"a": 2, "b": 40}}, call{Name: "get-structured-content", Args: args{"location": "Chicago"}},
			call{Name: "get-tiny-image", Args: args{}}, call{Name: "get-annotated-message", Args: args{"messageType": "error", "includeImage": true}}, call{Name: "get-resource-links", Args: args{"count": 2}}),
		one(t, "filesystem", "@modelcontextprotocol/server-filesystem", node("@modelcontextprotocol/server-filesystem", "dist/index.js", folder),
			call{Name: "read_text_file", Args: args{"path": filepath.Join(folder, "note.txt")}}, call{Name: "directory_tree", Args: args{"path": folder}}, call{Name: "read_text_file", Args: args{"path": "/etc/hostname"}, refused: true}),
		one(t, "memory", "@modelcontextprotocol/server-memory", remember, call{Name: "read_graph", Args: args{}}, call{Name: "search_nodes", Args: args{"query": "Ada"}}),
		stateful(t, "sequential-thinking", "@modelcontextprotocol/server-sequential-thinking", think,
			call{Name: "sequentialthinking", Args: args{"thought": "first", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2}}),
	}
	if world.chromium != "" {
		browse := node("@playwright/mcp", "cli.js", "--headless", "--isolated", "--no-sandbox", "--executable-path", world.chromium)
		all = append(all, stateful(t, "Playwright", "@playwright/mcp", browse, call{Name: "browser_navigate", Args: args{"url": world.page}}))
	}
	all[3].forOthers = []string{"get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"}
	for _, s := range all {
		for i := range s.parts {
			s.parts[i].job = s.parts[i].script(t)
		}
		s.serve(t)
	}
	return all
}

// demo is `vmcp serve` without a configuration.
func demo(t *testing.T) *server {
	home := filepath.Join(world.dir, "demo")
	t.Setenv("XDG_CACHE_HOME", home)
	dir := filepath.Join(home, "vmcp", "demo")
	work := filepath.Join(dir, "workspace")
	db := filepath.Join(world.dir, "direct.db")
	return &server{
		name: "demo", dir: t.TempDir(), tokenFile: filepath.Join(t.TempDir(), "token"),
		parts: []part{
			{"workspace_", job{Command: program("vmcp"), Args: []string{"demo-backend", "workspace", "--root", work, "--db", db, "--seed", filepath.Join(dir, "seed.sql")}}},
			{"yamlfile_", job{Command: program("vmcp"), Args: []string{"demo-backend", "yamlfile", "--root", work}}},
		},
		calls: []call{
			{Name: "workspace_read_file", Args: args{"path": "notes/welcome.md"}},
			{Name: "yamlfile_get", Args: args{"file": "services.yaml", "path": "services"}},
			{Name: "service_report", Args: args{"min_minutes": 10}},
		},
		scripted: map[string]string{"service_report": "minutes_down", "scale_service": "", "find_todos": ""},
	}
}

// block is a part of the README that has a title.
var block = regexp.MustCompile("(?ms)^```\\w+ title=(\\S+)\n(.*?)^```$")

// readme is the configuration of README.md, with its script.
func readme(t *testing.T) *server {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		write(t, filepath.Join(dir, m[1]), m[2])
	}
	return &server{
		name: "README", dir: dir, config: filepath.Join(dir, "vmcp.yaml"),
		parts: []part{
			{"files_", job{Command: program("workspace"), Args: []string{"-root", dir}}},
			{"values_", job{Command: program("yamlfile"), Args: []string{"-root", dir}}},
		},
		calls: []call{
			{Name: "files_read_file", Args: args{"path": "notes.md"}},
			{Name: "values_get", Args: args{"file": "vmcp.yaml", "path": "backends[0].name"}},
			{Name: "count_words", Args: args{"suffix": ".md"}},
		},
		scripted: map[string]string{"count_words": "notes.md", "first_line": ""},
	}
}

// profile is a part of the README's configuration: one of its servers, and one of its scripts.
func profile(t *testing.T) *server {
	s := readme(t)
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.config, string(text)+"profiles:\n  - {name: notes, workloads: [files], tools: [\"*\", count_words]}\n")
	s.name, s.profile, s.others = "a profile of it", "notes", 1
	s.parts, s.calls = s.parts[:1], []call{s.calls[0], s.calls[2]}
	delete(s.scripted, "first_line")
	return s
}

func serving(config string) []string {
	if config == "" {
		return []string{"serve"}
	}
	return []string{"serve", "--config", config}
}

// through returns the URL of s for clients over HTTP, and the command of the proxy for clients over stdio.
func (s *server) through(t *testing.T, c client) (http, stdio job) {
	config := s.config
	http.URL = s.url
	if c.modern && s.sharing != "" {
		config, http.URL = s.sharing, s.sharedURL
	}
	words := append(serving(config), "--stdio")
	if s.profile != "" {
		http.URL += "/" + s.profile
		words = append(words, "--profile", s.profile)
	}
	start := "cd " + s.dir + " && exec " + program("vmcp") + " " + strings.Join(words, " ")
	return http, job{Command: "sh", Args: []string{"-c", start}}.script(t)
}

// serve starts the proxies that HTTP clients use.
func (s *server) serve(t *testing.T) {
	s.url = s.start(t, s.config)
	if s.sharing != "" {
		s.sharedURL = s.start(t, s.sharing)
	}
	if s.tokenFile != "" {
		s.guarded.URL = s.start(t, s.config, "--token-file", s.tokenFile)
		token, err := os.ReadFile(s.tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		s.guarded.Headers = map[string]string{"Authorization": "Bearer " + strings.TrimSpace(string(token))}
	}
}

func (s *server) start(t *testing.T, config string, more ...string) (url string) {
	t.Helper()
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program("vmcp"), append(append(serving(config), "--listen", addr), more...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	p, err := rig.StartCmd(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("%s: serve ended with %v", s.name, err)
		}
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the proxy before %s:\n%s", s.name, tail(text, 3000))
		}
	})
	if err := p.AwaitHTTP(deadline(t), "http://"+addr+"/healthz"); err != nil {
		t.Fatal(err)
	}
	if len(more) > 0 { // who brings no token gets no more than this
		if err := rig.AwaitReady(deadline(t), addr); err != nil {
			t.Fatal(err)
		}
	} else {
		s.awaitBackends(t, addr)
	}
	return "http://" + addr + "/mcp"
}

func (s *server) awaitBackends(t *testing.T, addr string) {
	t.Helper()
	err := rig.Poll(deadline(t), "the backends of "+s.name, func() (bool, error) {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		var status struct {
			Backends []struct{ State string }
		}
		if err := decode(res.Body, &status); err != nil {
			return false, err
		}
		ready := 0
		for _, b := range status.Backends {
			if b.State == "ready" {
				ready++
			}
		}
		return ready == len(s.parts)+s.others, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
