package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

var binary string

func TestMain(m *testing.M) { os.Exit(rig.WithBinary(&binary, m.Run)) }

const configuration = `
scriptedTools:
  - name: add
    description: Adds two numbers.
    parameters: {type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}}
    script: |
      def run(params):
          return {"sum": params["a"] + params["b"]}
  - name: greet
    description: Greets somebody whose name it asks for.
    script: |
      def run(params):
          r = elicit("Who is it?", schema = {"type": "object", "required": ["age", "who"], "properties": {"who": {"type": "string"}, "age": {"type": "integer"}}})
          return "hello %s (%d)" % (r.content["who"], r.content["age"]) if r.action == "accept" else r.action
  - name: broken
    description: Fails.
    script: |
      def run(params):
          fail("the disk is full")
  - name: large
    description: Says much.
    script: |
      def run(params):
          return "ü" * 100000
`

// serve starts the program with a few tools.
func serve(t *testing.T) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, addr, err := rig.Serve(t.Context(), &log, binary, file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + addr + "/mcp"
}

// fake is a model that asks for the calls of a list, one after the other, and then answers with the result of the last.
type fake struct {
	*testing.T
	style string

	mu    sync.Mutex
	calls []fakeCall // guarded by mu, like all below
	told  []string   // results
	tools []string   // of the last request
	fails int        // how often it is too busy at first
	asked int
}

type fakeCall struct{ name, arguments string }

func (f *fake) start() (base string) {
	s := httptest.NewServer(f)
	f.Cleanup(s.Close)
	return s.URL + "/v1"
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.fails > 0 {
		f.fails--
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.Error(err)
	}
	var answer any
	switch f.style + " " + r.URL.Path {
	case "openai /v1/chat/completions":
		if got := r.Header.Get("Authorization"); got != "Bearer k3y" {
			f.Errorf("Authorization: %q", got)
		}
		answer = f.openAI(body)
	case "anthropic /v1/messages":
		if r.Header.Get("X-Api-Key") != "k3y" || r.Header.Get("Anthropic-Version") == "" {
			f.Errorf("headers: %v", r.Header)
		}
		answer = f.anthropic(body)
	default:
		http.Error(w, `{"error": {"message": "no such path"}}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the agent notices
}

func (f *fake) openAI(body []byte) any {
	var request struct {
		Model    string
		Messages []struct {
			Role, Content string
			ToolCalls     []json.RawMessage `json:"tool_calls"`
			ToolCallID    string            `json:"tool_call_id"`
		}
		Tools []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        struct{ Type string }
			}
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		f.Errorf("%v: %s", err, body)
	}
	f.tools = nil
	for _, t := range request.Tools {
		if t.Type != "function" || t.Function.Parameters.Type != "object" {
			f.Errorf("tool: %+v", t)
		}
		f.tools = append(f.tools, t.Function.Name)
	}
	if last := request.Messages[len(request.Messages)-1]; last.Role == "tool" {
		if last.ToolCallID != fmt.Sprint("c", len(f.told)) {
			f.Errorf("the result is that of %q", last.ToolCallID)
		}
		f.told = append(f.told, last.Content)
	}
	message := map[string]any{"role": "assistant", "content": "it is: " + strings.Join(f.told, "; ")}
	if len(f.calls) > 0 {
		c := f.calls[0]
		f.calls = f.calls[1:]
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
			map[string]any{"id": fmt.Sprint("c", len(f.told)), "type": "function", "function": map[string]any{"name": c.name, "arguments": c.arguments}},
		}}
	}
	return map[string]any{"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}}}
}

func (f *fake) anthropic(body []byte) any {
	var request struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Messages  []struct {
			Role    string
			Content []struct {
				Type, Text, ID, Name string
				Input                json.RawMessage
				ToolUseID            string `json:"tool_use_id"`
				Content              string
				IsError              bool `json:"is_error"`
			}
		}
		Tools []struct {
			Name, Description string
			InputSchema       struct{ Type string } `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(body, &request); err != nil || request.MaxTokens < 1 {
		f.Errorf("%v: %s", err, body)
	}
	f.tools = nil
	for _, t := range request.Tools {
		if t.InputSchema.Type != "object" {
			f.Errorf("tool: %+v", t)
		}
		f.tools = append(f.tools, t.Name)
	}
	for i, m := range request.Messages { // the API wants them to alternate
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			f.Errorf("message %d is of %s: %s", i, m.Role, body)
		}
	}
	for _, b := range request.Messages[len(request.Messages)-1].Content {
		if b.Type == "tool_result" {
			if b.IsError != (strings.Contains(b.Content, "disk") || strings.Contains(b.Content, "no tool")) {
				f.Errorf("%+v", b)
			}
			f.told = append(f.told, b.Content)
		}
	}
	content := []any{map[string]any{"type": "text", "text": "it is: " + strings.Join(f.told, "; ")}}
	if len(f.calls) > 0 {
		c := f.calls[0]
		f.calls = f.calls[1:]
		content = []any{map[string]any{"type": "tool_use", "id": fmt.Sprint("c", len(f.told)), "name": c.name, "input": json.RawMessage(c.arguments)}}
	}
	return map[string]any{"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
}

// start runs the agent as a command.
func start(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("AGENT_API_KEY", "k3y")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, strings.NewReader(in), &stdout, &stderr)
	if strings.Contains(stderr.String(), "k3y") {
		t.Errorf("the key is printed: %s", &stderr)
	}
	return code, stdout.String(), stderr.String()
}

func TestAgent(t *testing.T) {
	url := serve(t)
	for _, style := range []string{"openai", "anthropic"} {
		with := func(base string, more ...string) []string {
			return append([]string{"--mcp", url, "--api", base, "--style", style, "--model", "m1"}, more...)
		}
		t.Run(style+"/an answer after calls", func(t *testing.T) {
			f := &fake{T: t, style: style, fails: 1, calls: []fakeCall{{"add", `{"a": 2, "b": 40}`}, {"broken", `{}`}}}
			code, out, errs := start(t, "", with(f.start(), "how", "much?")...)
			if code != 0 || !strings.HasPrefix(out, `it is: {"sum":42}; `) || !strings.Contains(out, "the disk is full") {
				t.Errorf("exit %d, %q\n%s", code, out, errs)
			}
			if strings.Join(f.tools, " ") != "add greet broken large" {
				t.Errorf("tools: %v", f.tools)
			}
			if lines := strings.Split(errs, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], `add {"a": 2, "b": 40}: ok, `) && !strings.HasPrefix(lines[0], `add {"a":2,"b":40}: ok, `) || !strings.HasPrefix(lines[1], "broken {}: failed: ") {
				t.Errorf("a line for each call:\n%s", errs)
			}
		})
		t.Run(style+"/questions are asked on the terminal", func(t *testing.T) {
			f := &fake{T: t, style: style, calls: []fakeCall{{"greet", `{}`}}}
			code, out, errs := start(t, "young\n7\nAda\ny\n", with(f.start(), "greet her")...)
			if code != 0 || out != "it is: \"hello Ada (7)\"\n" || !strings.Contains(errs, "Who is it?") || !strings.Contains(errs, "want a whole number") {
				t.Errorf("exit %d, %q\n%s", code, out, errs)
			}
			f.calls, f.told = []fakeCall{{"greet", `{}`}}, nil
			if _, out, errs := start(t, "", with(f.start(), "greet her")...); out != "it is: \"cancel\"\n" {
				t.Errorf("without anybody there: %q\n%s", out, errs)
			}
		})
		t.Run(style+"/the rounds run out", func(t *testing.T) {
			f := &fake{T: t, style: style, calls: make([]fakeCall, 100)}
			for i := range f.calls {
				f.calls[i] = fakeCall{"add", `{"a": 1, "b": 1}`}
			}
			code, out, errs := start(t, "", with(f.start(), "--rounds", "3", "go on")...)
			if code != 1 || out != "" || f.asked != 3 || !strings.Contains(errs, "no answer after 3 rounds") {
				t.Errorf("exit %d after %d, %q\n%s", code, f.asked, out, errs)
			}
		})
		t.Run(style+"/a conversation", func(t *testing.T) {
			f := &fake{T: t, style: style, calls: []fakeCall{{"large", `{}`}, {"no_such", `{}`}}}
			code, out, errs := start(t, "one\n\ntwo\n", with(f.start())...)
			if code != 0 || strings.Count(out, "it is: ") != 2 || !strings.Contains(out, "of 200002 bytes are here]") || !strings.Contains(out, `there is no tool "no_such"`) {
				t.Errorf("exit %d, %d bytes\n%s", code, len(out), errs)
			}
		})
	}
}

func TestArgumentsThatAreNone(t *testing.T) {
	f := &fake{T: t, style: "openai", calls: []fakeCall{{"add", `{"a": `}, {"add", `[1]`}}}
	code, out, errs := start(t, "", "--mcp", serve(t), "--api", f.start(), "--model", "m", "q")
	if code != 0 || strings.Count(out, "the arguments are not a JSON object") != 2 {
		t.Errorf("exit %d, %q\n%s", code, out, errs)
	}
}

func TestWhatGoesWrong(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error": {"message": "wrong key\u001b[31m"}}`)
	}))
	defer api.Close()
	url := serve(t)
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--api: want an http or https URL", []string{"--model", "m", "q"}},
		{2, "--model: want", []string{"--api", api.URL, "q"}},
		{2, "--style: want openai or anthropic", []string{"--api", api.URL, "--model", "m", "--style", "x", "q"}},
		{2, "--rounds: want at least 1", []string{"--api", api.URL, "--model", "m", "--rounds", "0", "q"}},
		{2, "flag provided but not defined", []string{"--x"}},
		{1, "connection refused", []string{"--mcp", "http://127.0.0.1:1/mcp", "--api", api.URL, "--model", "m", "q"}},
		{1, "401 Unauthorized: wrong key [31m", []string{"--mcp", url, "--api", api.URL, "--model", "m", "q"}},
		{0, "Usage of agent", []string{"--help"}},
	} {
		code, out, errs := start(t, "", tt.args...)
		if code != tt.code || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("agent %v: exit %d, %q, %s; want %d, %q", tt.args, code, out, errs, tt.code, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"a.b/c d": "a_b_c_d", strings.Repeat("x", 100): strings.Repeat("x", 64), "grüße": "gr__e"} {
		if got := plain(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}
