package builtins

import (
	"fmt"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// parallel implements parallel(fns) and parallel(fn, items), with max_concurrency=.
func parallel(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var first, second starlark.Value
	run := script.RunOf(t)
	width := run.Limits().Parallel
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fns", &first, "items?", &second, "max_concurrency?", &width); err != nil {
		return nil, err
	}
	if width < 1 {
		return nil, fmt.Errorf("parallel: max_concurrency: want at least 1, have %d", width)
	}
	call, n, err := branches(t, first, second)
	if err != nil {
		return nil, err
	}
	results, err := run.Parallel(t, n, width, call)
	if err != nil {
		return nil, err
	}
	return starlark.NewList(results), nil
}

type branch = func(t *starlark.Thread, i int) (starlark.Value, error)

// branches returns the calls of parallel, and their number.
func branches(t *starlark.Thread, first, second starlark.Value) (branch, int, error) {
	run := script.RunOf(t)
	fn, single := first.(starlark.Callable)
	switch {
	case second == nil && single:
		return nil, 0, fmt.Errorf("parallel: want a list of functions, or one function and its items")
	case second == nil:
		fns, err := functions(t, first)
		return func(t *starlark.Thread, i int) (starlark.Value, error) { return run.Call(t, fns[i], nil, nil) }, len(fns), err
	case !single:
		return nil, 0, fmt.Errorf("parallel: items: the first argument must be one function, have %s", first.Type())
	}
	items, err := elements(t, "items", second)
	return func(t *starlark.Thread, i int) (starlark.Value, error) {
		return run.Call(t, fn, starlark.Tuple{items[i]}, nil)
	}, len(items), err
}

func functions(t *starlark.Thread, v starlark.Value) ([]starlark.Value, error) {
	fns, err := elements(t, "fns", v)
	if err != nil {
		return nil, err
	}
	for i, fn := range fns {
		if _, ok := fn.(starlark.Callable); !ok {
			return nil, fmt.Errorf("parallel: fns[%d]: want a function without parameters, have %s", i, fn.Type())
		}
	}
	return fns, nil
}

// elements returns the elements of an iterable, at most limits.branches.
func elements(t *starlark.Thread, what string, v starlark.Value) ([]starlark.Value, error) {
	iter := starlark.Iterate(v)
	if iter == nil {
		return nil, fmt.Errorf("parallel: %s: want a list, have %s", what, v.Type())
	}
	defer iter.Done()
	most := script.RunOf(t).Limits().Branches
	var all []starlark.Value
	var x starlark.Value
	for iter.Next(&x) {
		if len(all) == most {
			return nil, &script.LimitError{Limit: "branches", Value: fmt.Sprint(most)}
		}
		all = append(all, x)
	}
	return all, script.RunOf(t).Stopped(t)
}
