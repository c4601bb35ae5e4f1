package builtins

import (
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// mathModule has the functions whose results are exact and therefore equal on every machine: no logarithms, no
// trigonometry, no powers.
var mathModule = &starlarkstruct.Module{Name: "math", Members: only(math.Module.Members,
	"ceil", "copysign", "e", "fabs", "floor", "mod", "pi", "remainder", "round", "sqrt")}

func only(all starlark.StringDict, names ...string) starlark.StringDict {
	d := make(starlark.StringDict, len(names))
	for _, name := range names {
		d[name] = all[name]
	}
	return d
}
