package types_test

import (
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/check/types"
)

// TestTheLanguageIsDescribed: checks know every function of the language, and every method of its values.
func TestTheLanguageIsDescribed(t *testing.T) {
	for name, v := range starlark.Universe {
		if _, ok := v.(*starlark.Builtin); ok && types.Natives[name] == nil {
			t.Errorf("the function %s is not described", name)
		}
	}
	for name := range types.Natives {
		if starlark.Universe[name] == nil {
			t.Errorf("%s is described, and no function of the language", name)
		}
	}
	for kind, v := range map[types.Kind]starlark.HasAttrs{
		types.Text: starlark.String(""), types.Bytes: starlark.Bytes(""), types.List: starlark.NewList(nil), types.Dict: starlark.NewDict(0), types.Set: starlark.NewSet(0),
	} {
		want := v.AttrNames()
		slices.Sort(want)
		if got := types.MethodNames(kind); !slices.Equal(got, want) {
			t.Errorf("%s has %s,\nthe language has %s", kind, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}
