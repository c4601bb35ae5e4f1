package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// This part of the package is an MCP server that answers from recorded cases: every tool that was called in them,
// with the definitions of a lock file, and the recorded scripted tools themselves.
//
//	s, err := fake.New(all, fake.Options{Lock: f})
//	err = s.Run(ctx, in, out)

// FakeOptions say how the tools are described. The zero value serves them without descriptions and schemas.
type FakeOptions struct {
	Version string         // of this program
	Lock    *lock.File     // the definitions of backends' tools; nil: none
	Config  *config.Config // how tools are named for clients; nil: with the default prefix of each backend
	// Backend serves only the tools of this backend, with all that the lock has of it, under their names there: the server
	// takes its place. "" serves all recorded tools under their recorded names.
	Backend string
}

// A Server answers calls from cases.
type Server struct {
	server *mcp.Server

	mu    sync.Mutex
	tools map[string]*fakeTool
}

// fakeTool is one recorded tool with its calls.
type fakeTool struct {
	name    string
	calls   []call
	answers map[int]int // how often each of calls was answered, by its index
}

// call is a recorded call with its result.
type call struct {
	args    json.RawMessage
	result  json.RawMessage
	failure *cases.Failure
}

// New makes a server of recorded cases.
func New(all []*cases.Case, o FakeOptions) (*Server, error) {
	s := &Server{tools: map[string]*fakeTool{}}
	known := o.definitions()
	definitions := map[string]json.RawMessage{}
	for _, c := range all {
		for i := range c.Effects {
			e := &c.Effects[i]
			if e.Kind != "call" {
				continue
			}
			d, ok := known[e.Name]
			name := e.Name
			if o.Backend != "" {
				if !ok || d.backend != o.Backend {
					continue
				}
				name = d.own
			}
			definitions[name] = d.raw
			s.tool(name).add(call{e.Args, e.Result, e.Failure})
		}
		if o.Backend == "" {
			definitions[c.Tool] = nil
			s.tool(c.Tool).add(call{c.Arguments, resultOf(c), c.Failure})
		}
	}
	for _, d := range known {
		if o.Backend != "" && d.backend == o.Backend {
			definitions[d.own] = d.raw
			s.tool(d.own)
		}
	}
	if len(s.tools) == 0 {
		return nil, errors.New("the files have no recorded calls")
	}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "vmcp fake", Version: o.Version}, nil)
	for _, name := range slices.Sorted(maps.Keys(s.tools)) {
		s.offer(name, definitions[name])
	}
	return s, nil
}

// Run serves one client with newline-delimited messages until in or ctx ends.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// definition is a backend's tool as the lock has it.
type definition struct {
	backend, own string
	raw          json.RawMessage
}

// definitions are the tools of the lock by every name that a script may call them by.
func (o FakeOptions) definitions() map[string]definition {
	all := map[string]definition{}
	if o.Lock == nil {
		return all
	}
	for _, n := range o.Lock.Names() {
		if n.Kind != lock.Tool {
			continue
		}
		d := definition{n.Backend, n.Own, o.Lock.Entries[n].Definition}
		shown := o.renamed(n)
		for _, name := range []string{n.Backend + "." + n.Own, o.prefix(n.Backend) + shown, shown} {
			if _, taken := all[name]; !taken {
				all[name] = d
			}
		}
	}
	return all
}

// renamed is a tool's name with the overrides of the configuration.
func (o FakeOptions) renamed(n lock.Name) string {
	if o.Config != nil {
		for _, rules := range o.Config.Aggregation.Tools {
			if over := rules.Overrides[n.Own]; rules.Workload == n.Backend && over.Name != "" {
				return over.Name
			}
		}
	}
	return n.Own
}

// prefix is what the names of a backend's tools begin with for clients. Without a configuration it is the default
// for several backends.
func (o FakeOptions) prefix(backend string) string {
	if o.Config != nil {
		return o.Config.PrefixOf(backend)
	}
	return backend + "_"
}

func (s *Server) tool(name string) *fakeTool {
	t := s.tools[name]
	if t == nil {
		t = &fakeTool{name: name, answers: map[int]int{}}
		s.tools[name] = t
	}
	return t
}

func (t *fakeTool) add(c call) { t.calls = append(t.calls, c) }

// resultOf is the result of the scripted tool whose run was recorded.
func resultOf(c *cases.Case) json.RawMessage {
	content := c.Content
	if content == nil {
		content = jsonscan.Array(new(jsonscan.Object).Text("type", "text").Text("text", string(c.Output)).JSON())
	}
	o := new(jsonscan.Object).Raw("content", content)
	if len(c.Output) > 0 && c.Output[0] == '{' {
		o.Raw("structuredContent", c.Output)
	}
	if c.IsError {
		o.Bool("isError", true)
	}
	return o.JSON()
}

// offer adds a tool to the server. The SDK panics at schemas that its clients could not read; such a tool is added without them.
func (s *Server) offer(name string, raw json.RawMessage) {
	plain := &mcp.Tool{Name: name, Description: "recorded calls of " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	handle := func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.answer(name, r.Params.Arguments), nil
	}
	var t mcp.Tool
	if raw == nil || json.Unmarshal(raw, &t) != nil {
		s.server.AddTool(plain, handle)
		return
	}
	t.Name = name
	t.InputSchema, t.OutputSchema = jsonscan.Get(raw, "inputSchema"), nil
	if output := jsonscan.Get(raw, "outputSchema"); output != nil {
		t.OutputSchema = output
	}
	defer func() {
		if recover() != nil { // the SDK has refused a schema
			s.server.AddTool(plain, handle)
		}
	}()
	s.server.AddTool(&t, handle)
}

// answer returns the recorded result of a call with these arguments: the results of equal calls in
// their order, and then the last one again.
func (s *Server) answer(name string, args json.RawMessage) *mcp.CallToolResult {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tools[name]
	last := -1
	for i, c := range t.calls {
		if len(cases.Diff(orEmpty(c.args), args)) > 0 {
			continue
		}
		if last = i; t.answers[i] == 0 {
			break
		}
	}
	if last < 0 {
		return failed(t.unknown(args))
	}
	t.answers[last]++
	return t.calls[last].reply()
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// unknown is the message for a call that was not recorded; it shows the most similar recorded call.
func (t *fakeTool) unknown(args json.RawMessage) string {
	if len(t.calls) == 0 {
		return t.name + ": no call was recorded"
	}
	best := cases.Diff(orEmpty(t.calls[0].args), args)
	for _, c := range t.calls[1:] {
		if d := cases.Diff(orEmpty(c.args), args); len(d) < len(best) {
			best = d
		}
	}
	return fmt.Sprintf("%s: no call with these arguments was recorded; the nearest differs: %s", t.name, cases.Explain(best))
}

func (c call) reply() *mcp.CallToolResult {
	switch {
	case c.failure != nil && c.failure.Kind == "tool":
		return failed(c.failure.Message)
	case c.failure != nil:
		return failed(c.failure.Kind + ": " + c.failure.Message)
	}
	var r mcp.CallToolResult
	if err := json.Unmarshal(c.result, &r); err != nil {
		return failed("the recorded result cannot be sent: " + err.Error())
	}
	if structured := jsonscan.Get(c.result, "structuredContent"); structured != nil {
		r.StructuredContent = structured // numbers are not converted
	}
	return &r
}

func failed(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}

// CheckBackend returns an error unless a lock has the backend.
func CheckBackend(f *lock.File, backend string) error {
	if backend == "" {
		return nil
	}
	if f == nil {
		return errors.New("--backend: there is no lock file with its tools")
	}
	if !f.Has(backend) {
		return fmt.Errorf("--backend: the lock file has no backend %q%s", backend, display.Hint(backend, slices.Sorted(maps.Keys(f.Backends))))
	}
	return nil
}
