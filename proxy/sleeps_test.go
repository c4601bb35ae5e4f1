package proxy_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

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
