package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// delay is the start time of a backend in the role "late".
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
	s := serveStdio(t, revision, more+"backends:\n"+strings.Join(backends, ""))
	go io.Copy(io.Discard, s.log)
	t.Cleanup(func() {
		s.in.Close()
		s.wait(t)
	})
	if err := s.client.Connect(); err != nil {
		t.Fatal(err)
	}
	return s.client
}

// A client that starts its server lists once, right after the start: it must get all tools.
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

// A backend that hangs delays the first list by a bounded time. The list has the tools of all others that
// are ready within that time, which the quick form does not check.
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
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
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

// The summary of a start is logged when the states of all backends are known, after five seconds
// at the latest: a backend that hangs is reported as connecting.
func TestSummaryOfTheStartDoesNotWait(t *testing.T) {
	t.Parallel()
	s := serve(t, stdioBackend(t, "hang", "hang"), stdioBackend(t, "good", "good"))
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err := rig.Poll(ctx, "the summary", func() (bool, error) {
		text, err := os.ReadFile(s.log.Name())
		waits := bytes.Index(text, []byte("vmcp: backend hang is connecting"))
		good := bytes.Index(text, []byte("vmcp: backend good: 3 tools"))
		ready := bytes.Index(text, []byte(`msg="backend is ready" backend=good`))
		if waits >= 0 && ready >= 0 && ready < waits && (good < 0 || good > waits) {
			err = errors.New("the backend that is ready was named after the one that hangs")
		}
		return good >= 0, err
	})
	if err != nil {
		t.Error(err)
	}
}
