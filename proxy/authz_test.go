package proxy_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// office is a proxy with policies, over two backends that record their requests. alice has the group dev, bob none,
// carol ops with the scope mcp:read, and root is an admin.
type office struct {
	t     *testing.T
	proxy *proxy.Proxy
	file  string // the configuration
	url   string
	token map[string]string
	out   *testkit.Buffer // the audit

	mu    sync.Mutex
	asked []string // "backend method name"; guarded by mu
}

// officeOffer is what each of the two backends offers.
var officeOffer = map[string]string{
	wire.ToolsList: `{"tools":[
		{"name":"read","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}},
		{"name":"write","inputSchema":{"type":"object"}},
		{"name":"delete","annotations":{"destructiveHint":true},"inputSchema":{"type":"object"}}]}`,
	wire.PromptsList:   `{"prompts":[{"name":"greet"},{"name":"secret"}]}`,
	wire.ResourcesList: `{"resources":[{"uri":"BACKEND://a1","name":"a1"},{"uri":"BACKEND://b1","name":"b1"}]}`,
	wire.TemplatesList: `{"resourceTemplates":[{"uriTemplate":"BACKEND://a{n}","name":"as"},{"uriTemplate":"BACKEND://c/{n}","name":"cs"}]}`,
	wire.ToolsCall:     `{"content":[{"type":"text","text":"done"}]}`,
	wire.PromptsGet:    `{"messages":[]}`,
	wire.ResourcesRead: `{"contents":[]}`,
	wire.Complete:      `{"completion":{"values":["x"]}}`,
	wire.Subscribe:     `{}`,
	wire.Unsubscribe:   `{}`,
}

// backend is a server that answers with an offer; the texts BACKEND in it are its name.
func (o *office) backend(name string, offer map[string]string) *httptest.Server {
	srv := httptest.NewServer(&wiretest.Server{
		Capabilities: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{}}`,
		Handle: func(c *wiretest.Call) (string, error) {
			if c.Method == wire.Initialize {
				return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{}},"serverInfo":{"name":"x","version":"1"},"instructions":"how to use ` + name + `"}`, nil
			}
			o.mu.Lock()
			o.asked = append(o.asked, strings.TrimSpace(name+" "+c.Method+" "+jsonscan.GetString(c.Params, "name")+jsonscan.GetString(c.Params, "uri")))
			o.mu.Unlock()
			if r, ok := offer[c.Method]; ok {
				return strings.ReplaceAll(r, "BACKEND", name), nil
			}
			return "", wiretest.ErrDefault
		}})
	o.t.Cleanup(srv.Close)
	return srv
}

// took returns the requests to the backends since the last call.
func (o *office) took() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = nil
	return asked
}

// openOffice serves a configuration with this authz, in YAML; more are further fields of the file.
func openOffice(t *testing.T, authz, more string) *office {
	t.Helper()
	o := &office{t: t, out: &testkit.Buffer{}, token: map[string]string{}}
	backends := fmt.Sprintf("backends:\n  - {name: files, url: %q}\n  - {name: git, url: %q}\n",
		o.backend("files", officeOffer).URL, o.backend("git", officeOffer).URL)
	o.serve(backends, authz, more)
	return o
}

func (o *office) serve(backends, authz, more string) {
	t := o.t
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	for _, who := range []auth.Token{
		{Name: "alice", Groups: []string{"dev"}}, {Name: "bob"}, {Name: "carol", Groups: []string{"ops"}, Scopes: []string{"mcp:read"}},
		{Name: "root", Groups: []string{"platform", "dev"}},
	} {
		token, err := auth.NewToken(tokens, who)
		if err != nil {
			t.Fatal(err)
		}
		o.token[who.Name] = token
	}
	o.file = filepath.Join(dir, "vmcp.yaml")
	o.write(backends, authz, more)
	o.proxy = proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), AuditOut: o.out})
	srv := httptest.NewServer(o.proxy.Handler())
	t.Cleanup(func() { o.proxy.Close(); srv.Close() })
	o.url = srv.URL + "/mcp"
	if err := o.apply(); err != nil {
		t.Fatal(err)
	}
	if err := o.proxy.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.took()
}

func (o *office) write(backends, authz, more string) {
	o.t.Helper()
	text := backends + "incomingAuth:\n  type: tokens\n  tokens: {file: tokens.yaml}\n  authz:\n" + indent(authz, 4) + "\naudit: {enabled: true, mode: strict}\n" + more
	if err := os.WriteFile(o.file, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

func indent(text string, n int) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "\n"+pad)
}

func (o *office) apply() error {
	o.t.Helper()
	cfg, err := config.Load(o.file)
	if err != nil {
		return err
	}
	return o.proxy.Apply(cfg)
}

// visitor is a client with a token, with a session or stateless.
type visitor struct {
	o       *office
	who     string
	session string // "" is a client of 2026-07-28
}

func (o *office) session(who string) *visitor {
	o.t.Helper()
	resp, body := ask(o.t, "POST", o.url, o.token[who], greet)
	if resp.StatusCode != 200 {
		o.t.Fatalf("initialize of %s: %s %s", who, resp.Status, body)
	}
	id := resp.Header.Get("Mcp-Session-Id")
	ask(o.t, "POST", o.url, o.token[who], `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
	return &visitor{o, who, id}
}

func (o *office) stateless(who string) *visitor { return &visitor{o: o, who: who} }

// comesTrue waits until a condition is true.
func comesTrue(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute")
		}
	}
}

// reply is everything that a client sees of a response.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r *reply) String() string {
	header := r.header.Clone()
	header.Del("Date")
	return fmt.Sprintf("%d %v %s", r.status, header, r.body)
}

func (r *reply) result() json.RawMessage { return jsonscan.Get([]byte(r.body), "result") }

func (r *reply) code() string {
	return string(jsonscan.GetPath([]byte(r.body), "error", "code"))
}

// ask sends a request.
func (v *visitor) ask(method, params string) *reply {
	v.o.t.Helper()
	headers := []string{"MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", v.session}
	if v.session == "" {
		params = string(jsonscan.Set([]byte(params), "_meta", []byte(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`)))
		headers = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		if name, ok := wire.MethodOf(method).NameIn([]byte(params)); ok {
			headers = append(headers, "Mcp-Name", name)
		}
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	resp, text := ask(v.o.t, "POST", v.o.url, v.o.token[v.who], body, headers...)
	return &reply{resp.StatusCode, resp.Header, text}
}

// call calls a tool.
func (v *visitor) call(name, arguments string) *reply {
	v.o.t.Helper()
	return v.ask(wire.ToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// kindOfThing is one of the four lists, and how its entries are used.
type kindOfThing struct {
	list, member, name string
	use                func(name string) (method, params string)
}

var kindsOfThings = []kindOfThing{
	{wire.ToolsList, "tools", "name", func(n string) (string, string) { return wire.ToolsCall, fmt.Sprintf(`{"name":%q}`, n) }},
	{wire.PromptsList, "prompts", "name", func(n string) (string, string) { return wire.PromptsGet, fmt.Sprintf(`{"name":%q}`, n) }},
	{wire.ResourcesList, "resources", "uri", func(n string) (string, string) { return wire.ResourcesRead, fmt.Sprintf(`{"uri":%q}`, n) }},
	{wire.TemplatesList, "resourceTemplates", "uriTemplate", func(n string) (string, string) {
		return wire.Complete, fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"n","value":""}}`, n)
	}},
}

// listed are the names on all pages of a list.
func (v *visitor) listed(k kindOfThing) (names []string) {
	v.o.t.Helper()
	for cursor := ""; ; {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		r := v.ask(k.list, params)
		if r.status != 200 || r.result() == nil {
			v.o.t.Fatalf("%s of %s: %v", k.list, v.who, r)
		}
		jsonscan.Elements(jsonscan.Get(r.result(), k.member), func(e []byte) bool {
			names = append(names, jsonscan.GetString(e, k.name))
			return true
		})
		if cursor = jsonscan.GetString(r.result(), "nextCursor"); cursor == "" {
			slices.Sort(names)
			return names
		}
	}
}

const officeRules = `
allow:
  - {name: dev-files, groups: [dev], tools: ["files.*"], prompts: ["files.*"], resources: ["files.files://a*"]}
  - {name: readers, tools: ["*"], when: readOnly}
  - {name: ops-git, groups: [ops], scopes: ["mcp:read"], tools: ["git.write"], prompts: ["git.greet"], resources: ["git.*"]}
admins: {groups: [platform]}
`

// Lists contain exactly what can be used, in both eras.
func TestListsAreWhatIsCallable(t *testing.T) {
	o := openOffice(t, officeRules, "")
	everybody := o.offered()
	shown := map[string]int{}
	for _, who := range []string{"alice", "bob", "carol"} {
		for _, v := range []*visitor{o.session(who), o.stateless(who)} {
			for _, k := range kindsOfThings {
				listed := v.listed(k)
				shown[who] += len(listed)
				for _, name := range everybody[k.list] {
					r := v.ask(k.use(name))
					stepUp := r.status == 403 && strings.Contains(r.header.Get("WWW-Authenticate"), "insufficient_scope")
					if callable := r.result() != nil || stepUp; callable != slices.Contains(listed, name) {
						t.Errorf("%s %q: %s has it listed: %v, and calling it comes to %v", k.list, name, who, slices.Contains(listed, name), r)
					}
				}
			}
		}
	}
	if shown["alice"] == shown["bob"] || shown["bob"] == shown["carol"] || shown["bob"] == 0 {
		t.Errorf("how much each sees: %v: this tests nothing", shown)
	}
}

// offered are all names, by list.
func (o *office) offered() map[string][]string {
	all := map[string][]string{}
	for _, b := range []string{"files", "git"} {
		for _, n := range []string{"read", "write", "delete"} {
			all[wire.ToolsList] = append(all[wire.ToolsList], b+"_"+n)
		}
		all[wire.PromptsList] = append(all[wire.PromptsList], b+"_greet", b+"_secret")
		all[wire.ResourcesList] = append(all[wire.ResourcesList], b+"://a1", b+"://b1")
		all[wire.TemplatesList] = append(all[wire.TemplatesList], b+"://a{n}", b+"://c/{n}")
	}
	return all
}

// A task belongs to its principal, also if two backends give the same id to the tasks of two, and can be accessed as
// long as its tool may be used, however often.
func TestTasksAreDecidedByTheirTool(t *testing.T) {
	offer := maps.Clone(officeOffer)
	offer[wire.ToolsCall] = `{"resultType":"task","taskId":"t-1","status":"working"}`
	offer[wire.TasksGet] = `{"taskId":"t-1","status":"working","by":"BACKEND"}`
	o := &office{t: t, out: &testkit.Buffer{}, token: map[string]string{}}
	backends := fmt.Sprintf("backends:\n  - {name: files, url: %q}\n  - {name: git, url: %q}\n", o.backend("files", offer).URL, o.backend("git", offer).URL)
	const rules = `
allow:
  - {name: devs, groups: [dev], tools: ["files.write"]}
  - {name: ops, groups: [ops], tools: ["git.write"]}
`
	o.serve(backends, rules, "")
	alice, bob, carol := o.stateless("alice"), o.stateless("bob"), o.stateless("carol")
	alice.call("files_write", "{}")
	carol.call("git_write", "{}")
	about := func(v *visitor, want string) {
		t.Helper()
		if r := v.ask(wire.TasksGet, `{"taskId":"t-1"}`); !strings.Contains(r.body, want) {
			t.Errorf("%s asks about t-1: %v\nwant %s", v.who, r, want)
		}
	}
	for range 3 {
		about(alice, `"by":"files"`)
		about(bob, "unknown task: t-1")
		about(carol, `"by":"git"`)
	}
	o.write(backends, strings.Replace(rules, "files.write", "files.read", 1), "")
	if err := o.apply(); err != nil {
		t.Fatal(err)
	}
	about(alice, "unknown task: t-1")
	about(carol, `"by":"git"`)
}

// An invisible entry is answered like one that does not exist, byte for byte but for its name, and its backend gets no
// request.
func TestHiddenReadsAsUnknown(t *testing.T) {
	o := openOffice(t, officeRules, "")
	for _, era := range []string{"session", "stateless"} {
		v := o.stateless("bob")
		if era == "session" {
			v = o.session("bob")
		}
		for _, tt := range []struct{ method, params, hidden, unknown string }{
			{wire.ToolsCall, `{"name":%q,"arguments":{"path":"/x"}}`, "files_delete", "files_eteled"},
			{wire.PromptsGet, `{"name":%q}`, "files_secret", "files_terces"},
			{wire.ResourcesRead, `{"uri":%q}`, "files://b1", "files://z1"},
			{wire.ResourcesRead, `{"uri":%q}`, "files://a77", "files://z77"},
			{wire.Complete, `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"n","value":""}}`, "files_secret", "files_terces"},
			{wire.Complete, `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"n","value":""}}`, "files://a{n}", "files://z{n}"},
			{wire.Subscribe, `{"uri":%q}`, "files://b1", "files://z1"},
		} {
			if tt.method == wire.Subscribe && v.session == "" {
				continue
			}
			o.took()
			hidden := v.ask(tt.method, fmt.Sprintf(tt.params, tt.hidden))
			if asked := o.took(); len(asked) > 0 {
				t.Errorf("%s %s: the backends were asked %q", tt.method, tt.hidden, asked)
			}
			unknown := v.ask(tt.method, fmt.Sprintf(tt.params, tt.unknown))
			got, want := hidden.String(), strings.ReplaceAll(unknown.String(), tt.unknown, tt.hidden)
			if got != want || hidden.result() != nil {
				t.Errorf("%s of %s in a %s:\nhidden  %s\nunknown %s", tt.method, tt.hidden, era, got, want)
			}
		}
	}
}

// The challenge names all missing scopes at once, and a token with them works in the same session.
func TestStepUp(t *testing.T) {
	testmode.Parallel(t)
	o := openOffice(t, `
allow:
  - {name: readers, tools: ["*"], when: readOnly}
  - {name: purge, scopes: ["files:admin", "files:purge"], tools: ["files.delete"]}
`, "")
	v := o.session("bob")
	r := v.call("files_delete", "{}")
	if r.status != 403 || r.code() != "403" || !strings.Contains(r.body, `"id":1`) {
		t.Errorf("without the scopes: %v", r)
	}
	if got, want := r.header.Get("WWW-Authenticate"), `Bearer error="insufficient_scope", error_description="more scopes are needed", scope="files:admin files:purge"`; got != want {
		t.Errorf("challenge %s\nwant %s", got, want)
	}
	if asked := o.took(); len(asked) > 0 {
		t.Errorf("the backends were asked %q", asked)
	}
	tokens := filepath.Join(filepath.Dir(o.file), "tokens.yaml")
	if err := auth.RevokeToken(tokens, "bob"); err != nil {
		t.Fatal(err)
	}
	token, err := auth.NewToken(tokens, auth.Token{Name: "bob", Scopes: []string{"files:purge", "files:admin"}})
	if err != nil {
		t.Fatal(err)
	}
	o.token["bob"] = token
	comesTrue(t, func() bool { return v.call("files_delete", "{}").status == 200 })
}

// A tool with conditions about arguments is listed, and a call with other arguments is refused.
func TestDeniedByArguments(t *testing.T) {
	o := openOffice(t, `
policies:
  - |
    @id("home")
    permit(principal, action == Action::"call_tool", resource in Backend::"files") when { context has arg_path && context.arg_path like "/home/*" };
`, "")
	for _, v := range []*visitor{o.session("bob"), o.stateless("bob")} {
		if got := v.listed(kindsOfThings[0]); fmt.Sprint(got) != "[files_delete files_read files_write]" {
			t.Errorf("listed: %v", got)
		}
		if r := v.call("files_read", `{"path":"/home/bob"}`); r.result() == nil {
			t.Errorf("allowed: %v", r)
		}
		o.took()
		for _, arguments := range []string{`{"path":"/etc/shadow"}`, `{}`, `{"path":"/home/x","Path":"/etc"}`, `{"path":"/home/x","path":"/etc"}`} {
			r := v.call("files_read", arguments)
			if r.status != 403 || r.code() != "403" || r.header.Get("WWW-Authenticate") != "" || !strings.Contains(r.body, "call denied by authorization policy") || strings.Contains(r.body, "etc") {
				t.Errorf("with %s: %v", arguments, r)
			}
		}
		if asked := o.took(); len(asked) > 0 {
			t.Errorf("the backends were asked %q", asked)
		}
	}
	lines := auditLines(t, o.out.String(), audit.ToolCall)
	denied, allowed := lines[len(lines)-1], lines[0]
	if denied.Outcome != audit.Denied || denied.Metadata.Extra.Decision != "deny" || denied.Target["backend"] != "files" || denied.Target["original"] != "read" {
		t.Errorf("the line of a denied call: %+v", denied)
	}
	if allowed.Metadata.Extra.Decision != "allow" || allowed.Metadata.Extra.Policy != "home" {
		t.Errorf("the line of an allowed call: %+v", allowed)
	}
}

// A backend whose names resemble another's is not covered by a rule for that one.
func TestForgedPrefix(t *testing.T) {
	o := &office{t: t, out: &testkit.Buffer{}, token: map[string]string{}}
	offer := func(tool string) map[string]string {
		all := maps.Clone(officeOffer)
		all[wire.ToolsList] = `{"tools":[{"name":"` + tool + `","inputSchema":{"type":"object"}}]}`
		return all
	}
	honest, forger := o.backend("a_b", offer("c")), o.backend("a", offer("b_c"))
	backends := fmt.Sprintf("backends:\n  - {name: a, url: %q}\n  - {name: a_b, url: %q}\n", forger.URL, honest.URL)
	for _, authz := range []string{`allow: [{name: abc, tools: ["a_b.c"]}]`, `policies: ['permit(principal, action, resource == Tool::"a_b_c");']`} {
		o.serve(backends, authz, "")
		v := o.session("bob")
		if got := v.listed(kindsOfThings[0]); len(got) != 0 {
			t.Errorf("%s: listed %q", authz, got)
		}
		if r := v.call("a_b_c", "{}"); r.result() != nil {
			t.Errorf("%s: %v", authz, r)
		}
		if asked := o.took(); len(asked) > 0 {
			t.Errorf("%s: the backends were asked %q", authz, asked)
		}
	}
}

// Calls made by a script need the permission of its caller, or none if scripts: owner is set.
func TestCallsInsideOfScripts(t *testing.T) {
	const scripts = `
scriptedTools:
  - name: tidy
    description: d
    script: |
      def run(params):
          r = try_call_tool(params["tool"], {"path": "/x"})
          return {"ok": r.ok, "kind": r.kind, "error": r.error}
  - name: strict
    description: d
    script: |
      def run(params):
          return call_tool("files.delete", {})
  - name: secret-script
    description: d
    script: |
      def run(params):
          return "done"
`
	const rules = `
allow:
  - {name: scripts, tools: ["scripts.tidy", "scripts.strict"]}
  - {name: dev, groups: [dev], tools: ["files.*"]}
  - {name: purge, scopes: [purge], tools: ["git.delete"]}
scripts: `
	o := openOffice(t, rules+"caller", scripts)
	v := o.session("bob")
	for _, tt := range []struct{ tool, want string }{
		{"files_delete", `"kind":"denied"`}, {"files.delete", `"kind":"denied"`}, {"secret-script", `"kind":"denied"`}, {"files_read", `"kind":"denied"`},
		{"git.delete", `needs the scopes purge`},
		{"files_delet", `no tool \"files_delet\""`}, // and no word of files_delete
	} {
		r := v.call("tidy", fmt.Sprintf(`{"tool":%q}`, tt.tool))
		if got := string(jsonscan.Get(r.result(), "structuredContent")); !strings.Contains(got, tt.want) {
			t.Errorf("%s inside of a script of bob: %v\nwant %s", tt.tool, r, tt.want)
		}
	}
	if r := v.call("strict", "{}"); !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, "call denied by authorization policy") {
		t.Errorf("a call that is not caught: %v", r)
	}
	if asked := o.took(); len(asked) > 0 {
		t.Errorf("the backends were asked %q", asked)
	}
	if r := o.session("alice").call("tidy", `{"tool":"files_delete"}`); !strings.Contains(r.body, `"ok":true`) {
		t.Errorf("inside of a script of alice: %v", r)
	}
	steps := auditLines(t, o.out.String(), audit.StepFailed, audit.StepCompleted)
	if s := steps[0]; s.Type != audit.StepFailed || s.Outcome != audit.Denied || s.Metadata.Extra.Decision != "deny" || s.Metadata.Extra.Parent == "" {
		t.Errorf("the line of a denied step: %+v", s)
	}
	owners := openOffice(t, rules+"owner", scripts)
	if r := owners.session("bob").call("tidy", `{"tool":"files_delete"}`); !strings.Contains(r.body, `"ok":true`) {
		t.Errorf("the script as owner: %v", r)
	}
	if r := owners.session("bob").call("files_delete", `{}`); r.result() != nil {
		t.Errorf("the tool itself: %v", r)
	}
	if r := owners.session("bob").call("tidy", `{"tool":"files_delet"}`); !strings.Contains(r.body, `no tool \"files_delet\""`) {
		t.Errorf("a name that nobody has, in a script that is an owner: %v", r)
	}
}

// Policies are applied as a whole or not at all, and apply to open sessions.
func TestPoliciesAreReplaced(t *testing.T) {
	o := openOffice(t, officeRules, "")
	v := o.session("bob")
	if r := v.call("files_delete", "{}"); r.result() != nil {
		t.Fatalf("before: %v", r)
	}
	text, _ := os.ReadFile(o.file)
	backends, _, _ := strings.Cut(string(text), "incomingAuth:")
	o.write(backends, `policies: ['permit(principal, action, resourc);']`, "")
	if err := o.apply(); err == nil || !strings.Contains(err.Error(), "vmcp.yaml") {
		t.Errorf("a broken policy: %v", err)
	}
	if r := v.call("files_delete", "{}"); r.result() != nil {
		t.Errorf("after a broken policy: %v", r)
	}
	if r := v.call("files_read", "{}"); r.result() == nil {
		t.Errorf("after a broken policy: %v", r)
	}
	o.write(backends, `allow: [{name: all, tools: ["files.delete"]}]`, "")
	if err := o.apply(); err != nil {
		t.Fatal(err)
	}
	if got := v.listed(kindsOfThings[0]); fmt.Sprint(got) != "[files_delete]" {
		t.Errorf("after another policy: %q", got)
	}
	if r := v.call("files_read", "{}"); r.result() != nil {
		t.Errorf("what is not allowed any more: %v", r)
	}
}

// Instructions are those of backends with visible entries, and lists are private.
func TestWhatIsSaidOfBackends(t *testing.T) {
	o := openOffice(t, `allow: [{name: dev, groups: [dev], tools: ["*"]}, {name: all, resources: ["git.git://b1"]}]`, "")
	for who, want := range map[string]string{"alice": "# files\nhow to use files\n\n# git\nhow to use git", "bob": "# git\nhow to use git"} {
		_, body := ask(t, "POST", o.url, o.token[who], greet)
		if got := jsonscan.GetString(jsonscan.Get([]byte(body), "result"), "instructions"); got != want {
			t.Errorf("initialize of %s: %q", who, got)
		}
		r := o.stateless(who).ask(wire.Discover, "{}")
		if got := jsonscan.GetString(r.result(), "instructions"); got != want {
			t.Errorf("server/discover of %s: %q", who, got)
		}
		for _, k := range kindsOfThings {
			if r := o.stateless(who).ask(k.list, "{}"); jsonscan.GetString(r.result(), "cacheScope") != "private" {
				t.Errorf("%s of %s: %v", k.list, who, r)
			}
		}
	}
}

// Traces contain the calls of a script, and are for admins.
func TestTracesAreForAdmins(t *testing.T) {
	o := openOffice(t, `
allow: [{name: all, tools: ["*"]}]
admins: {groups: [platform]}
`, "scriptedTools:\n  - name: tidy\n    description: d\n    script: |\n      def run(params):\n          return call_tool(\"files.read\", {})\n")
	for who, want := range map[string]bool{"alice": false, "root": true} {
		r := o.session(who).ask(wire.ToolsCall, `{"name":"tidy","arguments":{},"_meta":{"dev.vmcp/trace":true}}`)
		if got := strings.Contains(r.body, "files.read"); got != want || r.result() == nil {
			t.Errorf("%s is shown the trace: %v, want %v: %v", who, got, want, r)
		}
	}
}

// TestScriptsKnowTheirCaller() is the client's principal in a script, and in one that it calls.
func TestScriptsKnowTheirCaller(t *testing.T) {
	o := openOffice(t, `allow: [{name: all, tools: ["*"]}]`, `
scriptedTools:
  - {name: inner, description: d, script: "def run(params):\n    return caller()\n"}
  - {name: outer, description: d, script: "def run(params):\n    return {\"me\": caller(), \"inner\": call_tool(\"inner\")}\n"}
`)
	const carol = `{"subject":"carol","issuer":"vmcp:tokens","groups":["ops"],"scopes":["mcp:read"],"client":""}`
	for _, v := range []*visitor{o.session("carol"), o.stateless("carol")} {
		if got, want := string(jsonscan.Get(v.call("outer", "{}").result(), "structuredContent")), `{"me":`+carol+`,"inner":`+carol+`}`; got != want {
			t.Errorf("caller() is %s\nwant %s", got, want)
		}
	}
	_, url := start(t, &config.Config{ScriptedTools: []config.ScriptedTool{{Name: "who", Description: "d", Script: "def run(params):\n    return caller()\n"}}})
	_, body := ask(t, "POST", url, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "who")
	if got, want := string(jsonscan.GetPath([]byte(body), "result", "structuredContent")), `{"subject":"anonymous","issuer":"","groups":[],"scopes":[],"client":""}`; got != want {
		t.Errorf("without authentication: %s\nwant %s", body, want)
	}
}

// TestAuthorizationTakenAway: a configuration without authorization behind one with it is applied, and the log says what that means.
func TestAuthorizationTakenAway(t *testing.T) {
	var log testkit.Buffer
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close()
	const line = "now permitted: everybody, everything"
	for i, tt := range []struct {
		authz string
		want  int
	}{
		{", authz: {allow: [{name: all, tools: ['*']}]}", 0}, {"", 1}, {"", 1}, {", authz: {allow: [{name: all, tools: ['*']}]}", 1}, {", authz: {type: none}", 2},
	} {
		cfg, err := config.Parse("vmcp.yaml", []byte("backends: []\nincomingAuth: {type: local"+tt.authz+"}\n"))
		if err == nil {
			err = p.Apply(cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), line); n != tt.want {
			t.Errorf("configuration %d (%s): %d lines %q, want %d:\n%s", i, tt.authz, n, line, tt.want, log.String())
		}
	}
}
