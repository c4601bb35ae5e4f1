package proxy_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

// department is a server with tools, a prompt and a resource, each with its own name before it.
func department(name string, tools ...string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		Instructions: "About " + name + ".",
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{}, nil
		},
		SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error { return nil }, UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for _, tool := range tools {
		addEcho(s, name, tool)
	}
	s.AddPrompt(&mcp.Prompt{Name: "write"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: name}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "box", URI: name + "://box"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: name + "://box", Text: name}}}, nil
	})
	return s
}

func addEcho(s *mcp.Server, server, tool string) {
	mcp.AddTool(s, &mcp.Tool{Name: tool}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: server + " " + tool}}}, nil, nil
	})
}

const digest = `
def run(params):
    return call_tool("calendar_list", {})
`

// officeConfig has two servers, a script and three profiles.
func officeConfig(mail, calendar string, profiles ...config.Profile) *config.Config {
	if profiles == nil {
		profiles = []config.Profile{
			{Name: "post", Workloads: []string{"mail"}, Tools: []string{"*", "!*_delete", "digest"}},
			{Name: "reading", Tools: []string{"!*_delete", "!*_send"}},
			{Name: "large", MaxTools: 3},
		}
	}
	return &config.Config{
		Backends:      []config.Backend{{Name: "mail", URL: mail}, {Name: "calendar", URL: calendar}},
		Profiles:      profiles,
		ScriptedTools: []config.ScriptedTool{{Name: "digest", Description: "What is due.", Script: digest}},
	}
}

// names are the names in one of a client's lists.
func (c *raw) names(method, list, member string) string {
	c.t.Helper()
	var all []string
	jsonscan.Elements(jsonscan.GetPath([]byte(c.request(method, "{}")), "result", list), func(e []byte) bool {
		all = append(all, jsonscan.GetString(e, member))
		return true
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

// at opens a session at the path of a profile; "" is none.
func at(t *testing.T, url, profile string) *raw {
	t.Helper()
	c := &raw{t: t, url: strings.TrimSuffix(url+"/"+profile, "/")}
	c.initialize("2025-11-25")
	return c
}

// TestProfilesShowAPart: lists, calls, prompts, resources and completion are limited to the profile. Everything else is
// answered, byte for byte, like an unknown name.
func TestProfilesShowAPart(t *testing.T) {
	testmode.Parallel(t)
	mail, calendar := department("mail", "list", "send", "delete"), department("calendar", "list", "delete")
	p, url := start(t, officeConfig(sdkBackend(t, mail, false), sdkBackend(t, calendar, true)))
	for profile, want := range map[string][3]string{
		"":        {"calendar_delete calendar_list digest mail_delete mail_list mail_send", "calendar_write mail_write", "calendar://box mail://box"},
		"post":    {"digest mail_list mail_send", "mail_write", "mail://box"},
		"reading": {"calendar_list digest mail_list", "calendar_write mail_write", "calendar://box mail://box"},
	} {
		c := at(t, url, profile)
		if got := [3]string{c.names("tools/list", "tools", "name"), c.names("prompts/list", "prompts", "name"), c.names("resources/list", "resources", "uri")}; got != want {
			t.Errorf("profile %q lists\n %q, want\n %q", profile, got, want)
		}
	}
	c := at(t, url, "post")
	for call, want := range map[string]string{
		`tools/call {"name":"mail_list"}`:     "mail list",
		`tools/call {"name":"digest"}`:        "calendar list",
		`prompts/get {"name":"mail_write"}`:   `"mail"`,
		`resources/read {"uri":"mail://box"}`: `"mail"`,
		`completion/complete {"ref":{"type":"ref/prompt","name":"mail_write"},"argument":{"name":"a","value":"b"}}`: `"completion"`,
	} {
		method, params, _ := strings.Cut(call, " ")
		if got := c.request(method, params); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
	}
	for call, nobody := range map[string]string{
		`tools/call {"name":"mail_delete"}`:            "mail_deletf",
		`tools/call {"name":"calendar_list"}`:          "calendar_lisu",
		`prompts/get {"name":"calendar_write"}`:        "calendar_writf",
		`resources/read {"uri":"calendar://box"}`:      "calendar://boy",
		`resources/subscribe {"uri":"calendar://box"}`: "calendar://boy",
		`completion/complete {"ref":{"type":"ref/prompt","name":"calendar_write"},"argument":{"name":"a","value":"b"}}`: "calendar_writf",
	} {
		method, params, _ := strings.Cut(call, " ")
		name := strings.SplitAfter(nobody, "")
		there := strings.Join(name[:len(name)-1], "") + string(nobody[len(nobody)-1]-1)
		got, want := c.request(method, params), c.request(method, strings.ReplaceAll(params, there, nobody))
		if got != strings.ReplaceAll(want, nobody, there) || !strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s\nand one that nobody has: %s", call, got, want)
		}
	}
	if got := at(t, url, "").request("tools/call", `{"name":"mail_delete"}`); !strings.Contains(got, "mail delete") {
		t.Errorf("without a profile: %s", got)
	}
	status, _ := json.Marshal(p.Status().Profiles)
	if want := `[{"name":"post","url":"/mcp/post","tools":3},{"name":"reading","url":"/mcp/reading","tools":3},{"name":"large","url":"/mcp/large","tools":6}]`; string(status) != want {
		t.Errorf("status %s, want %s", status, want)
	}
	if got := fmt.Sprint(p.Status().Problems); !strings.Contains(got, "has 6 tools, and maxTools is 3") {
		t.Errorf("problems: %s", got)
	}
}

// TestTooManyToolsAreLoggedOnce: the warning about maxTools is logged when it first applies, and not again for each
// further backend.
func TestTooManyToolsAreLoggedOnce(t *testing.T) {
	testmode.Parallel(t)
	cfg, late := &config.Config{Profiles: []config.Profile{{Name: "all", MaxTools: 2}}}, newGated(t, "one")
	mail := department("mail", "list", "send", "delete")
	cfg.Backends = []config.Backend{{Name: "mail", URL: sdkBackend(t, mail, true)}, {Name: "late", URL: late.url}}
	var log bytes.Buffer
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close()
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	for _, tools := range []int{3, 4, 5} {
		comesTrue(t, func() bool {
			return strings.Contains(fmt.Sprint(p.Status().Problems), fmt.Sprintf("has %d tools", tools))
		})
		late.open()
		if tools == 4 {
			addEcho(mail, "mail", "move")
		}
	}
	p.Close()
	if got := log.String(); strings.Count(got, "maxTools") != 1 || !strings.Contains(got, `msg="has 3 tools, and maxTools is 2: narrow its tools or workloads" entry="profile all"`) {
		t.Errorf("the log is\n%s", got)
	}
}

// TestProfilesOfEveryRevision: a stateless client sees the same part, and is introduced to it.
func TestProfilesOfEveryRevision(t *testing.T) {
	testmode.Parallel(t)
	_, url := start(t, officeConfig(sdkBackend(t, department("mail", "list"), false), sdkBackend(t, department("calendar", "list"), true)))
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		s := connect(t, url+"/post", revision, nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "digest" || list.Tools[1].Name != "mail_list" {
			t.Errorf("%s: %v, %v", revision, list, err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "mail_list"})
		if got := text(t, r, err); got != "mail list" {
			t.Errorf("%s: mail_list: %q", revision, got)
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "calendar_list"}); err == nil || !strings.Contains(err.Error(), "unknown tool: calendar_list") {
			t.Errorf("%s: calendar_list: %v", revision, err)
		}
		if got := s.InitializeResult().Instructions; !strings.Contains(got, "About mail.") || strings.Contains(got, "calendar") {
			t.Errorf("%s: instructions %q", revision, got)
		}
	}
}

// TestASessionBelongsToItsProfile: at another path the session does not exist, and a path without a profile is not
// served.
func TestASessionBelongsToItsProfile(t *testing.T) {
	testmode.Parallel(t)
	mail, calendar := sdkBackend(t, department("mail", "list"), false), sdkBackend(t, department("calendar", "list"), true)
	p, url := start(t, officeConfig(mail, calendar))
	paths := []string{"", "post", "reading"}
	for _, home := range paths {
		c := at(t, url, home)
		for _, path := range paths {
			c.url = strings.TrimSuffix(url+"/"+path, "/")
			want := 404
			if path == home {
				want = 200
			}
			if resp, body := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != want {
				t.Errorf("a session of %q at %q: %s %s, want %d", home, path, resp.Status, body, want)
			}
			if resp, body := c.do("DELETE", ""); want == 404 && resp.StatusCode != want {
				t.Errorf("DELETE of a session of %q at %q: %s %s", home, path, resp.Status, body)
			}
			if c.session == "" || path == home {
				c = at(t, url, home)
			}
		}
	}
	c := &raw{t: t}
	for _, path := range []string{"/nobody", "/", "/post/", "/post/x", "/Post", "//post"} {
		c.url = url + path
		resp, body := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
		if resp.StatusCode != 404 || !strings.Contains(body, "nothing is served at /mcp/") || strings.Contains(body, "nil") || path == "/nobody" && !strings.Contains(body, `no profile \"nobody\"; the profiles are post, reading, large`) {
			t.Errorf("%s: %s %s, want 404", path, resp.Status, body)
		}
	}
	gone, stays := at(t, url, "reading"), at(t, url, "post")
	if err := p.Apply(officeConfig(mail, calendar, config.Profile{Name: "post"})); err != nil {
		t.Fatal(err)
	}
	if resp, body := gone.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != 404 {
		t.Errorf("after its profile was removed: %s %s", resp.Status, body)
	}
	if got := stays.names("tools/list", "tools", "name"); got != "calendar_list digest mail_list" {
		t.Errorf("after its profile was changed: %s", got)
	}
	if n := p.Status().Sessions; n > 20 {
		t.Errorf("%d sessions", n)
	}
}

// TestListenersEndWithTheirProfile: a subscriptions/listen stream ends, with its result, when its profile is removed,
// and those of other paths continue.
func TestListenersEndWithTheirProfile(t *testing.T) {
	testmode.Parallel(t)
	mail, calendar := department("mail", "list"), department("calendar", "list")
	mailURL, calendarURL := sdkBackend(t, mail, false), sdkBackend(t, calendar, true)
	p, url := start(t, officeConfig(mailURL, calendarURL))
	gone, stays, all := listensAt(t, url, "/reading"), listensAt(t, url, "/post"), listensAt(t, url, "")
	if err := p.Apply(officeConfig(mailURL, calendarURL, config.Profile{Name: "post"})); err != nil {
		t.Fatal(err)
	}
	comesTrue(t, func() bool { return gone.count("result") == 1 && gone.count("end") == 1 })
	told := stays.count("notifications/tools/list_changed")
	addEcho(mail, "mail", "move")
	comesTrue(t, func() bool {
		return stays.count("notifications/tools/list_changed") > told && all.count("notifications/tools/list_changed") > 0
	})
	if stays.count("end")+all.count("end") != 0 {
		t.Errorf("streams of paths that there are: %v, %v", stays, all)
	}
}

// listensAt opens a stream of subscriptions/listen for tools, and records its messages and its end.
func listensAt(t *testing.T, url, path string) *heard {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url+path, strings.NewReader(
		`{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"subscriptions/listen"}}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	go func() {
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				h.note(cmp.Or(jsonscan.GetString([]byte(data), "method"), "result"))
			}
		}
		h.note("end")
	}()
	comesTrue(t, func() bool { return h.count("notifications/subscriptions/acknowledged") == 1 })
	return h
}

// notices opens a session, and records its notifications: changed tools, and prompts with their number.
func notices(t *testing.T, url, profile string) *heard {
	t.Helper()
	h := &heard{}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { h.note("tools") },
		PromptListChangedHandler: func(ctx context.Context, r *mcp.PromptListChangedRequest) {
			list, err := r.Session.ListPrompts(ctx, nil)
			if err != nil {
				return // the test is over
			}
			for _, p := range list.Prompts {
				h.note("prompts " + strings.TrimPrefix(p.Name, "mail_p"))
			}
		},
	})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(url+"/"+profile, "/")}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return h
}

// TestListsOfProfilesChangeApart: a change is announced to a profile whose list has changed, by a backend or by the
// configuration.
func TestListsOfProfilesChangeApart(t *testing.T) {
	testmode.Parallel(t)
	mail, calendar := department("mail", "list"), department("calendar", "list")
	mailURL, calendarURL := sdkBackend(t, mail, false), sdkBackend(t, calendar, false)
	p, url := start(t, officeConfig(mailURL, calendarURL))
	all, post, reading, large := notices(t, url, ""), notices(t, url, "post"), notices(t, url, "reading"), notices(t, url, "large")
	marks := 0
	mark := func() { // what was announced before has arrived: it may go out together with the first prompt, in any order
		t.Helper()
		for range 2 {
			marks++
			addPrompt(mail, fmt.Sprintf("p%d", marks))
			comesTrue(t, func() bool {
				return !slices.ContainsFunc([]*heard{all, post, reading, large}, func(h *heard) bool { return h.count(fmt.Sprintf("prompts %d", marks)) == 0 })
			})
		}
	}
	mark()
	began := map[*heard]int{all: all.count("tools"), post: post.count("tools"), reading: reading.count("tools"), large: large.count("tools")}
	expect := func(what string, ofAll, ofPost, ofReading, ofLarge int) {
		t.Helper()
		mark()
		for h, want := range map[*heard]int{all: ofAll, post: ofPost, reading: ofReading, large: ofLarge} {
			if got := h.count("tools") - began[h]; got != want {
				t.Errorf("%s: %v, want %d, %d, %d, %d of tools", what, []*heard{all, post, reading, large}, ofAll, ofPost, ofReading, ofLarge)
			}
		}
	}
	addEcho(calendar, "calendar", "add")
	expect("a tool of calendar", 1, 0, 1, 1)
	addEcho(mail, "mail", "delete")
	expect("a tool that two profiles leave out", 2, 0, 1, 2)
	addEcho(mail, "mail", "move")
	expect("a tool that all have", 3, 1, 2, 3)
	next := officeConfig(mailURL, calendarURL, config.Profile{Name: "post", Workloads: []string{"mail"}, Tools: []string{"mail_list"}},
		config.Profile{Name: "reading", Tools: []string{"!*_delete", "!*_send", "!x"}}, config.Profile{Name: "large", Workloads: []string{"mail"}})
	if err := p.Apply(next); err != nil {
		t.Fatal(err)
	}
	expect("profiles of another configuration", 3, 2, 2, 4)
}

// TestNobodyWaitsForAnotherProfile: a name that only a backend outside of the profile could have is unknown at once,
// while that backend is starting and when it is down.
func TestNobodyWaitsForAnotherProfile(t *testing.T) {
	testmode.Parallel(t)
	slow := newGated(t, "list")
	cfg := officeConfig(slow.url, slow.url)
	cfg.Operational.Startup.Wait = config.Duration(time.Hour)
	cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "none", Workloads: []string{"mail"}, Tools: []string{"mail_get"}})
	_, c := young(t, cfg)
	url := c.url
	for profile, name := range map[string]string{"post": "calendar_list", "none": "mail_list", "reading": "mail_send"} {
		c := at(t, url, profile)
		if got := c.request("tools/call", fmt.Sprintf(`{"name":%q}`, name)); !strings.Contains(got, "unknown tool: "+name) {
			t.Errorf("%s at %s: %s", name, profile, got)
		}
	}
	c = at(t, url, "post")
	answer := make(chan string, 1)
	go func() { answer <- c.request("tools/call", `{"name":"mail_list"}`) }()
	slow.open()
	if got := <-answer; !strings.Contains(got, "done") {
		t.Errorf("mail_list: %s", got)
	}
}

// TestAProfileWaitsForItsOwn: its lists are answered when its own backends are ready, while another one is starting.
func TestAProfileWaitsForItsOwn(t *testing.T) {
	testmode.Parallel(t)
	cfg := officeConfig(sdkBackend(t, department("mail", "list"), false), newGated(t, "list").url)
	cfg.Operational.Startup.Wait = config.Duration(time.Hour)
	_, c := young(t, cfg)
	if got := at(t, c.url, "post").names("tools/list", "tools", "name"); got != "digest mail_list" {
		t.Errorf("post lists %q", got)
	}
}

// TestTheProfileOfStdio: one client, one profile; a configuration without it is refused.
func TestTheProfileOfStdio(t *testing.T) {
	testmode.Parallel(t)
	cfg := officeConfig(sdkBackend(t, department("mail", "list"), false), sdkBackend(t, department("calendar", "list"), true))
	p := proxy.New(proxy.Options{Profile: "post"})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		fromClient, in := io.Pipe()
		out, toClient := io.Pipe()
		go p.ServeStdio(t.Context(), fromClient, toClient)
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 2 {
			t.Errorf("%s: %v, %v", revision, list, err)
		}
		s.Close()
	}
	none := *cfg
	none.Profiles = nil
	if err := p.Apply(&none); err == nil || err.Error() != `no profile "post": the configuration has none` {
		t.Errorf("a configuration without it: %v", err)
	}
	if n := len(p.Status().Profiles); n != 3 {
		t.Errorf("%d profiles are left", n)
	}
}

// TestAProfileIsAResource: its challenge names its own metadata, and a token for it is accepted there only.
func TestAProfileIsAResource(t *testing.T) {
	const resource = "https://mcp.example.com/mcp"
	issuer := authtest.NewIssuer(t)
	p := newProxy(t, &config.Config{Profiles: []config.Profile{{Name: "office"}, {Name: "home"}}, IncomingAuth: config.IncomingAuth{Type: "oidc", OIDC: config.OIDC{
		Issuer: issuer.URL, Audience: resource, InsecureAllowHTTP: true, JWKSAllowPrivateIP: true,
	}}})
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	resp, _ := ask(t, "POST", srv.URL+"/mcp/office", "", greet)
	const metadata = "/.well-known/oauth-protected-resource/mcp/office"
	if got, want := resp.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="https://mcp.example.com`+metadata+`"`; got != want {
		t.Errorf("challenge %s, want %s", got, want)
	}
	if _, body := ask(t, "GET", srv.URL+metadata, "", ""); !strings.Contains(body, `"resource":"`+resource+`/office"`) {
		t.Errorf("metadata %s", body)
	}
	for audience, in := range map[string]string{resource: "/mcp /mcp/office /mcp/home", resource + "/office": "/mcp/office"} {
		token := issuer.Token(t, audience, nil)
		for _, path := range []string{"/mcp", "/mcp/office", "/mcp/home"} {
			want := 401
			if slices.Contains(strings.Fields(in), path) {
				want = 200
			}
			if resp, body := ask(t, "POST", srv.URL+path, token, greet); resp.StatusCode != want {
				t.Errorf("a token for %s at %s: %s %s, want %d", audience, path, resp.Status, body, want)
			}
		}
	}
}

// TestPoliciesMayNameAProfile: what a policy permits through one profile, it permits through no other.
func TestPoliciesMayNameAProfile(t *testing.T) {
	testmode.Parallel(t)
	cfg := officeConfig(sdkBackend(t, department("mail", "list"), false), sdkBackend(t, department("calendar", "list"), true))
	cfg.IncomingAuth.Authz = config.Authz{Policies: []string{
		`permit(principal, action, resource in Backend::"mail") when { context.profile == "post" };`,
		`permit(principal, action, resource == Tool::"calendar_list") when { ["", "post"].contains(context.profile) };`,
	}}
	_, url := start(t, cfg)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for profile, want := range map[string]string{"": "calendar_list", "post": "mail_list", "reading": ""} {
			s := connect(t, strings.TrimSuffix(url+"/"+profile, "/"), revision, nil)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s at %q: %q, want %q", revision, profile, got, want)
			}
			_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "mail_list"})
			if (err == nil) != (profile == "post") {
				t.Errorf("%s at %q: mail_list: %v", revision, profile, err)
			}
		}
	}
}
