package builtins

import (
	"encoding/json"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

// Convert returns the arguments of a script's call with the scalars that the input schema of the tool wants as another
// type, where nothing is lost by it (see schema.Convert), and what was converted, for the trace. It returns nil if that
// is nothing. Hosts use it for script.RunOptions.Adapt. input may be nil: not known.
func Convert(input *schema.Schema, args json.RawMessage) (converted json.RawMessage, note string) {
	if input == nil || len(args) == 0 {
		return nil, ""
	}
	out, made := input.Convert(args)
	if len(made) == 0 {
		return nil, ""
	}
	const most = 10
	var list []string
	for i, c := range made {
		if i == most {
			list = append(list, "...")
			break
		}
		list = append(list, c.String())
	}
	return out, "converted " + strings.Join(list, ", ")
}
