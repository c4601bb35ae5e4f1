package suite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// runTool runs a tool as for a client's call, and returns the value of testing.run.
func (a *attempt) runTool(ctx context.Context, r *toolRun, tool *Tool, raw json.RawMessage) (json.RawMessage, error) {
	a.mu.Lock()
	at, _ := slices.BinarySearchFunc(a.runs, r, func(x, y *toolRun) int { return compareIDs(x.id, y.id) })
	a.runs = slices.Insert(a.runs, at, r) // branches of the test call in any order
	a.mu.Unlock()
	args, err := tool.Script.Arguments(raw)
	if err != nil {
		return r.ended(nil, &builtins.ToolError{Kind: builtins.InvalidInput, Msg: err.Error()}), nil
	}
	test := effectOf(ctx).of
	r.self = a.begin(test, r.id, tool.Limits)
	defer a.end(r.self)
	o := script.RunOptions{Args: args, Limits: tool.Limits, Journal: script.NewJournal(), Accept: func(res *script.Result) error {
		if err := tool.Script.CheckOutput(res); err != nil {
			return &builtins.ToolError{Kind: builtins.InvalidOutput, Msg: err.Error()}
		}
		return nil
	}}
	res, err := a.compute(a.base, r.self, tool.Script.Code(), o, tool.Name)
	if isSuspended(err) && a.variant.hit {
		a.busy(r.self)
		res, err = a.compute(a.base, r.self, tool.Script.Code(), o, tool.Name)
	}
	if a.base.Err() != nil {
		return nil, context.Cause(a.base)
	}
	return r.ended(res, err), nil
}

// ended returns the outcome of a run: an object with ok, output, content, error and kind.
func (r *toolRun) ended(res *script.Result, err error) json.RawMessage {
	null := json.RawMessage("null")
	output, content, message, kind := null, null, null, null
	if err != nil {
		message = jsonscan.Quote(err.Error())
		kind = jsonscan.Quote(kindOf(err))
	} else {
		if res.Structured != nil {
			output = res.Structured
		}
		content = jsonscan.Get(builtins.CallResult(res), "content")
		if res.IsError {
			message, kind = jsonscan.Quote(textOf(content)), jsonscan.Quote(builtins.Tool)
		}
	}
	fields := new(jsonscan.Object).Bool("ok", err == nil && !res.IsError).Raw("output", output).Raw("error", message).Raw("kind", kind)
	r.out = string(fields.JSON())
	if err == nil && res.Content != nil { // else it would repeat the output, in the order of its members
		r.out += string(res.Content)
	}
	return fields.Raw("content", content).JSON()
}

// kindOf returns the kind that a script would see of a tool that ended with err.
func kindOf(err error) string {
	var contract *builtins.ToolError
	if errors.As(err, &contract) && (contract.Kind == builtins.InvalidInput || contract.Kind == builtins.InvalidOutput) {
		return contract.Kind
	}
	return builtins.Tool
}

func textOf(content json.RawMessage) (text string) {
	jsonscan.Elements(content, func(block []byte) bool {
		if jsonscan.GetString(block, "type") == "text" {
			if text != "" {
				text += "\n"
			}
			text += jsonscan.GetString(block, "text")
		}
		return true
	})
	return text
}
