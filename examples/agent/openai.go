package main

import (
	"context"
	"errors"
)

// openAI is a model behind the chat completions API: POST BASE/chat/completions.
type openAI struct{ *api }

type openAIMessage struct {
	Role       string       `json:"role"`
	Content    *string      `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters"`
}

type openAIRequest struct {
	Model    string          `json:"model"`
	Messages []openAIMessage `json:"messages"`
	Tools    []openAITool    `json:"tools,omitempty"` // an empty list is refused
}

func (m *openAI) next(ctx context.Context, conversation []message, tools []tool) (message, error) {
	request := openAIRequest{Model: m.model}
	for _, one := range conversation {
		request.Messages = append(request.Messages, openAIMessages(one)...)
	}
	for _, t := range tools {
		request.Tools = append(request.Tools, openAITool{"function", openAIFunction{t.name, t.description, t.schema}})
	}
	var answer struct {
		Choices []struct{ Message openAIMessage }
	}
	if err := m.post(ctx, request, &answer); err != nil {
		return message{}, err
	}
	if len(answer.Choices) == 0 {
		return message{}, errors.New("the API answered without a choice")
	}
	var next message
	got := answer.Choices[0].Message
	if got.Content != nil {
		next.answer = *got.Content
	}
	for _, c := range got.ToolCalls {
		one := call{id: c.ID, name: c.Function.Name}
		one.arguments, one.malformed = object([]byte(c.Function.Arguments))
		next.calls = append(next.calls, one)
	}
	return next, nil
}

// openAIMessages converts a message into those of the API.
func openAIMessages(m message) (all []openAIMessage) {
	switch {
	case m.question != "":
		return []openAIMessage{{Role: "user", Content: &m.question}}
	case m.results != nil:
		for _, r := range m.results {
			all = append(all, openAIMessage{Role: "tool", Content: &r.text, ToolCallID: r.id})
		}
		return all
	}
	said := openAIMessage{Role: "assistant", Content: &m.answer}
	for _, c := range m.calls {
		one := openAICall{ID: c.id, Type: "function"}
		one.Function.Name, one.Function.Arguments = c.name, string(c.arguments)
		if c.malformed != "" {
			one.Function.Arguments = "{}"
		}
		said.ToolCalls = append(said.ToolCalls, one)
	}
	return []openAIMessage{said}
}
