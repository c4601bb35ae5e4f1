// Package matrix runs every feature that a proxy must carry between clients and
// backends of every revision and transport, and prints the table in docs/matrix.md.
package matrix

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var update = flag.Bool("update", false, "rewrite docs/matrix.md")

func TestMain(m *testing.M) {
	if revision := os.Getenv(asBackend); revision != "" {
		if err := newServer(revision).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	testmode.SideBySide(8)
	os.Exit(m.Run())
}

var clients = []peer{
	{"2024-11-05", "stdio"}, {"2025-03-26", "http"}, {"2025-06-18", "http"},
	{"2025-11-25", "http"}, {"2025-11-25", "stdio"}, {modern, "http"}, {modern, "stdio"},
}

var backends = []peer{
	{"2024-11-05", "sse"}, {"2024-11-05", "stdio"}, {"2025-03-26", "http"}, {"2025-06-18", "http"},
	{"2025-11-25", "http"}, {"2025-11-25", "stdio"}, {modern, "http"}, {modern, "stdio"},
}

// feature is a column of the table.
type feature struct {
	name string
	// since is the first revision that has it, on both sides.
	since string
	// check uses it once and returns an error if it does not work.
	check func(t *testing.T, c *client, p peer) error
}

var features = []feature{
	{"elicitation", "2025-06-18", asks("elicitation", func(p peer) string { return "accept " + p.String() })},
	{"sampling", "", asks("sampling", func(p peer) string { return "said by " + p.String() })},
	{"roots", "", asks("roots", rootOf)},
	{"progress", "", checkProgress},
	{"logging", "", checkLogging},
	{"cancel", "", checkCancel},
	{"list_changed", "", checkListChanged},
	{"subscriptions", "", checkSubscriptions},
	{"completion", "", checkCompletion},
	{"large results", "", checkLarge},
}

// asks checks a tool that asks the client and returns its answer.
func asks(tool string, answer func(peer) string) func(*testing.T, *client, peer) error {
	return func(t *testing.T, c *client, p peer) error {
		ctx, cancel := within(t)
		defer cancel()
		got, err := c.call(ctx, tool, nil)
		if err == nil && !strings.Contains(got, answer(p)) {
			err = fmt.Errorf("got %q, want %q in it", got, answer(p))
		}
		return err
	}
}

func checkProgress(t *testing.T, c *client, _ peer) error {
	ctx, cancel := within(t)
	defer cancel()
	p := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
	p.SetProgressToken("token of " + t.Name())
	if _, err := c.send(ctx, p); err != nil {
		return err
	}
	for want := 1.0; want <= 3; want++ {
		if got, err := next(ctx, c.progress); got != want {
			return fmt.Errorf("progress %v, %v, want %v", got, err, want)
		}
	}
	return nil
}

func checkLogging(t *testing.T, c *client, p peer) error {
	ctx, cancel := within(t)
	defer cancel()
	if _, err := c.call(ctx, "log", map[string]any{"text": "from " + p.String()}); err != nil {
		return err
	}
	got, err := next(ctx, c.logs)
	if got != "from "+p.String() {
		return fmt.Errorf("log message %q, %v", got, err)
	}
	return nil
}

func checkCancel(t *testing.T, c *client, _ peer) error {
	ctx, cancel := within(t)
	defer cancel()
	dir := t.TempDir()
	started, ended := filepath.Join(dir, "started"), filepath.Join(dir, "ended")
	held, leave := context.WithCancel(ctx)
	defer leave()
	result := make(chan error, 1)
	go func() {
		_, err := c.call(held, "hold", map[string]any{"started": started, "ended": ended})
		result <- err
	}()
	if err := awaitFile(ctx, started); err != nil {
		return err
	}
	leave()
	if err := <-result; err == nil {
		return errors.New("a cancelled call was answered")
	}
	if err := awaitFile(ctx, ended); err != nil {
		return fmt.Errorf("the backend was not notified: %w", err)
	}
	if got, err := c.call(ctx, "echo", map[string]any{"text": "after"}); got != "after" {
		return fmt.Errorf("after it, echo: %q, %w", got, err)
	}
	return nil
}

func checkListChanged(t *testing.T, c *client, p peer) error {
	ctx, cancel := within(t)
	defer cancel()
	name := strings.NewReplacer(" ", "-").Replace("new-" + p.String())
	drain(c.changed)
	changer := c // what its own session is offered, it sees
	if c.revision == modern {
		changer = c.shared
	}
	if _, err := changer.call(ctx, "change", map[string]any{"text": name}); err != nil {
		return err
	}
	for { // a notification of another client's change may come first
		if _, err := next(ctx, c.changed); err != nil {
			return err
		}
		tools, err := c.ListTools(ctx, nil)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == name }) {
			return nil
		}
	}
}

func checkSubscriptions(t *testing.T, c *client, _ peer) error {
	ctx, cancel := within(t)
	defer cancel()
	if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: resource}); err != nil {
		return err
	}
	// Subscribe of 2026-07-28 does not wait for the acknowledgement.
	toucher := c
	if c.revision == modern {
		toucher = c.shared
	}
	for {
		if _, err := toucher.call(ctx, "touch", nil); err != nil {
			return err
		}
		got, err := soon(ctx, c.updated)
		if err == nil && got != resource {
			return fmt.Errorf("update of %q, want %q", got, resource)
		}
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, c.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: resource}))
		}
	}
}

func checkCompletion(t *testing.T, c *client, _ peer) error {
	ctx, cancel := within(t)
	defer cancel()
	res, err := c.Complete(ctx, &mcp.CompleteParams{
		Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "prompt"}, Argument: mcp.CompleteParamsArgument{Name: "a"},
	})
	if err == nil && fmt.Sprint(res.Completion.Values) != "[alpha beta]" {
		err = fmt.Errorf("values %v", res.Completion.Values)
	}
	return err
}

// checkLarge gets results that fit a buffer, that are streamed, and that are large, and a small one
// after each: unread data of one response must not affect the next.
func checkLarge(t *testing.T, c *client, _ peer) error {
	sizes := []int{100, 70_000}
	if testmode.Thorough() {
		sizes = append(sizes, 10_000_000)
	}
	for _, n := range sizes {
		ctx, cancel := within(t)
		defer cancel()
		got, err := c.call(ctx, "large", map[string]any{"bytes": n})
		if err == nil && len(got) != n {
			err = fmt.Errorf("%d bytes", len(got))
		}
		if err == nil {
			got, err = c.call(ctx, "echo", map[string]any{"text": "after"})
		}
		if err != nil || got != "after" {
			return fmt.Errorf("a result of %d bytes and one after it: %w", n, err)
		}
	}
	return nil
}

// checkRestart waits until a restarted backend answers a client that stayed connected.
func checkRestart(t *testing.T, c *client) error {
	ctx, cancel := within(t)
	defer cancel()
	var last error
	err := rig.Poll(ctx, "an answer after the restart", func() (bool, error) {
		var got string
		got, last = c.call(ctx, "echo", map[string]any{"text": "again"})
		return got == "again", nil
	})
	return errors.Join(err, last)
}

func TestMatrix(t *testing.T) {
	table := make([][]string, len(backends))
	t.Run("backend", func(t *testing.T) {
		for i, b := range backends {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				table[i] = rows(t, b, clientsOf(i))
			})
		}
	})
	lines := slices.Concat(table...)
	if !t.Failed() && len(lines) == len(clients)*len(backends) { // else only a part was run
		compareDoc(t, document(lines))
	} else if !t.Failed() {
		compareLines(t, lines)
	}
}

// clientsOf are the clients that use the backend with that index: all of them, or in the quick form every
// third, another third with the next backend.
func clientsOf(backend int) (some []peer) {
	for i, p := range clients {
		if testmode.Thorough() || *update || (i+backend)%3 == 0 {
			some = append(some, p)
		}
	}
	return some
}

// rows runs clients with one backend and returns a line of the table for each.
func rows(t *testing.T, b peer, clients []peer) []string {
	cfg, restart := b.backendConfig(t)
	vmcp := newProxy(t, cfg)
	plain := connectPlain(t, vmcp)
	sessions := make([]*client, len(clients))
	for i, p := range clients {
		sessions[i] = p.connect(t, p.transportTo(t, vmcp))
		if b.transport == "stdio" && b.revision != modern {
			sessions[i].shared = plain
		}
	}
	if err := checkRestart(t, sessions[0]); err != nil { // it has to start, once
		t.Fatal(err)
	}
	lines := make([]string, len(clients))
	for i, p := range clients {
		lines[i] = fmt.Sprintf("| %v | %v |", p, b)
		for _, f := range features {
			lines[i] += cell(t, f, sessions[i], p, b)
		}
	}
	restart(t, plain)
	for i, p := range clients {
		if sessions[i].shared == plain { // it has a separate process
			_, _ = sessions[i].call(t.Context(), "die", nil)
		}
		lines[i] += mark(t, fmt.Sprintf("client %v, restart", p), checkRestart(t, sessions[i]))
	}
	return lines
}

// cell runs one feature once.
func cell(t *testing.T, f feature, c *client, p, b peer) string {
	if min(p.revision, b.revision) < f.since {
		return " – |"
	}
	return mark(t, fmt.Sprintf("client %v, %s", p, f.name), f.check(t, c, p))
}

// The peers must work without a proxy between them, or the table has no meaning.
func TestPeersWithoutProxy(t *testing.T) {
	for _, p := range backends {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			cfg, _ := p.backendConfig(t)
			c := p.connect(t, directTransport(cfg))
			for _, f := range features {
				if p.revision >= f.since {
					mark(t, fmt.Sprintf("%v, %s", p, f.name), f.check(t, c, p))
				}
			}
		})
	}
}

func directTransport(b config.Backend) mcp.Transport {
	switch {
	case b.Command != "":
		cmd := exec.Command(b.Command)
		cmd.Env = append(os.Environ(), asBackend+"="+b.Env[asBackend])
		return &mcp.CommandTransport{Command: cmd}
	case b.Transport == "sse":
		return &mcp.SSEClientTransport{Endpoint: b.URL}
	}
	return &mcp.StreamableClientTransport{Endpoint: b.URL}
}

func mark(t *testing.T, what string, err error) string {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return " no |"
	}
	return " yes |"
}

func newProxy(t *testing.T, backends ...config.Backend) *proxy.Proxy {
	t.Helper()
	return newProxyOf(t, &config.Config{Name: "matrix", Backends: backends})
}

func newProxyOf(t *testing.T, cfg *config.Config) *proxy.Proxy {
	t.Helper()
	p := proxy.New(proxy.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	return p
}

const intro = `# What passes through the proxy

Every line is a client of one revision in front of a backend of one revision, both
written with the official Go SDK, with the proxy between them. A cell says that the
feature was seen to work; "–" stands where one of the two revisions has no such feature.

One thing differs by nature. A backend of an older revision over stdio cannot tell its
clients apart, so a client that can be asked has a process of its own. The lists and the
updates of resources for stateless clients are those of the process that all share: the
test makes that one change through a client that cannot be asked.

Clients over HTTP get the same from backends over HTTP through three replicas behind a load balancer that knows nothing of
MCP ([Scaling](scaling.md)): TestMatrixThroughReplicas holds them to these lines.

The table is written by the test that checks it:

    go test ./test/matrix -update

`

func document(lines []string) string {
	var names []string
	for _, f := range features {
		names = append(names, f.name)
	}
	head := "| client | backend | " + strings.Join(names, " | ") + " | restart |\n"
	return intro + head + "|---|---|" + strings.Repeat("---|", len(features)+1) + "\n" + strings.Join(lines, "\n") + "\n"
}

// compareLines compares some lines of the table with docs/matrix.md.
func compareLines(t *testing.T, lines []string) {
	t.Helper()
	page, err := os.ReadFile(matrixPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("%s does not have the line %s", matrixPage, line)
		}
	}
}

const matrixPage = "../../docs/matrix.md"

func compareDoc(t *testing.T, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(matrixPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(matrixPage); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): go test ./test/matrix -update", matrixPage, err)
	}
}
