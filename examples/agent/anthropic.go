package main

import (
	"context"
	"encoding/json"
)

// anthropic is a model behind the messages API: POST BASE/messages.
type anthropic struct{ *api }

// maxTokens bounds one message of the model; the API requires a bound.
const maxTokens = 4096

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

// anthropicBlock is a text, a call (tool_use) or a result (tool_result).
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type anthropicTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	InputSchema any    `json:"input_schema"`
}

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []anthropicTool    `json:"tools,omitempty"`
}

func (m *anthropic) next(ctx context.Context, conversation []message, tools []tool) (message, error) {
	request := anthropicRequest{Model: m.model, MaxTokens: maxTokens}
	for _, one := range conversation {
		request.Messages = append(request.Messages, anthropicMessageOf(one))
	}
	for _, t := range tools {
		request.Tools = append(request.Tools, anthropicTool{t.name, t.description, t.schema})
	}
	var answer anthropicMessage
	if err := m.post(ctx, request, &answer); err != nil {
		return message{}, err
	}
	var next message
	for _, b := range answer.Content {
		switch b.Type {
		case "text":
			next.answer += b.Text
		case "tool_use":
			one := call{id: b.ID, name: b.Name}
			one.arguments, one.malformed = object(b.Input)
			next.calls = append(next.calls, one)
		}
	}
	return next, nil
}

// anthropicMessageOf converts a message into one of the API.
func anthropicMessageOf(m message) anthropicMessage {
	said := anthropicMessage{Role: "user"}
	switch {
	case m.question != "":
		said.Content = []anthropicBlock{{Type: "text", Text: m.question}}
	case m.results != nil:
		for _, r := range m.results {
			said.Content = append(said.Content, anthropicBlock{Type: "tool_result", ToolUseID: r.id, Content: r.text, IsError: r.failed})
		}
	default:
		said.Role = "assistant"
		if m.answer != "" || len(m.calls) == 0 {
			said.Content = append(said.Content, anthropicBlock{Type: "text", Text: orNothing(m.answer)})
		}
		for _, c := range m.calls {
			input := c.arguments
			if c.malformed != "" {
				input = json.RawMessage("{}")
			}
			said.Content = append(said.Content, anthropicBlock{Type: "tool_use", ID: c.id, Name: c.name, Input: input})
		}
	}
	return said
}

// orNothing replaces an empty text, which the API refuses.
func orNothing(text string) string {
	if text == "" {
		return "(nothing)"
	}
	return text
}
