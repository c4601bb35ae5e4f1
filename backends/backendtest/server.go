// Package backendtest has real MCP servers for tests: one built with the official SDK,
// over HTTP in this process or over stdio in a separate process, and raw ones that respond
// with the bytes that a test wants.
//
// A test binary that starts stdio servers calls Main first:
//
//	func TestMain(m *testing.M) { backendtest.Main(m) }
package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// New returns an MCP server with the tools that tests need:
//
//	echo      returns its arguments as text
//	big       returns size bytes of text
//	progress  reports steps steps when it was given a progress token
//	log       logs "one" and "two" at level info
//	ask       elicits an answer and returns it
//	sample    asks for a sample and returns its text
//	roots     asks for the roots and returns their uris
//	wait      like progress, then ends when it is cancelled, or after ms milliseconds
//	cancelled returns how many waits were cancelled
//	fail      returns a tool error
//	grow      adds a tool named grown
//
// two prompts, a resource test://static and a template test://item/{id}.
//
// It supports the given protocol revisions, or all.
func New(revisions ...string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "backendtest", Version: "1"}, &mcp.ServerOptions{
		Instructions:              "for tests",
		SupportedProtocolVersions: revisions,
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for name, run := range map[string]func(context.Context, *mcp.CallToolRequest) (string, error){
		"echo": echo, "big": big, "progress": progress, "log": logs, "ask": ask, "sample": sample,
		"roots": roots, "wait": wait, "cancelled": cancelled, "fail": fail,
		"grow": func(context.Context, *mcp.CallToolRequest) (string, error) {
			s.AddTool(&mcp.Tool{Name: "grown", InputSchema: anyObject}, handler(echo))
			return "grown", nil
		},
		"touch": func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
			return "touched", s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://static"})
		},
	} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: anyObject}, handler(run))
	}
	addContent(s)
	return s
}

var anyObject = json.RawMessage(`{"type":"object"}`)

func addContent(s *mcp.Server) {
	for _, name := range []string{"greet", "leave"} {
		s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: name}}}}, nil
		})
	}
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "content of " + r.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{Name: "static", URI: "test://static"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "item", URITemplate: "test://item/{id}"}, read)
}

// handler returns a tool handler for a function that returns its text.
func handler(f func(context.Context, *mcp.CallToolRequest) (string, error)) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := f(ctx, r)
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// number returns an argument of the call, or the default otherwise.
func number(r *mcp.CallToolRequest, name string, otherwise int) int {
	var args map[string]any
	if json.Unmarshal(r.Params.Arguments, &args) == nil {
		if v, ok := args[name].(float64); ok {
			return int(v)
		}
	}
	return otherwise
}

func echo(_ context.Context, r *mcp.CallToolRequest) (string, error) {
	return string(r.Params.Arguments), nil
}

func big(_ context.Context, r *mcp.CallToolRequest) (string, error) {
	return strings.Repeat("x", number(r, "size", 1<<20)), nil
}

func fail(context.Context, *mcp.CallToolRequest) (string, error) {
	return "", errors.New("this tool fails")
}

func progress(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	token := r.Params.GetProgressToken()
	for i := range number(r, "steps", 3) {
		if token == nil {
			break
		}
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1)})
		if err != nil {
			return "", err
		}
	}
	return "done", nil
}

func logs(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	for _, text := range []string{"one", "two"} {
		if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: text}); err != nil {
			return "", err
		}
	}
	return "logged", nil
}

func ask(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: string(r.Params.Arguments), RequestedSchema: anyObject})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(answer.Action, " ", answer.Content), nil
}

func sample(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	answer, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
	if err != nil {
		return "", err
	}
	text, _ := answer.Content.(*mcp.TextContent)
	return text.Text, nil
}

func roots(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	answer, err := r.Session.ListRoots(ctx, nil)
	if err != nil {
		return "", err
	}
	var uris []string
	for _, root := range answer.Roots {
		uris = append(uris, root.URI)
	}
	return strings.Join(uris, " "), nil
}

func wait(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
	if _, err := progress(ctx, r); err != nil {
		return "", err
	}
	t := time.NewTimer(time.Duration(number(r, "ms", 60_000)) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return "waited", nil
	case <-ctx.Done():
		cancellations.Add(1)
		return "", ctx.Err()
	}
}

var cancellations atomic.Int64

func cancelled(context.Context, *mcp.CallToolRequest) (string, error) {
	return fmt.Sprint(cancellations.Load()), nil
}
