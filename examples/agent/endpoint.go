package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// endpoint is the toolset of an MCP endpoint.
type endpoint struct {
	session *mcp.ClientSession
	names   map[string]string // name of a tool for the model -> name at the endpoint
}

// connect opens a session with an endpoint. Questions of its tools are asked on the terminal.
func connect(ctx context.Context, url, token string, who *person) (*endpoint, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0.0"}, &mcp.ClientOptions{ElicitationHandler: who.ask})
	s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return &endpoint{session: s}, nil
}

// bearer sends a token with each request; "" sends none.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Close ends the session.
func (e *endpoint) Close() { _ = e.session.Close() } // an error has no consequence

func (e *endpoint) list(ctx context.Context) (all []tool, err error) {
	names := map[string]string{}
	for t, err := range e.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		name := plain(t.Name)
		for n := 2; names[name] != ""; n++ {
			suffix := "_" + strconv.Itoa(n)
			name = plain(t.Name)
			name = name[:min(len(name), maxName-len(suffix))] + suffix
		}
		names[name] = t.Name
		all = append(all, tool{name, t.Description, t.InputSchema})
	}
	e.names = names
	return all, nil
}

// maxName bounds the names of tools for a model, in bytes.
const maxName = 64

// plain is a tool's name with the characters that chat APIs accept.
func plain(name string) string {
	name = strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, name)
	return name[:min(len(name), maxName)]
}

func (e *endpoint) call(ctx context.Context, c call) result {
	failed := func(format string, args ...any) result {
		return result{id: c.id, text: fmt.Sprintf(format, args...), failed: true}
	}
	name, ok := e.names[c.name]
	if !ok {
		return failed("there is no tool %q", c.name)
	}
	r, err := e.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: c.arguments})
	if err != nil {
		return failed("%v", err)
	}
	return result{id: c.id, text: text(r), failed: r.IsError}
}

// text is the text of a result for a model.
func text(r *mcp.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.EmbeddedResource:
			if c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
				continue
			}
			parts = append(parts, "[resource "+c.Resource.URI+"]")
		case *mcp.ResourceLink:
			parts = append(parts, "[resource "+c.URI+"]")
		default:
			parts = append(parts, fmt.Sprintf("[%T]", c))
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		data, err := json.Marshal(r.StructuredContent)
		if err == nil {
			parts = append(parts, string(data))
		}
	}
	return strings.Join(parts, "\n")
}

// person answers questions on a terminal.
type person struct {
	lines *bufio.Scanner
	out   io.Writer
}

// ask asks for the fields of a form, one line each. An empty line leaves a field out, the end of the input
// cancels.
func (p *person) ask(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	fmt.Fprintf(p.out, "\n%s\n", line(r.Params.Message))
	if r.Params.URL != "" {
		fmt.Fprintf(p.out, "Open %s and come back.\n", line(r.Params.URL))
	}
	raw, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var form struct {
		Properties map[string]field
		Required   []string
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, fmt.Errorf("the form: %w", err)
	}
	answer := map[string]any{}
	for _, name := range sorted(form.Properties) {
		if !p.fill(answer, name, form.Properties[name], slices.Contains(form.Required, name)) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}
	}
	switch p.line("send this? [Y/n] ") {
	case "", "y", "Y", "yes":
		return &mcp.ElicitResult{Action: "accept", Content: answer}, nil
	case end:
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	return &mcp.ElicitResult{Action: "decline"}, nil
}

// field is a property of a form.
type field struct {
	Type, Title, Description string
	Enum                     []string
	OneOf                    []struct{ Const string }
}

// fill asks for a field until the answer is of its type; false at the end of the input.
func (p *person) fill(answer map[string]any, name string, f field, required bool) bool {
	about := line(name)
	for _, more := range []string{f.Title, f.Description, strings.Join(f.choices(), ", ")} {
		if more != "" {
			about += " (" + line(more) + ")"
		}
	}
	for {
		got := p.line(about + ": ")
		switch {
		case got == end:
			return false
		case got == "" && !required:
			return true
		}
		value, err := f.read(got)
		if err == nil {
			answer[name] = value
			return true
		}
		fmt.Fprintln(p.out, err)
	}
}

func (f field) choices() (all []string) {
	all = slices.Clone(f.Enum)
	for _, c := range f.OneOf {
		all = append(all, c.Const)
	}
	return all
}

// read parses a typed line as the type of the field.
func (f field) read(text string) (any, error) {
	switch choices := f.choices(); {
	case len(choices) > 0 && !slices.Contains(choices, text):
		return nil, fmt.Errorf("want one of %s", strings.Join(choices, ", "))
	case f.Type == "boolean":
		if yes, err := strconv.ParseBool(text); err == nil {
			return yes, nil
		}
		return nil, fmt.Errorf("want a boolean")
	case f.Type == "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("want a whole number")
	case f.Type == "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("want a number")
	case f.Type == "array":
		all := []string{}
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
		return all, nil
	case text == "":
		return nil, fmt.Errorf("want a string")
	}
	return text, nil
}

// end is the value that line returns at the end of the input.
const end = "\x00"

func (p *person) line(prompt string) string {
	fmt.Fprint(p.out, prompt)
	if !p.lines.Scan() {
		return end
	}
	return strings.TrimSpace(p.lines.Text())
}

func sorted(fields map[string]field) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
