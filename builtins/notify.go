package builtins

import (
	"fmt"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// progress implements progress(done, total=None, message=None).
func progress(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	n := Notice{Kind: "progress", Pos: position(t)}
	var done, total, message starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "done", &done, "total?", &total, "message?", &message); err != nil {
		return nil, err
	}
	var err error
	if n.Done, err = number(done, 0); err != nil {
		return nil, fmt.Errorf("progress: done: %w", err)
	}
	if n.Total, err = number(total, 0); err != nil {
		return nil, fmt.Errorf("progress: total: %w", err)
	}
	if message != nil && message != starlark.None {
		if n.Message, err = text(t, message); err != nil {
			return nil, fmt.Errorf("progress: message: %w", err)
		}
	}
	if err := script.RunOf(t).ChargeLog(len(n.Message)); err != nil {
		return nil, err
	}
	return starlark.None, notify(t, n)
}
