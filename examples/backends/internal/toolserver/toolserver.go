// Package toolserver is the common part of the example backends: typed tools whose
// arguments keep every digit, refusals with a code, and a server on stdio or HTTP.
package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Error is a refusal that the caller can act on: Code is for programs and stays the
// same, Message is for people and models.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the message without the code.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Add adds a tool with the schemas of In and Out. An error of h becomes a result with
// isError, the text "code: message" and {"error": {"code", "message"}} as structured
// content.
//
// Unlike mcp.AddTool, it decodes the arguments from the bytes the client sent: values
// of type any hold json.Number, so that 9007199254740993 arrives as such, and a
// json.RawMessage is any JSON.
// A slice of Out, at any depth, is never encoded as null: it is empty, as the schema says
// "array".
// Like mcp.AddTool, it panics when a schema cannot be made, which is a bug of the caller.
func Add[In, Out any](s *mcp.Server, t *mcp.Tool, h func(context.Context, In) (Out, error)) {
	input := schemaOf[In]()
	output := schemaOf[Out]()
	neverNull(output)
	t.InputSchema, t.OutputSchema = input, output
	check, err := input.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: input schema: %v", t.Name, err))
	}
	s.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in In
		if err := decode(req.Params.Arguments, check, &in); err != nil {
			return refusal(Errorf("bad_arguments", "%s: %v", t.Name, err)), nil
		}
		out, err := h(ctx, in)
		if err != nil {
			return refusal(err), nil
		}
		return answer(out)
	})
}

// schemaOf is the schema of T, or of the type that T points to, in a form that clients of every revision
// accept for a tool: its type is "object", and each of its properties is a JSON object.
func schemaOf[T any]() *jsonschema.Schema {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	anything := map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: anything})
	if err != nil {
		panic(err)
	}
	for name, property := range s.Properties {
		if reflect.DeepEqual(property, &jsonschema.Schema{}) {
			s.Properties[name] = &jsonschema.Schema{Description: "any JSON value"} // in place of true
		}
	}
	return s
}

// neverNull removes null from the types of the arrays in s: jsonschema.ForType adds it for
// nil slices.
func neverNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	neverNull(s.Items)
	for _, property := range s.Properties {
		neverNull(property)
	}
}

func decode(raw json.RawMessage, check *jsonschema.Resolved, in any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	if err := check.Validate(plain); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(in)
}

func answer(out any) (*mcp.CallToolResult, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(b.Bytes())
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(text)}},
		StructuredContent: json.RawMessage(text),
	}, nil
}

func refusal(err error) *mcp.CallToolResult {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf("failed", "%v", err)
	}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: e.Code + ": " + e.Message}},
		StructuredContent: map[string]any{"error": e},
	}
}
