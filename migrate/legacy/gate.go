package legacy

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script"
)

// errSkipped cancels the other steps of a level when the answer to a question skips the remaining steps.
var errSkipped = errors.New("the remaining steps are skipped")

// gated is gated(fns, skipped, max_concurrency=10): parallel(fns) for a level with a
// question that may skip the remaining steps. When it does, the other steps of the level are
// cancelled, and skipped has the value of each of them.
func (w *engine) gated(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fns, skipped *starlark.List
	width := parallelWidth
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fns", &fns, "skipped", &skipped, "max_concurrency?", &width); err != nil {
		return nil, err
	}
	if fns.Len() != skipped.Len() || width < 1 {
		return nil, fmt.Errorf("gated: want a value in skipped for each of %d functions, have %d", fns.Len(), skipped.Len())
	}
	run := script.RunOf(t)
	results := make([]starlark.Value, fns.Len())
	for i := range results {
		results[i] = skipped.Index(i)
	}
	_, err := run.Parallel(t, len(results), width, func(t *starlark.Thread, i int) (starlark.Value, error) {
		v, err := run.Call(t, fns.Index(i), nil, nil)
		if err != nil {
			return nil, err
		}
		results[i] = v
		if w.ends(v) {
			return nil, errSkipped
		}
		return v, nil
	})
	if err != nil && !errors.Is(err, errSkipped) {
		return nil, err
	}
	return starlark.NewList(results), nil
}

// ends reports whether v is the output, or the record, of the question that skips the remaining steps.
func (w *engine) ends(v starlark.Value) bool {
	if w.ended == nil {
		return false
	}
	if s, ok := v.(*starlarkstruct.Struct); ok {
		v, _ = s.Attr("output")
	}
	return v == w.ended
}
