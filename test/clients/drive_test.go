//go:build npm

package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A client is a popular MCP client.
type client struct {
	key, label, pkg string
	oneShot         bool // a process for each list and call: it makes the first call only
	modern          bool // it speaks 2026-07-28, and has no session
	bridge          bool // over HTTP only; direct is what the client behind it sees
}

var all = []client{
	{key: "inspector", label: "MCP Inspector, `--cli`", pkg: "@modelcontextprotocol/inspector", oneShot: true},
	{key: "mcporter", label: "mcporter, a one-shot CLI", pkg: "mcporter", oneShot: true},
	{key: "sdk-v1", label: "TypeScript SDK v1", pkg: "@modelcontextprotocol/sdk"},
	{key: "sdk-v2", label: "TypeScript SDK v2, any revision", pkg: "@modelcontextprotocol/client", modern: true},
	{key: "sdk-v2-legacy", label: "TypeScript SDK v2, 2025-11-25", pkg: "@modelcontextprotocol/client"},
	{key: "langchain", label: "LangChain MCP adapters", pkg: "@langchain/mcp-adapters"},
	{key: "ai-sdk", label: "AI SDK", pkg: "@ai-sdk/mcp", modern: true},
	{key: "openai-agents", label: "OpenAI Agents", pkg: "@openai/agents", modern: true},
	{key: "mcp-remote", label: "mcp-remote, before the TypeScript SDK v1", pkg: "mcp-remote", bridge: true},
}

// An answer is the result of a client's job.
type answer struct {
	ID                        string
	MS                        int
	Error                     string
	Tools, Prompts, Resources []map[string]any
	Results                   []any
}

func decode(r io.Reader, v any) error { return json.NewDecoder(r).Decode(v) }

func (s *server) made(c client) []call {
	if c.oneShot {
		return s.calls[:1]
	}
	return s.calls
}

// jobs are a client's tasks with one server: directly with each part, and through the proxy.
func (c client) jobs(t *testing.T, s *server) []job {
	http, stdio := s.through(t, c)
	http.ID, http.Calls = s.name+" http", s.made(c)
	stdio.ID, stdio.Calls = s.name+" stdio", s.made(c)
	jobs := []job{}
	if s.tokenFile != "" {
		guarded := s.guarded
		guarded.ID, guarded.Calls = s.name+" http with a token", s.made(c)
		jobs = append(jobs, guarded)
	}
	if s.tokenFile != "" && !c.bridge {
		bridged := job{Command: program("vmcp"), Args: []string{"serve", "--stdio", "--url", s.guarded.URL, "--token-file", s.tokenFile}}
		bridged.ID, bridged.Calls = s.name+" stdio to the endpoint", s.made(c)
		jobs = append(jobs, bridged)
	}
	if c.bridge {
		return append(jobs, http)
	}
	for i, p := range s.parts {
		direct := p.job
		direct.ID, direct.Calls = directly(s, i), []call{}
		for _, one := range s.made(c) {
			if own, ok := strings.CutPrefix(one.Name, p.prefix); ok && !s.own(one.Name) {
				direct.Calls = append(direct.Calls, call{Name: own, Args: one.Args})
			}
		}
		jobs = append(jobs, direct)
	}
	return append(jobs, http, stdio)
}

func directly(s *server, part int) string { return fmt.Sprint(s.name, " directly ", part) }

// own reports whether a tool is a scripted tool of the proxy.
func (s *server) own(tool string) bool {
	_, ok := s.scripted[tool]
	return ok
}

// drive runs a client over all its jobs in one process.
func (c client) drive(t *testing.T, servers []*server) map[string]answer {
	var jobs []job
	for _, s := range servers {
		jobs = append(jobs, c.jobs(t, s)...)
	}
	input, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), world.npm.Node(), filepath.Join(world.dir, "drive.mjs"), c.key)
	cmd.Dir = t.TempDir() // without a vmcp.yaml: the demo is served here
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &log
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", c.key, err, tail(log.Bytes(), 3000))
	}
	answers := map[string]answer{}
	for d := json.NewDecoder(&out); ; {
		var a answer
		if err := d.Decode(&a); err == io.EOF {
			return answers
		} else if err != nil {
			t.Errorf("%s: %v", c.key, err)
			return answers
		}
		answers[a.ID] = a
	}
}

// driveAll runs the clients concurrently, except those that share the state of a stateful
// server, which it runs one after the other.
func driveAll(t *testing.T, servers []*server) map[string]map[string]answer {
	answers := map[string]map[string]answer{}
	var mu sync.Mutex // guards answers
	var running sync.WaitGroup
	lane := func(clients <-chan client) {
		for c := range clients {
			began := time.Now()
			got := c.drive(t, servers)
			t.Logf("%s took %.1fs", c.key, time.Since(began).Seconds())
			mu.Lock()
			answers[c.key] = got
			mu.Unlock()
		}
	}
	modern, others := make(chan client, len(all)), make(chan client, len(all))
	for _, c := range all {
		if c.modern {
			modern <- c
		} else {
			others <- c
		}
	}
	close(modern)
	close(others)
	for _, clients := range []chan client{modern, others, others} {
		running.Go(func() { lane(clients) })
	}
	running.Wait()
	return answers
}

// version is the version of an installed package.
func version(t *testing.T, pkg string) string {
	t.Helper()
	text, err := os.ReadFile(world.npm.Path(pkg + "/package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p.Version
}
