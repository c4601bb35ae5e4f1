package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ContentText is a piece of a result as text for a person.
func ContentText(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("(image, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("(audio, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("(resource %s)", c.URI)
	case *mcp.EmbeddedResource:
		if c.Resource.Text != "" {
			return c.Resource.Text
		}
		return fmt.Sprintf("(resource %s, %d bytes)", c.Resource.URI, len(c.Resource.Blob))
	default:
		return fmt.Sprintf("(%T)", c)
	}
}

// NotificationText is a notification of progress or of the log as text for a person; "" for any
// other.
func NotificationText(method string, params json.RawMessage) string {
	switch method {
	case wire.Progress:
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(params, &p) == nil {
			return progressText(&p)
		}
	case wire.LogMessage:
		var p mcp.LoggingMessageParams
		if json.Unmarshal(params, &p) == nil {
			return messageText(&p)
		}
	}
	return ""
}

func progressText(p *mcp.ProgressNotificationParams) string {
	text := fmt.Sprintf("%g", p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %g", p.Total)
	}
	return strings.TrimSpace(text + " " + p.Message)
}

// messageText is a log message as one line: its text, followed by its other fields.
func messageText(p *mcp.LoggingMessageParams) string {
	text := fmt.Sprint(p.Data)
	if fields, ok := p.Data.(map[string]any); ok {
		text = fmt.Sprint(fields["message"])
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if name != "message" {
				value, _ := json.Marshal(fields[name]) // it was JSON
				text += fmt.Sprintf(" %s=%s", name, value)
			}
		}
	}
	if p.Level != "info" {
		text = string(p.Level) + ": " + text
	}
	return text
}
