package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// TestSleepsSpendFewRounds: sleeps in one and in many pieces end in the rounds that a client has, and leave it rounds for
// questions; a client made in Go, which takes three rounds, has its request open instead.
func TestSleepsSpendFewRounds(t *testing.T) {
	const asks = `
    elicit("go on?", schema = {"type": "object", "properties": {"answer": {"type": "string"}}})
`
	cfg := &config.Config{Runs: config.Runs{Hold: config.Duration(50 * time.Millisecond)}}
	for name, body := range map[string]string{
		"one":    "    sleep(\"1500ms\")\n",
		"pieces": "    for i in range(50):\n        sleep(\"30ms\")\n",
		"short":  "    sleep(\"1ms\")\n",
	} {
		cfg.ScriptedTools = append(cfg.ScriptedTools, config.ScriptedTool{Name: name, Description: "Sleeps.", Script: "def run(params):\n" + body + asks + "    return 1\n"})
	}
	_, url := start(t, cfg)
	for _, tt := range []struct {
		tool, agent string
		rounds      int // without questions
	}{
		{"one", "node", 7}, {"pieces", "node", 7}, {"short", "node", 0},
		{"one", "Go-http-client/1.1", 0}, {"pieces", "Go-http-client/1.1", 0},
	} {
		empty, questions, more := 0, 0, ""
		for {
			result, failure := roundOf(t, url, tt.tool, tt.agent, more)
			var in inputRequired
			if err := json.Unmarshal(result, &in); failure != nil || err != nil {
				t.Fatalf("%s of %s: %s %s", tt.tool, tt.agent, result, failure)
			}
			if in.ResultType != "input_required" {
				break
			}
			if more = in.answers(); len(in.InputRequests) > 0 {
				questions++
			} else {
				empty++
			}
		}
		if empty != tt.rounds || questions != 1 {
			t.Errorf("%s of %s: %d rounds without questions and %d with one, want %d and 1", tt.tool, tt.agent, empty, questions, tt.rounds)
		}
	}
}

// roundOf is modernCall of a client that names itself.
func roundOf(t *testing.T, url, tool, agent, more string) (result, failure json.RawMessage) {
	t.Helper()
	r := modernRequest(t.Context(), url, tool, more)
	r.Header.Set("User-Agent", agent)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.LastIndex(b, []byte("data: ")); i >= 0 {
		b = b[i+len("data: "):]
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m.Result, m.Error
}

// TestProgressOfARunThatSleeps: a client with a progress token gets progress while a script sleeps, beside what the script
// reports, and it increases.
func TestProgressOfARunThatSleeps(t *testing.T) {
	_, url := start(t, &config.Config{
		Runs: config.Runs{Hold: config.Duration(30 * time.Millisecond)},
		ScriptedTools: []config.ScriptedTool{{Name: "naps", Description: "Sleeps.", Script: `def run(params):
    for n in range(3):
        progress(n, total = 3)
        sleep("200ms")
    return 1
`}},
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		var mu sync.Mutex
		var got []mcp.ProgressNotificationParams
		s := connect(t, url, revision, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, *r.Params)
		}})
		params := &mcp.CallToolParams{Name: "naps"}
		params.SetProgressToken("p")
		r, err := s.CallTool(t.Context(), params)
		text(t, r, err)
		mu.Lock()
		defer mu.Unlock()
		reported, told := 0, 0
		for i, p := range got {
			if i > 0 && p.Progress <= got[i-1].Progress {
				t.Errorf("%s: progress %v after %v", revision, p.Progress, got[i-1].Progress)
			}
			if p.Total == 3 {
				reported++
			} else {
				told++
			}
		}
		if reported != 3 || told == 0 {
			t.Errorf("%s: the script has reported %d times, and the client was told %d times that it continues; want 3, and more than 0", revision, reported, told)
		}
	}
}

// TestAClientThatStaysAway: a run in memory whose client was told to come back ends when it does not, at the latest of
// runs.answerWithin and the deadline of its questions; a request with an idempotency key can always be repeated.
func TestAClientThatStaysAway(t *testing.T) {
	cfg := &config.Config{Runs: config.Runs{Hold: config.Duration(time.Millisecond), AnswerWithin: config.Duration(time.Second)}}
	cfg.Limits.ElicitTimeout = config.Duration(time.Minute)
	cfg.ScriptedTools = []config.ScriptedTool{
		{Name: "naps", Description: "Sleeps.", Script: "def run(params):\n    sleep(\"1h\")\n"},
		{Name: "never", Description: "Sleeps.", Durable: "never", Script: "def run(params):\n    sleep(\"1h\")\n"},
		{Name: "asks", Description: "Asks.", Script: "def run(params):\n    return elicit(\"well?\", schema = {\"type\": \"object\", \"properties\": {\"answer\": {\"type\": \"string\"}}}).content\n"},
	}
	_, url := start(t, cfg)
	states := map[string]string{}
	for _, tool := range []string{"naps", "never", "asks"} {
		result, failure := roundOf(t, url, tool, "node", "")
		if failure != nil {
			t.Fatalf("%s: %s", tool, failure)
		}
		states[tool] = asks(t, result).RequestState
	}
	keyedNap(t, url)
	shows(t, url, `vmcp_runs{state="cancelled"}`, "1")
	for _, tool := range []string{"naps", "never"} {
		result, failure := roundOf(t, url, tool, "node", `,"requestState":"`+states[tool]+`"`)
		if !strings.Contains(string(result), "did not come back within runs.answerWithin") {
			t.Errorf("%s: %s %s", tool, result, failure)
		}
	}
	for state, want := range map[string]string{"cancelled": "1", "waiting": "1", "sleeping": "1"} {
		if have := metric(t, url, fmt.Sprintf("vmcp_runs{state=%q}", state)); have != want {
			t.Errorf("%s runs in state %s, want %s", have, state, want)
		}
	}
}

// keyedNap calls naps with an idempotency key.
func keyedNap(t *testing.T, url string) {
	t.Helper()
	r := modernRequest(t.Context(), url, "naps", "")
	r.Header.Set("User-Agent", "node")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.Replace(body, []byte(`"_meta":{`), []byte(`"_meta":{"dev.vmcp/idempotencyKey":"k",`), 1)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(b, []byte("input_required")) {
		t.Fatalf("with a key: %s, %v", b, err)
	}
}
