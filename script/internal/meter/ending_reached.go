package meter

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// LimitError says that a run reached one of its limits. A script cannot catch it.
type LimitError struct {
	// Limit names the limit as the configuration does: "steps", "memory", "time", "calls", ...
	Limit string
	// Value is the limit as text: "1000000", "256MB", "30m0s".
	Value string
	// Pos is the position in the script; filled in when the run ends.
	Pos syntax.Position
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit reached: %s (%s)", e.Limit, e.Value)
}

// MissingKey says that a dict lacks a key. Its text is the interpreter's.
type MissingKey struct {
	Err  error
	Key  string
	Keys []string // some of the keys of the dict
	Size int      // of the dict
}

func (m *MissingKey) Error() string { return m.Err.Error() }

// Unwrap returns the interpreter's error.
func (m *MissingKey) Unwrap() error { return m.Err }

const maxKeysShown = 5

// Others lists keys that the dict has, similar ones first. It is appended to the error of a run.
func (m *MissingKey) Others() string {
	if m.Size == 0 {
		return "; it is empty"
	}
	keys := display.Sorted(m.Key, m.Keys)
	keys = keys[:min(len(keys), maxKeysShown)]
	if len(keys) == 0 {
		return ""
	}
	quoted := make([]string, len(keys))
	for i, k := range keys {
		quoted[i] = fmt.Sprintf("%q", k)
	}
	text := "; it has " + strings.Join(quoted, ", ")
	if more := m.Size - len(keys); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
