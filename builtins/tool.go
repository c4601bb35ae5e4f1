package builtins

import (
	"go.starlark.net/starlark"
)

// declareTool implements tool(name=..., ...). The declaration is read from the text of the file, see
// check.ReadDeclarations; when the file is executed it does nothing.
func declareTool(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, nil
}
