package proxy_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// textOf is the text of the only content of a resources/read response.
func textOf(answer []byte) string {
	text := ""
	jsonscan.Elements(jsonscan.Get(answer, "contents"), func(e []byte) bool {
		text += jsonscan.GetString(e, "text")
		return true
	})
	return text
}

// The proxy's own resources show what their reader may see, with and without a session: the source of an invisible
// script cannot be read and is in no list.
func TestOwnResourcesObeyPolicies(t *testing.T) {
	o := openOffice(t, `
allow:
  - {name: dev, groups: [dev], tools: ["*"], resources: ["*"]}
  - {name: everybody, tools: [scripts.open, files.read], resources: ["scripts.*"]}
`, `
introspection: {resources: true}
scriptedTools:
  - {name: open, description: For everybody., script: "def run(params): return 'open'"}
  - {name: closed, description: For some., script: "def run(params): return 'closed'"}
`)
	resources := kindsOfThings[2]
	for _, tt := range []struct {
		who         string
		want        []string
		state, list []string // what is in them; with ! in front, what is not
	}{
		{"alice", []string{"files://a1", "files://b1", "git://a1", "git://b1", "vmcp://scripts", "vmcp://scripts/closed", "vmcp://scripts/open", "vmcp://state"}, []string{`"files"`, `"git"`, `"tools": 8`}, []string{`"open"`, `"closed"`}},
		{"bob", []string{"vmcp://scripts", "vmcp://scripts/open", "vmcp://state"}, []string{`"files"`, `!"git"`, `"tools": 2`, `"scripts": 1`}, []string{`"open"`, `!closed`}},
	} {
		for _, v := range []*visitor{o.session(tt.who), o.stateless(tt.who)} {
			if got := v.listed(resources); !slices.Equal(got, tt.want) {
				t.Errorf("%s lists %q, want %q", tt.who, got, tt.want)
			}
			for uri, want := range map[string][]string{"vmcp://state": tt.state, "vmcp://scripts": tt.list, "vmcp://scripts/open": {"def run(params): return 'open'"}} {
				r := v.ask(wire.ResourcesRead, `{"uri":"`+uri+`"}`)
				text := textOf(r.result())
				for _, w := range want {
					w, not := strings.CutPrefix(w, "!")
					if strings.Contains(text, w) == not {
						t.Errorf("%s reads in %s: %s\nwant %s: %t", tt.who, uri, r, w, !not)
					}
				}
				if modern := strings.Contains(r.body, `"resultType":"complete"`) && strings.Contains(r.body, `"cacheScope":"private"`); modern != (v.session == "") {
					t.Errorf("the form of %s", r)
				}
			}
			denied, nobody := v.ask(wire.ResourcesRead, `{"uri":"vmcp://scripts/closed"}`), v.ask(wire.ResourcesRead, `{"uri":"vmcp://scripts/closee"}`)
			if got := denied.String() == strings.ReplaceAll(nobody.String(), "closee", "closed"); got != (tt.who == "bob") {
				t.Errorf("%s reads the text of closed: %s\nand of one that is not there: %s", tt.who, denied, nobody)
			}
		}
	}
	if asked := o.took(); slices.ContainsFunc(asked, func(s string) bool { return strings.Contains(s, "vmcp://") }) {
		t.Errorf("a backend was asked: %q", asked)
	}
}

// Without introspection.resources there are none.
func TestOwnResourcesAreOptIn(t *testing.T) {
	_, url := start(t, &config.Config{ScriptedTools: []config.ScriptedTool{{Name: "one", Description: "d", Script: "def run(params): return 1"}}})
	c := at(t, url, "")
	if got := c.names("resources/list", "resources", "uri"); got != "" {
		t.Errorf("resources %s", got)
	}
	for _, uri := range []string{"vmcp://state", "vmcp://scripts", "vmcp://scripts/one"} {
		if got := c.request("resources/read", `{"uri":"`+uri+`"}`); !strings.Contains(got, "resource not found: "+uri) {
			t.Errorf("read %s: %s", uri, got)
		}
	}
}

// A profile shows the sources of its scripts, and its backends.
func TestOwnResourcesOfProfiles(t *testing.T) {
	cfg := officeConfig(sdkBackend(t, department("mail", "list"), false), sdkBackend(t, department("calendar", "list"), false),
		config.Profile{Name: "post", Workloads: []string{"mail"}}, config.Profile{Name: "all"})
	cfg.Introspection.Resources = true
	_, url := start(t, cfg)
	for profile, want := range map[string]string{
		"":     "calendar://box mail://box vmcp://scripts vmcp://scripts/digest vmcp://state",
		"all":  "calendar://box mail://box vmcp://scripts vmcp://scripts/digest vmcp://state",
		"post": "mail://box vmcp://scripts vmcp://state",
	} {
		c := at(t, url, profile)
		if got := c.names("resources/list", "resources", "uri"); got != want {
			t.Errorf("profile %q lists %s, want %s", profile, got, want)
		}
		state := c.request("resources/read", `{"uri":"vmcp://state"}`)
		if strings.Contains(state, "calendar") != (profile != "post") || !strings.Contains(state, "mail") {
			t.Errorf("profile %q: %s", profile, state)
		}
		text := c.request("resources/read", `{"uri":"vmcp://scripts/digest"}`)
		if strings.Contains(text, "call_tool") != (profile != "post") {
			t.Errorf("profile %q: %s", profile, text)
		}
	}
}

// A client that has read the list is notified when the source of a script changes, and reads the new one; secrets of
// the configuration in it are hidden. The resources cannot be subscribed to, and a backend cannot take their URIs.
func TestOwnResourcesChange(t *testing.T) {
	testmode.Parallel(t)
	claims := httptest.NewServer(&wiretest.Server{Capabilities: `{"resources":{}}`, Handle: func(c *wiretest.Call) (string, error) {
		if c.Method == wire.ResourcesList {
			return `{"resources":[{"uri":"vmcp://state","name":"mine"},{"uri":"vmcp://scripts/one","name":"mine"},{"uri":"vmcp://other","name":"mine"}]}`, nil
		}
		return "", wiretest.ErrDefault
	}})
	t.Cleanup(claims.Close)
	cfg := func(script string) *config.Config {
		return &config.Config{
			Introspection: config.Introspection{Resources: true},
			Backends:      []config.Backend{{Name: "b", URL: claims.URL, Headers: map[string]string{"X-Key": "canary-Zk93hQ71xT"}}},
			ScriptedTools: []config.ScriptedTool{{Name: "one", Description: "d", Script: script}},
		}
	}
	p, endpoint := start(t, cfg("def run(params):\n    return 1\n"))
	h := &heard{}
	s := connect(t, endpoint, "2025-11-25", &mcp.ClientOptions{ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { h.note("resources") }})
	list, err := s.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, r := range list.Resources {
		names[r.URI] = r.Name
	}
	if len(names) != 4 || names["vmcp://state"] != "state" || names["vmcp://scripts/one"] != "one" || names["vmcp://other"] != "mine" {
		t.Errorf("resources %v", names)
	}
	if problems := p.Status().Problems; !slices.ContainsFunc(problems, func(pr diag.Problem) bool {
		return pr.Entry == "vmcp://state" && strings.Contains(pr.Message, "this endpoint")
	}) {
		t.Errorf("problems: %v", problems)
	}
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "vmcp://scripts/one"}); err == nil || !strings.Contains(err.Error(), "cannot be subscribed to") {
		t.Errorf("subscribe: %v", err)
	}
	if err := p.Apply(cfg("def run(params):\n    return \"canary-Zk93hQ71xT\"\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a notification", func() bool { return h.count("resources") > 0 })
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "vmcp://scripts/one"})
	if err != nil || len(r.Contents) != 1 || r.Contents[0].Text != "def run(params):\n    return \"***\"\n" || r.Contents[0].MIMEType != "text/x-starlark" {
		t.Errorf("read: %+v, %v", r, err)
	}
}
