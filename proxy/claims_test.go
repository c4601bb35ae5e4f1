package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// offering is a server with these lists. Its responses name the server and the entry.
func offering(t *testing.T, name string, lists map[string]string) config.Backend {
	t.Helper()
	s := &wiretest.Server{Capabilities: `{"tools":{},"resources":{}}`, Handle: func(c *wiretest.Call) (string, error) {
		var p struct{ Name, URI string }
		_ = json.Unmarshal(c.Params, &p)
		switch list, ok := lists[c.Method]; {
		case ok:
			return list, nil
		case c.Method == "resources/read":
			return fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/html","text":"%s has %s","_meta":{"n":9007199254740993}}]}`, p.URI, name, p.URI), nil
		case c.Method == "tools/call":
			return fmt.Sprintf(`{"content":[{"type":"text","text":"%s.%s"}]}`, name, p.Name), nil
		}
		return "", wiretest.ErrDefault
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return config.Backend{Name: name, URL: server.URL}
}

func templates(uris ...string) map[string]string {
	var items []string
	for _, u := range uris {
		items = append(items, fmt.Sprintf(`{"name":"t","uriTemplate":%q}`, u))
	}
	return map[string]string{"resources/templates/list": `{"resourceTemplates":[` + strings.Join(items, ",") + `]}`}
}

// read is the server that answers a read, and the uri in the response.
func read(t *testing.T, s *mcp.ClientSession, uri string) string {
	t.Helper()
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "nobody"
	}
	return r.Contents[0].URI + ": " + r.Contents[0].Text
}

func reasons(p *proxy.Proxy) (all []string) {
	for _, pr := range p.Status().Problems {
		all = append(all, strings.Join(strings.Fields(strings.Join([]string{strings.TrimPrefix(pr.Severity.String(), "warning"), pr.Backend, pr.Entry, pr.Text()}, " ")), " "))
	}
	return all
}

// TestTemplatesTakeTheirOwn: the most specific template serves a uri, whatever the order of the configuration, and one
// that matches everything is exposed only if that is configured.
func TestTemplatesTakeTheirOwn(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		cfg := &config.Config{Backends: []config.Backend{
			offering(t, "wide", templates("{+any}", "notes:{+rest}")),
			offering(t, "kinds", templates("notes://{kind}/{id}")),
			offering(t, "items", templates("notes://item/{id}")),
		}}
		if allowed {
			cfg.Aggregation.Resources = []config.WorkloadResources{{Workload: "wide", AllowAnyScheme: true}}
		}
		p, url := start(t, cfg)
		s := connect(t, url, "2025-11-25", nil)
		stranger := "nobody"
		if allowed {
			stranger = "other://x: wide has other://x"
		}
		for uri, want := range map[string]string{
			"notes://item/7":  "notes://item/7: items has notes://item/7",
			"notes://other/7": "notes://other/7: kinds has notes://other/7",
			"notes:a/b/c":     "notes:a/b/c: wide has notes:a/b/c",
			"other://x":       stranger,
		} {
			if got := read(t, s, uri); got != want {
				t.Errorf("allowed %v: read %s = %q, want %q", allowed, uri, got, want)
			}
		}
		got := strings.Join(reasons(p), "\n")
		if dropped := strings.Contains(got, "wide {+any} template dropped: it begins with a variable"); dropped == allowed || allowed && got != "" {
			t.Errorf("allowed %v: problems %q", allowed, got)
		}
	}
	_, url := start(t, &config.Config{Backends: []config.Backend{offering(t, "alone", templates("{+any}"))}})
	if got := read(t, connect(t, url, "2025-11-25", nil), "x://y"); got != "x://y: alone has x://y" {
		t.Errorf("a template of the only backend: %s", got)
	}
}

// app is a server whose tools show their results on a page.
func app(t *testing.T, name string, tools ...string) config.Backend {
	var items []string
	for _, tool := range tools {
		items = append(items, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://time/app.html","n":1.0},"ui/resourceUri":"ui://time/app.html"}}`, tool))
	}
	return offering(t, name, map[string]string{
		"tools/list":               `{"tools":[{"name":"plain","inputSchema":{"type":"object"}},` + strings.Join(items, ",") + `]}`,
		"resources/list":           `{"resources":[{"name":"page","uri":"ui://time/app.html"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"name":"pages","uriTemplate":"ui://pages/{id}"}]}`,
	})
}

// TestPagesOfApps: the page of each backend has its own uri, in every place that names it.
func TestPagesOfApps(t *testing.T) {
	p, url := start(t, &config.Config{Backends: []config.Backend{app(t, "a", "show"), app(t, "b", "show")}})
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		c := &wiretest.Client{URL: url, Revision: revision}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string][]string{
			"tools/list": {
				`"_meta":{"ui":{"resourceUri":"ui://a/time/app.html","n":1.0},"ui/resourceUri":"ui://a/time/app.html"}`,
				`"_meta":{"ui":{"resourceUri":"ui://b/time/app.html","n":1.0},"ui/resourceUri":"ui://b/time/app.html"}`},
			"resources/list":           {`"uri":"ui://a/time/app.html"`, `"uri":"ui://b/time/app.html"`},
			"resources/templates/list": {`"uriTemplate":"ui://a/pages/{id}"`, `"uriTemplate":"ui://b/pages/{id}"`},
		} {
			got, err := c.Call(t.Context(), method, "{}")
			if err != nil || strings.Contains(string(got), "ui://time") || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(string(got), w) }) {
				t.Errorf("%s: %s = %s, %v\nwant %q", revision, method, got, err, want)
			}
		}
		for uri, want := range map[string]string{
			"ui://b/time/app.html": `"contents":[{"uri":"ui://b/time/app.html","mimeType":"text/html","text":"b has ui://time/app.html","_meta":{"n":9007199254740993}}]`,
			"ui://a/pages/7":       `"contents":[{"uri":"ui://a/pages/7","mimeType":"text/html","text":"a has ui://pages/7","_meta":{"n":9007199254740993}}]`,
			"ui://time/app.html":   "not found",
			"ui://c/time/app.html": "not found",
		} {
			got, err := c.Call(t.Context(), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
			if text := fmt.Sprint(string(got), err); !strings.Contains(text, want) {
				t.Errorf("%s: read %s = %s\nwant %s", revision, uri, text, want)
			}
		}
	}
	if got := reasons(p); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
	_, url = start(t, &config.Config{Backends: []config.Backend{app(t, "alone", "show")}})
	if got := read(t, connect(t, url, "2025-11-25", nil), "ui://time/app.html"); got != "ui://time/app.html: alone has ui://time/app.html" {
		t.Errorf("the page of the only backend: %s", got)
	}
}

// TestLargePagesAreRefused: the page whose uri is rewritten is bounded.
func TestLargePagesAreRefused(t *testing.T) {
	large := offering(t, "large", map[string]string{
		"resources/list": `{"resources":[{"name":"page","uri":"ui://page"}]}`,
		"resources/read": `{"contents":[{"uri":"ui://page","text":"` + strings.Repeat("x", 16<<20) + `"}]}`,
	})
	_, url := start(t, &config.Config{Backends: []config.Backend{large, app(t, "b", "show")}})
	_, err := connect(t, url, "2025-11-25", nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "ui://large/page"})
	if err == nil || !strings.Contains(err.Error(), "result is larger than the limit of 16777216 bytes") {
		t.Errorf("a page of 16 MB: %v", err)
	}
}

// TestPagesThatChange are followed and announced under the uri that clients know.
func TestPagesThatChange(t *testing.T) {
	const own, exposed = "ui://time/app.html", "ui://a/time/app.html"
	subscribed := make(chan string, 2)
	server := mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(_ context.Context, r *mcp.SubscribeRequest) error { subscribed <- r.Params.URI; return nil },
		UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error { return nil },
	})
	server.AddResource(&mcp.Resource{Name: "page", URI: own}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	_, url := start(t, &config.Config{Backends: []config.Backend{{Name: "a", URL: sdkBackend(t, server, false)}, app(t, "b", "show")}})
	updated := make(chan string, 1)
	s := connect(t, url, "2025-11-25", &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI }})
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: exposed}); err != nil {
		t.Fatal(err)
	}
	if got := <-subscribed; got != own {
		t.Errorf("the backend was asked for %s", got)
	}
	if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: own}); err != nil {
		t.Fatal(err)
	}
	if got := <-updated; got != exposed {
		t.Errorf("the client heard of %s", got)
	}
}

// TestAppsCallTheirTools: a page calls tools by the names of its own server only.
func TestAppsCallTheirTools(t *testing.T) {
	_, url := start(t, &config.Config{
		Backends: []config.Backend{app(t, "a", "show", "poll", "secret"), app(t, "b", "show", "a_poll")},
		Aggregation: config.Aggregation{Tools: []config.WorkloadTools{
			{Workload: "a", Filter: []string{"show", "poll"}},
		}},
	})
	s := connect(t, url, "2025-11-25", nil)
	for name, want := range map[string]string{
		"a_poll": "a.poll", // the exposed name of one goes before the own name of another
		"poll":   "a.poll",
		"show":   "tool show is ambiguous: want one of a_show, b_show",
		"b_show": "b.show",
		"secret": "unknown tool: secret",
		"plain":  "unknown tool: plain",
	} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		got := fmt.Sprint(err)
		if err == nil {
			got = text(t, r, err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestShadowedToolsStayReachable: a script with the name of a tool is reported as a mistake, and the tool can be called
// as backend.tool.
func TestShadowedToolsStayReachable(t *testing.T) {
	tool := func(name, call string) config.ScriptedTool {
		return config.ScriptedTool{Name: name, Description: "d", Script: "def run(params):\n    return call_tool('" + call + "')\n"}
	}
	p, url := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "deploy", "list"), false)}},
		ScriptedTools: []config.ScriptedTool{tool("deploy", "deploy"), tool("list", "a.list")},
	})
	s := connect(t, url, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"})
	if got := text(t, r, err); !strings.Contains(got, `scripted tools call each other in a cycle: deploy -> deploy; the backend's tool of that name is "a.deploy"`) {
		t.Errorf("deploy: %s", got)
	}
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "list"})
	if got := text(t, r, err); r.IsError || !strings.Contains(got, "a") {
		t.Errorf("list: %s", got)
	}
	want := []string{
		`error a deploy name "deploy" belongs to a scripted tool: rename one of the two; until then clients and scripts that call "deploy" get the script, and scripts reach this tool as "a.deploy"`,
		`error a list name "list" belongs to a scripted tool: rename one of the two; until then clients and scripts that call "list" get the script, and scripts reach this tool as "a.list"`,
		`error deploy calls "deploy", which is a scripted tool here; the backend's tool of that name is "a.deploy"`,
		`error deploy deploy.star:2:12: error: deploy always calls itself [tool-cycle]`,
	}
	if got := reasons(p); !slices.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestScriptsStandInForHiddenTools: a hidden tool may be replaced by a script of its name.
func TestScriptsStandInForHiddenTools(t *testing.T) {
	p, url := start(t, &config.Config{
		Backends:      []config.Backend{{Name: "a", URL: sdkBackend(t, toolServer("a", "deploy"), false)}},
		Aggregation:   config.Aggregation{ExcludeAllTools: true},
		ScriptedTools: []config.ScriptedTool{{Name: "deploy", Description: "d", Script: "def run(params):\n    return call_tool('a.deploy')\n"}},
	})
	r, err := connect(t, url, "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"})
	if got := text(t, r, err); r.IsError || len(reasons(p)) > 0 {
		t.Errorf("deploy: %s, problems %q", got, reasons(p))
	}
}

// instructing is a server that offers only instructions.
func instructing(t *testing.T, name, instructions string) config.Backend {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{Instructions: instructions})
	return config.Backend{Name: name, URL: sdkBackend(t, s, false)}
}

func TestInstructionsAreBounded(t *testing.T) {
	p, url := start(t, &config.Config{Backends: []config.Backend{
		instructing(t, "long", strings.Repeat("é", 50_000)), instructing(t, "short", "Be brief."), instructing(t, "large", strings.Repeat("x", 50_000)),
	}})
	got := connect(t, url, "2025-11-25", nil).InitializeResult().Instructions
	if len(got) > 16<<10 || len(got) < 16<<10-100 || !strings.Contains(got, "# short\nBe brief.\n") {
		t.Errorf("%d bytes of instructions", len(got))
	}
	if long, large := strings.Count(got, "é")*2, strings.Count(got, "x"); large-long > 10 || long > large {
		t.Errorf("long has %d bytes of them, large %d", long, large)
	}
	if got := strings.Join(reasons(p), "\n"); !strings.Contains(got, "long instructions cut to 81") || !strings.Contains(got, "of 50000 bytes: the limit of all backends together is 16384") {
		t.Errorf("problems: %s", got)
	}
}

func TestHiddenCharactersAreReported(t *testing.T) {
	b := offering(t, "b", map[string]string{"tools/list": `{"tools":[
		{"name":"bidi","description":"a\u202eb","inputSchema":{"type":"object"}},
		{"name":"tags","inputSchema":{"type":"object","properties":{"x":{"description":"` + "\U000e0041\U000e0042" + `"}}}},
		{"name":"fine","description":"` + "schön\\n\\t日本語 👩\u200d💻" + `","inputSchema":{"type":"object"}}]}`})
	p, _ := start(t, &config.Config{Backends: []config.Backend{b, instructing(t, "i", "see\u200bme")}})
	got := strings.Join(reasons(p), "\n")
	for _, want := range []string{"b bidi holds hidden characters: U+202E", "b tags holds hidden characters: U+E0041, U+E0042", "i instructions holds hidden characters: U+200B"} {
		if !strings.Contains(got, want) {
			t.Errorf("problems\n%s\nwant %q", got, want)
		}
	}
	if len(p.Status().Problems) != 3 {
		t.Errorf("problems:\n%s", got)
	}
}
