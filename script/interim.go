package script

// Until metering is complete: delete this file as soon as the meter files define these.

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

func instrument(*syntax.File) error { return nil }

func meteredUniverse() starlark.StringDict { return nil }

type sketch struct{}

type operators struct{}

func (operators) init(*budget) {}

type probe struct{ budget *budget }

func (probe) insert(*starlark.Dict, starlark.Value) error { return nil }
