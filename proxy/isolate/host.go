package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// The methods that a worker may ask of a host.
const (
	methodCall   = "call"
	methodElicit = "elicit"
	methodNotify = "notify"
	methodSchema = "schema"
	methodCaller = "caller"
)

// kinds are the effects that builtins perform, with their flags: a worker may not declare a call free, or repeatable.
var kinds = map[string][]script.Effect{
	"call":     {{}},
	"elicit":   {{Repeatable: true}},
	"retry":    {{Repeatable: true, Free: true, Sleep: true}},
	"sleep":    {{Repeatable: true, Free: true, Sleep: true}, {Repeatable: true}},
	"now":      {{Repeatable: true, Instant: true}},
	"caller":   {{Repeatable: true, Instant: true}},
	"log":      {{Repeatable: true, Instant: true}},
	"progress": {{Repeatable: true, Instant: true}},
	"workflow": {{Repeatable: true, Instant: true}},
}

// remoteHost is the host of a run in a worker. It forwards to the host of the run in the process of the proxy.
type remoteHost struct{ run *script.Run }

var (
	_ builtins.Host  = remoteHost{}
	_ legacy.Schemas = remoteHost{}

	_ builtins.KnowsCaller = remoteHost{}
)

// callOptions are the options of a call that are not part of its effect.
type callOptions struct {
	Timeout   time.Duration `json:"timeout"`
	Unchecked bool          `json:"unchecked,omitempty"`
}

// CallTool forwards the call of the tool that the effect names.
func (h remoteHost) CallTool(ctx context.Context, _ string, _ json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	return h.ask(ctx, methodCall, callOptions{Timeout: o.Timeout, Unchecked: o.Unchecked})
}

// notice is what a notification has besides its effect and its fields.
type notice struct {
	Level string `json:"level,omitempty"`
	Pos   string `json:"pos"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"`
}

// Elicit forwards the question of the effect.
func (h remoteHost) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	return h.ask(ctx, methodElicit, q.Method)
}

// Notify forwards a notification.
func (h remoteHost) Notify(ctx context.Context, n builtins.Notice) {
	data, err := json.Marshal(notice{n.Level, n.Pos, math.Float64bits(n.Done), math.Float64bits(n.Total)})
	if err == nil {
		_, _ = h.run.AskHost(ctx, methodNotify, data, n.Fields) // it has no answer
	}
}

// Caller asks for the caller of the run.
func (h remoteHost) Caller(ctx context.Context) (c builtins.Caller, err error) {
	raw, err := h.ask(ctx, methodCaller, nil)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

// InputSchema asks for the input schema of a tool.
func (h remoteHost) InputSchema(tool string) (json.RawMessage, bool) {
	answer, err := h.run.AskHost(context.Background(), methodSchema, []byte(tool))
	if err != nil || len(answer) == 0 {
		return nil, false
	}
	return answer[0], true
}

func (h remoteHost) ask(ctx context.Context, method string, what any) (json.RawMessage, error) {
	data, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	answer, err := h.run.AskHost(ctx, method, data)
	if err != nil || len(answer) == 0 {
		return nil, err
	}
	return answer[0], nil
}

// Check returns an error for an effect that no builtin has.
func (*Workers) Check(e script.Effect) error {
	for _, k := range kinds[e.Kind] {
		if e.Instant == k.Instant && e.Free == k.Free && e.Repeatable == k.Repeatable && e.Sleep == k.Sleep && fits(e) {
			return nil
		}
	}
	return errors.New("an unknown kind of effect")
}

// fits reports whether an effect has no fields that its kind does not have.
func fits(e script.Effect) bool {
	lasts := e.Lasts == 0 || e.Lasts > 0 && (e.Sleep || e.Kind == "elicit")
	return lasts && (!e.Tells && !e.Adaptable || e.Kind == "call")
}

// misplaced is the error of a worker that calls a method that the present effect does not allow.
func misplaced(q script.Asked) error {
	return &script.WorkerError{Why: fmt.Sprintf("it called %.20q of its host outside of an effect of that kind", q.Method)}
}

// Ask calls the method of the host that a worker asks for.
func (w *Workers) Ask(ctx context.Context, of any, q script.Asked) ([][]byte, error) {
	host, ok := of.(builtins.Host)
	if !ok || len(q.Parts) == 0 {
		return nil, misplaced(q)
	}
	what := q.Parts[0]
	switch e := q.Effect; {
	case q.Method == methodSchema && e == nil:
		return schemaOf(of, string(what)), nil
	case e == nil:
		return nil, misplaced(q)
	case q.Method == methodCall && e.Kind == "call":
		var o callOptions
		if err := json.Unmarshal(what, &o); err != nil {
			return nil, misplaced(q)
		}
		raw, err := host.CallTool(ctx, e.Name, e.Args, builtins.CallOptions{Timeout: o.Timeout, Unchecked: o.Unchecked, Key: q.Key, IdempotencyKey: builtins.IdempotencyKey(q.Run, q.Key)})
		return answerOf(raw), err
	case q.Method == methodElicit && e.Kind == "elicit":
		raw, err := host.Elicit(ctx, script.Question{Key: q.Key, Method: "elicitation/create", Params: e.Args, Deadline: q.Until})
		return answerOf(raw), err
	case q.Method == methodCaller && e.Kind == "caller":
		c, err := builtins.CallerOf(ctx, host)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(c)
		return answerOf(raw), err
	case q.Method == methodNotify && (e.Kind == "log" || e.Kind == "progress"):
		return nil, notify(ctx, host, q)
	}
	return nil, misplaced(q)
}

func answerOf(raw json.RawMessage) [][]byte {
	if raw == nil {
		return nil
	}
	return [][]byte{raw}
}

// schemaOf returns the input schema of a tool, if the host has it.
func schemaOf(host any, tool string) [][]byte {
	known, ok := host.(legacy.Schemas)
	if !ok {
		return nil
	}
	schema, ok := known.InputSchema(tool)
	if !ok {
		return nil
	}
	return [][]byte{append([]byte{}, schema...)}
}

// notify forwards a notification that the run has been charged for.
func notify(ctx context.Context, host builtins.Host, q script.Asked) error {
	var n notice
	if err := json.Unmarshal(q.Parts[0], &n); err != nil || len(q.Parts) != 2 {
		return misplaced(q)
	}
	fields := json.RawMessage(q.Parts[1])
	if int64(len(q.Effect.Name)+len(fields)) > q.Logged || len(n.Level) > 20 || len(n.Pos) > 4096 {
		return &script.WorkerError{Why: "it wrote more to the log than it was charged for"}
	}
	if len(fields) > 0 && (!json.Valid(fields) || fields[0] != '{') {
		return misplaced(q)
	}
	host.Notify(ctx, builtins.Notice{
		Kind: q.Effect.Kind, Level: n.Level, Message: q.Effect.Name, Fields: fields,
		Done: math.Float64frombits(n.Done), Total: math.Float64frombits(n.Total), Pos: n.Pos,
	})
	return nil
}
