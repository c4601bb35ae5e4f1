package meter

import (
	"fmt"

	"go.starlark.net/syntax"
)

// LimitError says that a run reached one of its own limits. A script cannot catch it.
type LimitError struct {
	// Limit names the limit as the configuration does: "steps", "memory", "time", "calls", ...
	Limit string
	// Value is the limit that was reached, in words: "1000000", "256MB", "30m0s".
	Value string
	// Pos is the place in the script; filled in when the run ends.
	Pos syntax.Position
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit reached: %s (%s)", e.Limit, e.Value)
}
