package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

type function = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

// hostOf returns the host of the run that t belongs to.
func hostOf(t *starlark.Thread) (builtins.Host, error) {
	h, ok := script.RunOf(t).Host().(builtins.Host)
	if !ok {
		return nil, errors.New("not available here: the script runs without a host")
	}
	return h, nil
}

// duration parses a duration of a definition; fallback for None.
func duration(v starlark.Value, fallback time.Duration) (time.Duration, error) {
	if v == nil || v == starlark.None {
		return fallback, nil
	}
	text, _ := starlark.AsString(v)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf(`want a duration such as "30s" or "5m", have %s`, v)
	}
	return d, nil
}

// journaled converts the error of a call into a failure that the journal records as its answer, or
// returns it unchanged: a call that did not reach the tool, or timed out, is made again when the run is
// resumed, unless the script has caught the error already. An outcome that is not known fails the step.
func journaled(ctx context.Context, err error, caught bool) error {
	var known *builtins.ToolError
	var failure *script.Failure
	switch {
	case err == nil, script.Final(err), ctx.Err() != nil, script.IsNotDone(err), errors.As(err, &failure):
		return err
	case !errors.As(err, &known), known.Kind == builtins.Unknown:
		return &script.UnknownOutcome{Err: err}
	case caught || known.Kind != builtins.Unavailable && known.Kind != builtins.Timeout:
		return &script.Failure{Kind: known.Kind, Message: known.Msg}
	case known.Kind == builtins.Unavailable:
		return script.NotDone(known)
	}
	return known
}

// decode converts JSON of a tool or a client into a value.
func decode(t *starlark.Thread, raw json.RawMessage) (starlark.Value, error) {
	v, err := script.DecodeIn(t, raw, script.RunOf(t).Limits().Depth)
	if err != nil && !script.Final(err) {
		return nil, &script.Failure{Kind: builtins.InvalidOutput, Message: fmt.Sprintf("the result cannot be read: %v", err)}
	}
	return v, err
}
