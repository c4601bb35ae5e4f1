package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/script"
)

// Fake has the tools and the answers of the user of a case.
type Fake struct {
	Tools        map[string]*Tool `json:"tools"`
	Elicitations []Answer         `json:"elicitations"`
}

// Tool is a tool that answers as recorded.
type Tool struct {
	Backend     string          `json:"backend"`
	Original    string          `json:"original"`
	Hidden      bool            `json:"hidden"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// Results are the replies by number of call, the last one for all further calls.
	Results []Reply `json:"results"`
	// Match are the replies by arguments.
	Match []struct {
		Args   map[string]any `json:"args"`
		Result Reply          `json:"result"`
	} `json:"match"`
	Reply
}

// Reply is the reply of a tool.
type Reply struct {
	Structured json.RawMessage `json:"structured"`
	Text       string          `json:"text"`
	Content    json.RawMessage `json:"content"`
	IsError    bool            `json:"isError"`
	Error      string          `json:"error"`
	Echo       bool            `json:"echo"`
	DelayMs    int             `json:"delayMs"`
}

// Answer is the answer of the user to a question.
type Answer struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
	Error   string          `json:"error"`
	Timeout bool            `json:"timeout"`
	DelayMs int             `json:"delayMs"`
}

// host implements the Host of a script with the recorded replies and answers, and records a trace.
type host struct {
	fake Fake

	mu    sync.Mutex
	trace []Call         // guarded by mu
	calls map[string]int // guarded by mu
	asked int            // guarded by mu
}

// resolve finds a tool: by its name, or as backend.tool.
func (h *host) resolve(name string) (key string, t *Tool) {
	if t := h.fake.Tools[name]; t != nil {
		return name, t
	}
	backend, original, _ := strings.Cut(name, ".")
	for key, t := range h.fake.Tools {
		if t.Backend == backend && t.original(key) == original {
			return key, t
		}
	}
	return "", nil
}

func (t *Tool) original(key string) string {
	if t.Original != "" {
		return t.Original
	}
	if _, name, ok := strings.Cut(key, "."); ok {
		return name
	}
	return key
}

func (t *Tool) target(key string) string {
	backend := t.Backend
	if backend == "" {
		backend, _, _ = strings.Cut(key, ".")
	}
	return backend + "/" + t.original(key)
}

// InputSchema implements legacy.Schemas.
func (h *host) InputSchema(name string) (json.RawMessage, bool) {
	t := h.fake.Tools[name]
	if t == nil {
		_, t = h.resolve(name)
	}
	if t == nil || t.Hidden || len(t.InputSchema) == 0 {
		return nil, false
	}
	return t.InputSchema, true
}

// inputOf is the compiled input schema of a tool; nil: it has none.
func (h *host) inputOf(name string) *schema.Schema {
	_, t := h.resolve(name)
	if t == nil || len(t.InputSchema) == 0 {
		return nil
	}
	s, err := schema.CompileForeign(t.InputSchema)
	if err != nil {
		return nil
	}
	return s
}

// adapt implements script.RunOptions.Adapt as a server does.
func (h *host) adapt(_ context.Context, e script.Effect) (json.RawMessage, string) {
	return builtins.Convert(h.inputOf(e.Name), e.Args)
}

// CallTool implements builtins.Host with the recorded reply.
func (h *host) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	key, t := h.resolve(name)
	if t == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: "no tool " + name}
	}
	if s := h.inputOf(name); s != nil && !o.Unchecked {
		if err := s.Validate(args); err != nil {
			return nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: fmt.Sprintf("the arguments do not fit the input schema of %s: %v", name, err)}
		}
	}
	r := t.reply(h.count(key), args)
	c := Call{Kind: "tool", Tool: name, Target: t.target(key), Args: args, Result: "ok"}
	raw, err := r.give(ctx, t.original(key), args)
	switch {
	case ctx.Err() != nil:
		c.Result, err = "ctx: "+ctx.Err().Error(), ctx.Err()
	case err != nil:
		c.Result = "error: " + err.Error()
	case r.IsError:
		c.Result = "isError"
	}
	h.note(c)
	return raw, err
}

// count returns how often a tool was called before.
func (h *host) count(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[string]int{}
	}
	h.calls[key]++
	return h.calls[key] - 1
}

func (h *host) note(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, c)
}

// reply chooses the reply to the n-th call.
func (t *Tool) reply(n int, args json.RawMessage) Reply {
	var given map[string]any
	_ = json.Unmarshal(args, &given) // no arguments match no arguments
	for _, m := range t.Match {
		if includes(given, m.Args) {
			r := m.Result
			if r.DelayMs == 0 {
				r.DelayMs = t.DelayMs
			}
			return r
		}
	}
	if len(t.Results) > 0 {
		return t.Results[min(n, len(t.Results)-1)]
	}
	return t.Reply
}

func includes(given, want map[string]any) bool {
	for k, v := range want {
		if !reflect.DeepEqual(given[k], v) {
			return false
		}
	}
	return true
}

// give returns the tool result of the reply.
func (r Reply) give(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	if err := wait(ctx, r.DelayMs); err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, &builtins.ToolError{Kind: builtins.Tool, Msg: r.Error}
	}
	result := map[string]any{"isError": r.IsError}
	if r.Content != nil {
		result["content"] = nestedResources(r.Content)
	}
	if r.Text != "" {
		result["content"] = []any{map[string]any{"type": "text", "text": r.Text}}
	}
	switch {
	case r.Structured != nil:
		result["structuredContent"] = r.Structured
	case r.Echo:
		result["structuredContent"] = map[string]any{"tool": tool, "args": args}
	}
	return json.Marshal(result)
}

// nestedResources converts recorded resource blocks, whose fields are in the block itself, to the form of
// the protocol, where they are in its field resource.
func nestedResources(recorded json.RawMessage) any {
	var blocks []map[string]any
	if json.Unmarshal(recorded, &blocks) != nil {
		return recorded
	}
	for i, b := range blocks {
		if b["type"] != "resource" || b["resource"] != nil {
			continue
		}
		delete(b, "type")
		blocks[i] = map[string]any{"type": "resource", "resource": b}
	}
	return blocks
}

func wait(ctx context.Context, ms int) error {
	if ms == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Elicit implements builtins.Host with the next recorded answer.
func (h *host) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	var asked struct{ Message string }
	_ = json.Unmarshal(q.Params, &asked)
	h.mu.Lock()
	n := h.asked
	h.asked++
	h.mu.Unlock()
	c := Call{Kind: "elicitation", Message: asked.Message}
	if n >= len(h.fake.Elicitations) {
		return nil, builtins.ErrNoElicitation
	}
	a := h.fake.Elicitations[n]
	err := wait(ctx, a.DelayMs)
	switch {
	case err != nil:
		c.Result = "ctx: " + err.Error()
	case a.Timeout:
		c.Result, err = "timeout", context.DeadlineExceeded
	case a.Error != "":
		c.Result, err = "error: "+a.Error, errors.New(a.Error)
	default:
		c.Result = a.Action
	}
	h.note(c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"action": a.Action, "content": a.Content})
}

// Notify implements builtins.Host: it ignores the notice.
func (h *host) Notify(context.Context, builtins.Notice) {}
