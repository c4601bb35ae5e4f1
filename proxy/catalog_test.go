package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
)

// toolServer has tools that answer with the server's name.
func toolServer(name string, tools ...string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	for _, tool := range tools {
		mcp.AddTool(s, &mcp.Tool{Name: tool, Description: tool + " of " + name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + "." + tool}}}, nil, nil
		})
	}
	return s
}

func listed(t *testing.T, s *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	all := map[string]*mcp.Tool{}
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[tool.Name] = tool
	}
	return all
}

func names(all map[string]*mcp.Tool) string {
	var out []string
	for n := range all {
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestNaming shows the exposed names under each strategy, and the refused ones.
func TestNaming(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		name        string
		aggregation config.Aggregation
		prefixes    []string // of the backends; "-": none of its own
		want        string
		problems    []string // what each must contain
	}{
		{name: "prefix by default", want: "a_get a_put b_get b_only"},
		{name: "another prefix", aggregation: config.Aggregation{ConflictResolutionConfig: config.ConflictResolutionConfig{PrefixFormat: "x-{workload}-"}},
			want: "x-a-get x-a-put x-b-get x-b-only"},
		{name: "priority", aggregation: config.Aggregation{ConflictResolution: "priority", ConflictResolutionConfig: config.ConflictResolutionConfig{PriorityOrder: []string{"b", "a"}}},
			want: "get only put", problems: []string{`a get name "get" refused: it belongs to b.get; scripts reach this tool as "a.get"`}},
		{name: "manual, one renamed", aggregation: config.Aggregation{ConflictResolution: "manual", Tools: []config.WorkloadTools{{Workload: "b", Overrides: map[string]config.ToolOverride{"get": {Name: "fetch"}}}}},
			want: "fetch get only put"},
		{name: "filter with globs", aggregation: config.Aggregation{Tools: []config.WorkloadTools{{Workload: "a", Filter: []string{"g*"}}}},
			want: "a_get b_get b_only"},
		{name: "filter that takes away", aggregation: config.Aggregation{Tools: []config.WorkloadTools{{Workload: "a", Filter: []string{"!g*"}}, {Workload: "b", Filter: []string{"*", "!on?y"}}}},
			want: "a_put b_get"},
		{name: "no prefix for one", prefixes: []string{"", "-"}, want: "b_get b_only get put"},
		{name: "prefixes of their own", prefixes: []string{"first.", "-"}, want: "b_get b_only first_get first_put"},
		{name: "a prefix under another strategy", prefixes: []string{"-", "b2_"}, want: "b2_get b2_only get put",
			aggregation: config.Aggregation{ConflictResolution: "manual"}},
		{name: "exclude one backend", aggregation: config.Aggregation{Tools: []config.WorkloadTools{{Workload: "a", ExcludeAll: true}}},
			want: "b_get b_only"},
		{name: "exclude all", aggregation: config.Aggregation{ExcludeAllTools: true}, want: ""},
		{name: "hidden by default", aggregation: config.Aggregation{DefaultToolVisibility: "hidden", Tools: []config.WorkloadTools{{Workload: "b"}}},
			want: "b_get b_only"},
		{name: "override", aggregation: config.Aggregation{Tools: []config.WorkloadTools{{Workload: "a", Overrides: map[string]config.ToolOverride{
			"get": {Name: "take", Description: "takes", Annotations: &config.Annotations{ReadOnlyHint: &yes}}}}}},
			want: "a_put a_take b_get b_only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := []config.Backend{
				{Name: "a", URL: sdkBackend(t, toolServer("a", "get", "put"), false)},
				{Name: "b", URL: sdkBackend(t, toolServer("b", "get", "only"), true)},
			}
			for i, prefix := range tt.prefixes {
				if prefix != "-" {
					all[i].Prefix = &prefix
				}
			}
			p, url := start(t, &config.Config{Backends: all, Aggregation: tt.aggregation})
			offered := listed(t, connect(t, url, "2025-11-25", nil))
			if got := names(offered); got != tt.want {
				t.Errorf("tools: %s\n want: %s", got, tt.want)
			}
			if take := offered["a_take"]; take != nil && (take.Description != "takes" || !take.Annotations.ReadOnlyHint) {
				t.Errorf("override: %+v", take)
			}
			problems := p.Status().Problems
			if len(problems) != len(tt.problems) {
				t.Fatalf("problems: %+v, want %q", problems, tt.problems)
			}
			for i, want := range tt.problems {
				if got := problems[i].Backend + " " + problems[i].Entry + " " + problems[i].Text(); got != want {
					t.Errorf("problem: %s\n   want: %s", got, want)
				}
			}
		})
	}
}

// TestHiddenTools are called by scripts and do not exist for clients.
func TestHiddenTools(t *testing.T) {
	_, url := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "get"), false)}},
		Aggregation:   config.Aggregation{ExcludeAllTools: true},
		ScriptedTools: []config.ScriptedTool{{Name: "through", Description: "d", Script: "def run(params):\n    return {\"got\": call_tool(\"a.get\")[\"text\"]}\n"}},
	})
	s := connect(t, url, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "through"})
	if got := text(t, r, err); got != `{"got":"a.get"}` {
		t.Errorf("through: %s", got)
	}
	_, hidden := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "get"})
	_, unknown := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "gut"})
	if hidden == nil || unknown == nil || strings.Replace(hidden.Error(), `get`, `gut`, 1) != unknown.Error() {
		t.Errorf("a hidden tool answers %q, an unknown one %q: want no difference", hidden, unknown)
	}
}

// TestNamesFitEveryClient exposes names that some clients would refuse.
func TestNamesFitEveryClient(t *testing.T) {
	long := strings.Repeat("very_long_", 10)
	_, url := start(t, &config.Config{Backends: []config.Backend{
		{Name: "a", URL: sdkBackend(t, toolServer("a", "x.y", "x_y", long+"1", long+"2", "Z"), false)},
	}})
	s := connect(t, url, "2025-11-25", nil)
	all := listed(t, s)
	if len(all) != 5 {
		t.Fatalf("%d names for 5 tools: %s", len(all), names(all))
	}
	fits := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for name, tool := range all {
		if !fits.MatchString(name) {
			t.Errorf("name %q", name)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		want := "a." + strings.TrimSuffix(tool.Description, " of a")
		if got := text(t, r, err); got != want {
			t.Errorf("%s reaches %s, want %s", name, got, want)
		}
	}
}

// TestScriptNamesAreSafe: a backend cannot take the name of a script.
func TestScriptNamesAreSafe(t *testing.T) {
	p, url := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "deploy"), false)}},
		ScriptedTools: []config.ScriptedTool{{Name: "deploy", Description: "ours", Script: "def run(params):\n    return {\"by\": \"script\"}\n"}},
	})
	s := connect(t, url, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"})
	if got := text(t, r, err); got != `{"by":"script"}` {
		t.Errorf("deploy is answered by %s", got)
	}
	if pr := p.Status().Problems; len(pr) != 1 || !strings.Contains(pr[0].Text(), `name "deploy" belongs to a scripted tool`) {
		t.Errorf("problems: %+v", pr)
	}
}

// TestPages lists more tools than fit one page, in the same order every time.
func TestPages(t *testing.T) {
	var many []string
	for i := range 1203 {
		many = append(many, fmt.Sprintf("t%04d", i))
	}
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", many...), false)}}})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		s := connect(t, url, revision, nil)
		var first []string // in the order of the list
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			first = append(first, tool.Name)
		}
		if !slices.Equal(first, many) {
			t.Errorf("%s: %d tools of %d, or another order", revision, len(first), len(many))
		}
		if _, err := s.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "nonsense"}); err == nil {
			t.Error("a cursor that is none was accepted")
		}
	}
}

func noop(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{}, nil, nil
}

// TestPromptAndResourceRules shows filters and overrides of prompts and resources, and which backend serves a uri that
// two offer.
func TestPromptAndResourceRules(t *testing.T) {
	server := func(name string) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
		for _, prompt := range []string{"greet", "secret"} {
			s.AddPrompt(&mcp.Prompt{Name: prompt}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: name + "." + prompt}, nil
			})
		}
		for _, uri := range []string{"doc://shared", "doc://" + name, "tmp://" + name} {
			s.AddResource(&mcp.Resource{Name: "r", URI: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: name}}}, nil
			})
		}
		return s
	}
	p, url := start(t, &config.Config{
		Backends: []config.Backend{
			{Name: "a", URL: sdkBackend(t, server("a"), false)},
			{Name: "b", URL: sdkBackend(t, server("b"), true)},
		},
		Aggregation: config.Aggregation{
			Prompts:   []config.WorkloadPrompts{{Workload: "a", Filter: []string{"g*"}, Overrides: map[string]config.PromptOverride{"greet": {Name: "hello", Description: "says hello"}}}},
			Resources: []config.WorkloadResources{{Workload: "b", Filter: []string{"doc://*"}, Overrides: map[string]config.ResourceOverride{"doc://b": {Name: "the b"}}}},
		},
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		s := connect(t, url, revision, nil)
		var prompts, resources []string
		for prompt, err := range s.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			prompts = append(prompts, prompt.Name+" "+prompt.Description)
		}
		for r, err := range s.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			resources = append(resources, r.URI+" "+r.Name)
		}
		if want := []string{"a_hello says hello", "b_greet ", "b_secret "}; !slices.Equal(prompts, want) {
			t.Errorf("prompts %q, want %q", prompts, want)
		}
		if want := []string{"doc://a r", "doc://shared r", "tmp://a r", "doc://b the b"}; !slices.Equal(resources, want) {
			t.Errorf("resources %q, want %q", resources, want)
		}
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "a_hello"})
		if err != nil || got.Description != "a.greet" {
			t.Errorf("a_hello: %+v, %v", got, err)
		}
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://shared"})
		if err != nil || read.Contents[0].Text != "a" {
			t.Errorf("doc://shared: %+v, %v", read, err)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "tmp://b"}); err == nil {
			t.Error("a resource that is filtered out was read")
		}
	}
	if pr := p.Status().Problems; len(pr) != 1 || pr[0].Backend != "b" || pr[0].Text() != "this URI is served by a" {
		t.Errorf("problems: %+v", pr)
	}
}

// TestUnusableDefinitionsAreDropped names each of them, and keeps the rest.
func TestUnusableDefinitionsAreDropped(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
			"tools/list": `{"tools":[
				{"name":"good","inputSchema":{"type":"object"}},
				{"name":"rootless","inputSchema":{}},
				{"name":"schemaless"},
				{"name":"truth","inputSchema":true},
				{"inputSchema":{"type":"object"}},
				{"name":"header","inputSchema":{"type":"object","properties":{"o":{"type":"object","x-mcp-header":"O"}}}},
				{"name":"twice","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"H"},"b":{"type":"string","x-mcp-header":"h"}}}}]}`,
		}[m.Method]
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case result == "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
	}))
	t.Cleanup(backend.Close)
	p, _ := start(t, &config.Config{Backends: []config.Backend{{Name: "raw", URL: backend.URL}}})
	var listed []string
	for _, tool := range p.Status().Tools {
		listed = append(listed, tool.Name)
	}
	if want := []string{"good", "rootless"}; !slices.Equal(listed, want) {
		t.Errorf("tools %q, want %q", listed, want)
	}
	var dropped []string
	for _, pr := range p.Status().Problems {
		dropped = append(dropped, pr.Entry+": "+pr.Text())
	}
	want := []string{
		"schemaless: definition dropped: inputSchema: want an object",
		"truth: definition dropped: inputSchema: want an object",
		": definition dropped: it has no name",
		`header: definition dropped: inputSchema.properties.o: x-mcp-header is allowed on a string, integer or boolean, not on "object"`,
		`twice: definition dropped: x-mcp-header "Mcp-Param-h" is declared twice`,
		`rootless: definition repaired: inputSchema: its type is not given; narrowed to "object"`,
	}
	if !slices.Equal(dropped, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(dropped, "\n"), strings.Join(want, "\n"))
	}
}
