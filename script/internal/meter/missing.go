package meter

import (
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/spell"
)

const maxKeysShown = 5

// Others names the keys that a dict has which lacks one, those first that may have been
// meant. It is added where the end of a run is described.
func (m *MissingKey) Others() string {
	if m.Size == 0 {
		return "; it is empty"
	}
	keys := spell.Sorted(m.Key, m.Keys)
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
