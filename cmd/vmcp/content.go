package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// printRaw writes a result as it was sent, with line breaks.
func (a *app) printRaw(result json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, result, "", "  "); err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(a.out)
	return err
}

// printContent writes what a person reads of a result; an error's text goes where errors go.
func (a *app) printContent(name string, r *mcp.CallToolResult) error {
	for _, c := range r.Content {
		text := contentText(c)
		if r.IsError {
			a.report(fmt.Errorf("%s: %s", name, text))
			continue
		}
		if _, err := fmt.Fprintln(a.out, text); err != nil {
			return err
		}
	}
	return nil
}

func contentText(c mcp.Content) string {
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
