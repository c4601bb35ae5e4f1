package builtins

import (
	"go.starlark.net/starlark"
)

// declareTool is tool(name=..., ...). The declaration is read from the text of the
// file, see check.ReadDeclaration; when the file runs it does nothing.
func declareTool(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, nil
}
