package proxy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/audit"
)

// limit applies quotas to the proxy.
func (d *audited) limit(r config.RateLimiting) {
	d.t.Helper()
	cfg := d.cfg
	cfg.RateLimiting = r
	d.apply(cfg)
}

// perDay is a bucket that does not refill during a test.
func perDay(calls int) config.Bucket {
	return config.Bucket{MaxTokens: calls, RefillPeriod: config.Duration(24 * time.Hour)}
}

// callsOf makes n calls and returns how many were not refused for a quota.
func (d *audited) callsOf(who string, n int, name string) (ok int) {
	d.t.Helper()
	c := d.client(who)
	for range n {
		if _, err := c.Call(d.t.Context(), "tools/call", `{"name":"`+name+`"}`); err == nil {
			ok++
		} else if !strings.Contains(err.Error(), "429") {
			d.t.Errorf("call of %s: %v", name, err)
		}
	}
	return ok
}

// A call above a quota is refused in the form of each revision, and no backend gets it.
func TestQuotaRefusals(t *testing.T) {
	const params = `"name":"plain","arguments":{"password":"hunter2"}`
	for _, tt := range []struct {
		revision string
		body     func(session string) (body string, headers []string)
		status   int
	}{
		{"2025-06-18", func(s string) (string, []string) {
			return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `}}`, []string{"Mcp-Session-Id", s}
		}, 429},
		{"2025-03-26", func(s string) (string, []string) {
			return `[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `}}]`, []string{"Mcp-Session-Id", s}
		}, 200},
		{"2026-07-28", func(string) (string, []string) {
			return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
				[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "plain"}
		}, 429},
	} {
		t.Run(tt.revision, func(t *testing.T) {
			d := startAudited(t, config.Audit{})
			d.limit(config.RateLimiting{PerUser: perDay(1)})
			c := d.client("alice")
			if tt.revision == "2025-03-26" {
				c.Revision = tt.revision
				if err := c.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			d.callsOf("alice", 1, "plain")
			body, headers := tt.body(c.Session())
			resp, text := ask(t, "POST", d.url+"/mcp", d.token["alice"], body, headers...)
			var m struct {
				ID    int
				Error struct {
					Code    int
					Message string
					Data    struct{ RetryAfterSeconds int }
				}
			}
			if err := json.Unmarshal([]byte(strings.Trim(text, "[]")), &m); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			wait := m.Error.Data.RetryAfterSeconds
			if resp.StatusCode != tt.status || m.ID != 7 || m.Error.Code != 429 || wait < 1 || wait > 24*60*60 || !strings.Contains(m.Error.Message, "rateLimiting.perUser") {
				t.Errorf("%s %s", resp.Status, text)
			}
			if got := resp.Header.Get("Retry-After"); tt.status == 429 && got != fmt.Sprint(wait) {
				t.Errorf("Retry-After: %s, and %d in %s", got, wait, text)
			}
			if n := d.calls.Load(); n != 1 {
				t.Errorf("the backend was called %d times", n)
			}
			line := auditLines(t, d.out.String(), audit.ToolCall)[1]
			if x := line.Metadata.Extra; line.Outcome != audit.Denied || x.Decision != "quota" || x.Policy != "rateLimiting.perUser" || x.Code != 429 || line.Target["backend"] != "b" || line.Subjects["user_id"] != "alice" {
				t.Errorf("line %+v", line)
			}
			if strings.Count(d.out.String(), `"outcome":"started"`) != 1 {
				t.Error("a refused call has a line that says that it was started")
			}
		})
	}
}

// Only calls of tools by clients count, each once, for every principal.
func TestWhatAQuotaCounts(t *testing.T) {
	d := startAudited(t, config.Audit{}, config.ScriptedTool{Name: "three", Description: "d", Script: "def run(params):\n    for i in range(3):\n        call_tool(\"plain\")\n    return {}\n"})
	d.limit(config.RateLimiting{PerUser: perDay(4)})
	c := d.client("alice")
	for _, request := range [][2]string{
		{"tools/list", "{}"}, {"prompts/get", `{"name":"greet"}`}, {"resources/read", `{"uri":"test://one"}`}, {"ping", "{}"}, {"prompts/list", "{}"},
	} {
		for range 5 {
			if _, err := c.Call(t.Context(), request[0], request[1]); err != nil {
				t.Fatalf("%s: %v", request[0], err)
			}
		}
	}
	if n := d.callsOf("alice", 3, "three"); n != 3 {
		t.Errorf("%d of 3 runs of a script with three calls each", n)
	}
	if n := d.callsOf("alice", 2, "plain"); n != 1 {
		t.Errorf("%d calls after 3 of 4", n)
	}
	if n := d.callsOf("bob", 5, "plain"); n != 4 {
		t.Errorf("%d calls of somebody else, want 4", n)
	}
}

// A call that is suspended and resumed counts once; a forged state is not accepted.
func TestQuotaOfARunThatWaits(t *testing.T) {
	_, url := startLimitedAsking(t, config.RateLimiting{Shared: perDay(1)})
	result, _ := modernCall(t, url, "asking", "")
	for range 3 {
		if result == nil {
			t.Fatal("a run that waited is refused")
		}
		result, _ = modernCall(t, url, "asking", asks(t, result).answers())
	}
	if !strings.Contains(string(result), "to right") {
		t.Errorf("the run ended with %s", result)
	}
	for _, more := range []string{"", `,"requestState":"made-up"`} {
		if _, failure := modernCall(t, url, "asking", more); !strings.Contains(string(failure), "429") {
			t.Errorf("another call%s: %s", more, failure)
		}
	}
	if _, page := ask(t, "GET", strings.TrimSuffix(url, "/mcp")+"/metrics", "", ""); !strings.Contains(page, `vmcp_quota_refused_total{limit="rateLimiting.shared",tool=""} 2`) ||
		!strings.Contains(page, `vmcp_calls_total{by="client",method="tools/call",outcome="limit"} 2`) {
		t.Errorf("the metrics do not say it:\n%s", page)
	}
}

func startLimitedAsking(t *testing.T, r config.RateLimiting) (*chargeServer, string) {
	t.Helper()
	bank := &chargeServer{charged: map[string]int{}}
	_, url := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "bank", URL: sdkBackend(t, bank.server(), false)}},
		ScriptedTools: []config.ScriptedTool{{Name: "asking", Description: "asks four times", Script: askingScript}},
		RateLimiting:  r,
	})
	return bank, url
}

// A limit names a tool by its exposed name, or by its origin, also if it is exposed by another name.
func TestQuotaOfATool(t *testing.T) {
	d := startAudited(t, config.Audit{}, config.ScriptedTool{Name: "leaf", Description: "d", Script: "def run(params):\n    return {}\n"})
	d.cfg.Aggregation.Tools = []config.WorkloadTools{{Workload: "b", Overrides: map[string]config.ToolOverride{"plain": {Name: "renamed"}}}}
	d.limit(config.RateLimiting{Tools: []config.ToolRate{
		{Name: "b.pl*", Shared: perDay(2)}, {Name: "fails", PerUser: perDay(1)}, {Name: "scripts.*", PerUser: perDay(3)},
	}})
	var got []int
	for _, name := range []string{"renamed", "fails", "leaf", "slow"} {
		got = append(got, d.callsOf("alice", 5, name))
	}
	got = append(got, d.callsOf("bob", 5, "renamed"), d.callsOf("bob", 5, "fails"))
	if want := []int{2, 1, 3, 5, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("calls that were made: %v, want %v", got, want)
	}
}

// A configuration that does not change a limit does not refill its bucket.
func TestReloadKeepsQuotas(t *testing.T) {
	d := startAudited(t, config.Audit{})
	limits := config.RateLimiting{Shared: perDay(50), PerUser: perDay(2)}
	d.limit(limits)
	d.callsOf("alice", 2, "plain")
	limits.Shared = perDay(60)
	d.cfg.Name = "changed"
	d.limit(limits)
	if n := d.callsOf("alice", 2, "plain"); n != 0 {
		t.Errorf("%d calls after a change of something else", n)
	}
	d.limit(config.RateLimiting{PerUser: perDay(3)})
	if n := d.callsOf("alice", 5, "plain"); n != 3 {
		t.Errorf("%d calls after the limit became 3", n)
	}
	d.limit(config.RateLimiting{})
	if n := d.callsOf("alice", 5, "plain"); n != 5 {
		t.Errorf("%d of 5 calls without limits", n)
	}
}
