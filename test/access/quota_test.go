package access

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// rewrite replaces a file.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// logs waits until the log of vmcp has a text.
func (s *served) logs(text string) {
	s.t.Helper()
	s.awaitText(s.log, text, 1)
}

// awaitText waits until a file has a text n times.
func (s *served) awaitText(file, text string, n int) {
	s.t.Helper()
	ctx, cancel := contextOf(s.t)
	defer cancel()
	err := rig.Poll(ctx, fmt.Sprintf("%q in %s", text, filepath.Base(file)), func() (bool, error) {
		got, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return strings.Count(string(got), text) >= n, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// flood makes calls of a tool with 16 concurrent clients, and counts those that succeeded
// and those that were refused by a quota.
func (s *served) flood(token, tool string, calls int) (ok, over int) {
	s.t.Helper()
	var answered, refused atomic.Int32
	var all sync.WaitGroup
	for n := range 16 {
		c := s.client(token, []string{"2025-06-18", "2025-11-25", raw.Modern}[n%3])
		all.Go(func() {
			for range calls / 16 {
				_, err := c.Call(s.t.Context(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool))
				var rpc *raw.Error
				switch {
				case err == nil:
					answered.Add(1)
				case errors.As(err, &rpc) && rpc.Code == 429 && strings.Contains(string(rpc.Data), `"retryAfterSeconds":`):
					refused.Add(1)
				default:
					s.t.Errorf("call of %s: %v", tool, err)
				}
			}
		})
	}
	all.Wait()
	return int(answered.Load()), int(refused.Load())
}

// Of 48 calls from 16 clients of one principal as many succeed as the limit allows, and no other principal is
// affected; lists are not counted.
func TestQuota(t *testing.T) {
	t.Parallel()
	_, config, token := tokenFile(t, "alice", "bob")
	s := serve(t, config+"rateLimiting: {perUser: {maxTokens: 10, refillPeriod: 24h}, tools: [{name: scripts.*, shared: {maxTokens: 2, refillPeriod: 24h}}]}\n")
	list := s.client(token["alice"], raw.Modern)
	for range 20 {
		if _, err := list.Call(t.Context(), "tools/list", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if ok, over := s.flood(token["alice"], "t", 48); ok != 10 || over != 38 || s.seen.Load() != 10 {
		t.Errorf("of 48 calls %d were made and %d refused, the backend has seen %d; want 10 and 38", ok, over, s.seen.Load())
	}
	if _, err := list.Call(t.Context(), "tools/list", "{}"); err != nil {
		t.Errorf("a list after that: %v", err)
	}
	if ok, over := s.flood(token["bob"], "twice", 16); ok != 2 || over != 14 || s.seen.Load() != 14 {
		t.Errorf("of 16 calls of a script %d were made and %d refused, the backend has seen %d calls", ok, over, s.seen.Load())
	}
	if ok, over := s.flood(token["bob"], "t", 16); ok != 8 || over != 8 {
		t.Errorf("of 16 calls of another principal, after two, %d were made and %d refused", ok, over)
	}
	resp, body := s.call(token["alice"], "t")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
}

// The sessions of a principal are bounded; the next one is refused with Retry-After, and those of others are not.
func TestSessionsOfAPrincipal(t *testing.T) {
	t.Parallel()
	_, config, token := tokenFile(t, "alice", "bob")
	s := serve(t, config+"clientSessions: {perPrincipal: 3}\n")
	var open []*raw.Client
	for range 3 {
		open = append(open, s.client(token["alice"], "2025-11-25"))
	}
	resp, body := s.ask("2025-11-25", "", "Bearer "+token["alice"])
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("one more session: %s %v %s", resp.Status, resp.Header, body)
	}
	for _, c := range append(open, s.client(token["bob"], "2025-11-25")) {
		if _, err := c.Call(t.Context(), "ping", "{}"); err != nil {
			t.Errorf("a session that there is: %v", err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + token["alice"]}, "Mcp-Session-Id": {open[0].Session()}}
	if resp, err := s.http.Do(r); err != nil {
		t.Fatal(err)
	} else if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE: %s", resp.Status)
	}
	if resp, body := s.ask("2025-11-25", "", "Bearer "+token["alice"]); resp.StatusCode != http.StatusOK {
		t.Errorf("a session in the place of one that ended: %s %s", resp.Status, body)
	}
}

// line has the fields of a line of the audit.
type line struct {
	ID       string `json:"audit_id"`
	Type     string
	Outcome  string
	Subjects struct {
		User string `json:"user_id"`
	}
	Metadata struct {
		Extra struct{ Decision, Parent string }
	}
}

// lines are the complete lines of a file.
func lines(t *testing.T, file string) (all []line) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for text := bufio.NewScanner(f); text.Scan(); {
		var l line
		if err := json.Unmarshal(text.Bytes(), &l); err != nil {
			t.Fatalf("%v: %s", err, text.Bytes())
		}
		all = append(all, l)
	}
	return all
}

// Each call is one line, with any outcome; that of a script is one line and one for each call in it.
func TestAuditCounts(t *testing.T) {
	t.Parallel()
	_, config, token := tokenFile(t, "alice", "bob")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := serve(t, config+fmt.Sprintf("audit: {enabled: true, logFile: %q}\nrateLimiting: {perUser: {maxTokens: 11, refillPeriod: 24h}}\n", file))
	c := s.client(token["alice"], "2025-11-25")
	for range 10 {
		if _, err := c.Call(t.Context(), "tools/call", `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Call(t.Context(), "tools/call", `{"name":"twice"}`); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Call(t.Context(), "tools/call", `{"name":"t"}`); err == nil {
			t.Error("a call beyond the quota was made")
		}
	}
	s.ask(raw.Modern, "", "Bearer vmcp_this-is-nobodys-token")
	s.awaitText(file, `"http_request"`, 1)
	s.awaitText(file, `"quota"`, 3)
	count := map[string]int{}
	script := ""
	for _, l := range lines(t, file) {
		count[strings.TrimSpace(l.Type+" "+l.Outcome+" "+l.Metadata.Extra.Decision)]++
		if l.Type == "mcp_tool_call" && l.Outcome == "success" {
			script = l.ID // the last one
		}
	}
	for what, want := range map[string]int{
		"mcp_tool_call success": 11, "mcp_tool_call denied quota": 3, "vmcp_workflow_step_completed success": 2, "http_request denied": 1,
	} {
		if count[what] != want {
			t.Errorf("%d lines of %s, want %d: %v", count[what], what, want, count)
		}
	}
	for _, l := range lines(t, file) {
		if l.Type == "vmcp_workflow_step_completed" && (l.Metadata.Extra.Parent != script || l.Subjects.User != "alice") {
			t.Errorf("step %+v, want %s as its parent", l, script)
		}
	}
	text, _ := os.ReadFile(file)
	for _, secret := range []string{token["alice"], token["bob"], "nobodys-token", "Bearer"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the audit has %q", secret)
		}
	}
}
