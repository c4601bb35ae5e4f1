package builtins

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// logMessage implements log(message, level="info", **fields).
func logMessage(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	n := Notice{Kind: "log", Level: "info", Pos: position(t)}
	var message starlark.Value
	known, fields := splitKwargs(kwargs, "message", "level")
	if err := starlark.UnpackArgs(fn.Name(), args, known, "message", &message, "level?", &n.Level); err != nil {
		return nil, err
	}
	if wire.Severity(n.Level) < 0 {
		return nil, fmt.Errorf("log: level %q: want one of %s", n.Level, strings.Join(wire.LogLevels, ", "))
	}
	var err error
	if n.Message, err = text(t, message); err != nil {
		return nil, fmt.Errorf("log: message: %w", err)
	}
	if len(fields) > 0 {
		if n.Fields, err = fieldsJSON(t, fields); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	if err := script.RunOf(t).ChargeLog(len(n.Message) + len(n.Fields)); err != nil {
		return nil, err
	}
	return starlark.None, notify(t, n)
}

// notify notifies the host once, also when the run is resumed.
func notify(t *starlark.Thread, n Notice) error {
	host, err := hostOf(t)
	if err != nil {
		return err
	}
	e := script.Effect{Kind: n.Kind, Name: n.Message, Instant: true, Repeatable: true}
	_, err = script.RunOf(t).Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		host.Notify(ctx, n)
		return nil, nil
	})
	return err
}

// text returns the text of a message: a string unchanged, any other value as JSON.
func text(t *starlark.Thread, v starlark.Value) (string, error) {
	if s, ok := v.(starlark.String); ok {
		return string(s), nil
	}
	data, err := script.EncodeIn(t, v, script.RunOf(t).Limits().Depth)
	return string(data), err
}

func splitKwargs(kwargs []starlark.Tuple, names ...string) (known, rest []starlark.Tuple) {
	for _, kv := range kwargs {
		if slices.Contains(names, string(kv[0].(starlark.String))) {
			known = append(known, kv)
			continue
		}
		rest = append(rest, kv)
	}
	return known, rest
}

// fieldsJSON makes a JSON object from keyword arguments.
func fieldsJSON(t *starlark.Thread, kwargs []starlark.Tuple) (json.RawMessage, error) {
	d := starlark.NewDict(len(kwargs))
	for _, kv := range kwargs {
		if err := d.SetKey(kv[0], kv[1]); err != nil {
			return nil, err
		}
	}
	return script.EncodeIn(t, d, script.RunOf(t).Limits().Depth)
}

// position returns the position of the call of the present builtin.
func position(t *starlark.Thread) string { return t.CallFrame(1).Pos.String() }
