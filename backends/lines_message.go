package backends

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Message adds a log message notification, by its params: {level, logger, data}.
func (l *Log) Message(backend string, params json.RawMessage) {
	if l == nil {
		return
	}
	level := jsonscan.GetString(params, "level")
	if !slices.Contains(wire.LogLevels, level) {
		level = "info"
	}
	data := jsonscan.Get(params, "data")
	text := fmt.Sprintf("a message of %d bytes", len(data))
	if len(data) <= maxBytes {
		text = string(data)
		if !json.Valid(data) || json.Unmarshal(data, &text) != nil { // not a string: the JSON text on one line
			text = strings.Join(strings.Fields(text), " ")
		}
	}
	if logger := jsonscan.GetString(params, "logger"); logger != "" {
		text = strings.TrimSpace(logger) + ": " + text
	}
	l.Add(backend, MCP, level, text)
}
