package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// delay is how long a backend in the role "late" takes to begin.
const delay = "VMCP_FAULT_DELAY"

func init() {
	roles["late"] = func() error {
		d, err := time.ParseDuration(os.Getenv(delay))
		if err != nil {
			return err
		}
		time.Sleep(d)
		return roles["good"]()
	}
}

func lateBackend(t *testing.T, name string, after time.Duration) string {
	return strings.Replace(stdioBackend(t, name, "late"), "env: {", fmt.Sprintf("env: {%s: %s, ", delay, after), 1)
}

// stdio starts `vmcp serve --stdio` over the backends and initializes at once.
func stdio(t *testing.T, revision string, more string, backends ...string) *raw.StdioClient {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte(more+"backends:\n"+strings.Join(backends, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(vmcp, "serve", "--stdio", "--config", file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("vmcp serve --stdio: %v", err)
		}
	})
	c := raw.NewStdioClient(revision, out, in)
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A client that starts its server lists once, at once: it must get everything.
func TestFirstListOverStdioIsWhole(t *testing.T) {
	t.Parallel()
	unit := 50 * time.Millisecond
	if testmode.Thorough() {
		unit = 500 * time.Millisecond
	}
	script := "operational: {startup: {wait: 1m}}\nscriptedTools:\n  - name: own\n    description: d\n    script: |\n      def run(params):\n          return call_tool(\"b4_echo\", {\"text\": \"here\"})\n"
	var backends []string
	for i := range 4 {
		backends = append(backends, lateBackend(t, fmt.Sprint("b", i+1), time.Duration(i+1)*unit))
	}
	for _, revision := range []string{"2025-11-25", raw.Modern} {
		t.Run(revision, func(t *testing.T) {
			t.Run("list", func(t *testing.T) {
				t.Parallel()
				if n := countTools(t, stdio(t, revision, script, backends...)); n != 13 {
					t.Errorf("the first list has %d tools, want 13", n)
				}
			})
			t.Run("call", func(t *testing.T) {
				t.Parallel()
				c := stdio(t, revision, script, backends...)
				for _, name := range []string{"b4_echo", "own"} {
					got, err := c.Call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":"here"}}`, name))
					if err != nil || !strings.Contains(string(got), "here") {
						t.Errorf("%s: %s, %v", name, got, err)
					}
				}
			})
		})
	}
}

// A backend that hangs costs the first list a bounded time. It costs others no tools, if they
// are ready within it, which the quick form cannot promise.
func TestFirstListBesideAHangingBackend(t *testing.T) {
	t.Parallel()
	wait := "operational: {startup: {wait: 300ms}}\n"
	if testmode.Thorough() {
		wait = "operational: {startup: {wait: 20s}}\n"
	}
	c := stdio(t, "2025-11-25", wait, stdioBackend(t, "hang", "hang"), stdioBackend(t, "good", "good"))
	if n := countTools(t, c); n != 3 && testmode.Thorough() {
		t.Errorf("the first list has %d tools, want 3", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := rig.Poll(ctx, "all tools", func() (bool, error) { return countTools(t, c) == 3, nil }); err != nil {
		t.Error(err)
	}
}

func countTools(t *testing.T, c *raw.StdioClient) int {
	t.Helper()
	got, err := c.Call("tools/list", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(got, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Tools)
}

// The summary of a start says what is known when it is known: nobody waits for a backend
// that hangs, which is reported as connecting after five seconds.
func TestSummaryOfTheStartDoesNotWait(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "hang", "hang"), stdioBackend(t, "good", "good"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := rig.Poll(ctx, "the summary", func() (bool, error) {
		text, err := os.ReadFile(s.log.Name())
		waits := bytes.Index(text, []byte("vmcp: backend hang is connecting"))
		good := bytes.Index(text, []byte("vmcp: backend good: 3 tools"))
		if waits >= 0 && (good < 0 || good > waits) {
			err = errors.New("the backend that is ready was named after the one that hangs")
		}
		return good >= 0, err
	})
	if err != nil {
		t.Error(err)
	}
}
