package proxy_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// replace applies other policies.
func (o *office) replace(authz, more string) {
	o.t.Helper()
	text, err := os.ReadFile(o.file)
	if err != nil {
		o.t.Fatal(err)
	}
	backends, _, _ := strings.Cut(string(text), "incomingAuth:")
	o.write(backends, authz, more)
	if err := o.apply(); err != nil {
		o.t.Fatal(err)
	}
}

// A suspended run that is resumed is subject to the policies of that moment.
func TestSuspendedRunsAskThePoliciesInForce(t *testing.T) {
	const scripts = `
scriptedTools:
  - name: careful
    description: d
    script: |
      def run(params):
          before = try_call_tool("files.read")
          elicit("Go on?")
          after = try_call_tool("files.write")
          return {"before": before.ok, "after": after.ok, "kind": after.kind}
`
	const all = `allow: [{name: all, tools: ["*"]}]`
	for _, tt := range []struct{ name, then, want string }{
		{"the same", all, `{"before":true,"after":true,"kind":null}`},
		{"without the tool that comes next", `allow: [{name: some, tools: ["files.read", "scripts.*"]}]`, `{"before":true,"after":false,"kind":"denied"}`},
		{"without the tool that was called", `allow: [{name: some, tools: ["files.write", "scripts.*"]}]`, `{"before":true,"after":true,"kind":null}`},
		{"without the script", `allow: [{name: some, tools: ["files.*"]}]`, ``},
	} {
		o := openOffice(t, all, scripts)
		v := o.stateless("bob")
		asked := v.call("careful", "{}").result()
		state := jsonscan.GetString(asked, "requestState")
		if state == "" {
			t.Fatalf("%s: %s", tt.name, asked)
		}
		answers := ""
		jsonscan.Each(jsonscan.Get(asked, "inputRequests"), func(key, _ []byte) bool {
			answers = fmt.Sprintf(`{%q:{"action":"accept","content":{}}}`, key)
			return true
		})
		o.replace(tt.then, scripts)
		r := v.ask(wire.ToolsCall, fmt.Sprintf(`{"name":"careful","arguments":{},"requestState":%q,"inputResponses":%s}`, state, answers))
		if got := string(jsonscan.Get(r.result(), "structuredContent")); got != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.name, r, tt.want)
		}
	}
}

// A principal that may no longer call a tool cannot access its tasks.
func TestTasksNeedTheRightToTheirTool(t *testing.T) {
	o := &office{t: t, out: &testkit.Buffer{}, token: map[string]string{}}
	offer := maps.Clone(officeOffer)
	offer[wire.ToolsCall] = `{"task":{"taskId":"t-1","status":"working"}}`
	offer[wire.TasksGet] = `{"taskId":"t-1","status":"working"}`
	o.serve(fmt.Sprintf("backends:\n  - {name: files, url: %q}\n  - {name: git, url: %q}\n", o.backend("files", offer).URL, o.backend("git", officeOffer).URL),
		`allow: [{name: all, tools: ["*"]}]`, "")
	v := o.session("bob")
	v.call("files_read", "{}")
	get := func(id string) *reply { return v.ask(wire.TasksGet, fmt.Sprintf(`{"taskId":%q}`, id)) }
	if r := get("t-1"); r.result() == nil {
		t.Fatalf("one's own task: %v", r)
	}
	o.replace(`allow: [{name: some, tools: ["git.*"]}]`, "")
	o.took()
	if got, want := get("t-1").String(), strings.ReplaceAll(get("t-2").String(), "t-2", "t-1"); got != want {
		t.Errorf("a task of a tool that is hidden now reads\n%s\nan unknown one\n%s", got, want)
	}
	o.replace(`allow: [{name: some, scopes: [more], tools: ["files.read"]}]`, "")
	if r := get("t-1"); r.status != 403 || !strings.Contains(r.header.Get("WWW-Authenticate"), `scope="more"`) {
		t.Errorf("a task of a tool that takes more scopes now: %v", r)
	}
	if asked := o.took(); len(asked) > 0 {
		t.Errorf("the backends were asked %q", asked)
	}
}

// On stdio the client is the principal of its token.
func TestPoliciesOnStdio(t *testing.T) {
	o := openOffice(t, officeRules, "")
	for who, want := range map[string]int{"alice": 4, "bob": 2} { // files.* and what only reads
		if err := o.proxy.Verify(t.Context(), o.token[who]); err != nil {
			t.Fatal(err)
		}
		in, answers := io.Pipe()
		out, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- o.proxy.ServeStdio(context.WithoutCancel(t.Context()), in, out) }()
		io.WriteString(answers, greet+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`+"\n")
		answers.Close()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(out.Name())
		if got := strings.Count(string(text), "inputSchema"); got != want {
			t.Errorf("%s is listed %d tools, want %d: %s", who, got, want, text)
		}
	}
}

// The samples of ToolHive's documentation, which use exposed names, give the documented decisions.
func TestPoliciesOfToolHive(t *testing.T) {
	o := openOffice(t, `
type: cedar
entitiesJson: "[]"
policies:
  - 'permit(principal, action == Action::"call_tool", resource == Tool::"files_read");'
  - 'permit(principal in THVGroup::"dev", action == Action::"call_tool", resource == Tool::"files_write") when { context.arg_operation == "add" || context.arg_operation == "subtract" };'
  - 'permit(principal == Client::"carol", action == Action::"call_tool", resource);'
  - 'forbid(principal, action == Action::"call_tool", resource == Tool::"files_delete");'
  - 'permit(principal, action == Action::"get_prompt", resource == Prompt::"git_greet");'
  - 'permit(principal, action == Action::"read_resource", resource == Resource::"files://a1");'
  - 'permit(principal, action in [Action::"list_tools", Action::"list_prompts"], resource);'
  - 'permit(principal, action == Action::"call_tool", resource == Tool::"git_delete") when { principal.claim_sub == "alice" };'
`, "")
	for _, tt := range []struct {
		who, method, params string
		status              int  // of HTTP
		done                bool // the backend answers
	}{
		{"bob", wire.ToolsCall, `{"name":"files_read"}`, 200, true},
		{"bob", wire.ToolsCall, `{"name":"files_write","arguments":{"operation":"add"}}`, 200, false},
		{"alice", wire.ToolsCall, `{"name":"files_write","arguments":{"operation":"add"}}`, 200, true},
		{"alice", wire.ToolsCall, `{"name":"files_write","arguments":{"operation":"divide"}}`, 403, false},
		{"alice", wire.ToolsCall, `{"name":"files_write"}`, 403, false},
		{"alice", wire.ToolsCall, `{"name":"git_delete"}`, 200, true},
		{"bob", wire.ToolsCall, `{"name":"git_delete"}`, 200, false},
		{"carol", wire.ToolsCall, `{"name":"git_write"}`, 200, true},
		{"carol", wire.ToolsCall, `{"name":"files_delete"}`, 200, false},
		{"bob", wire.PromptsGet, `{"name":"git_greet"}`, 200, true},
		{"bob", wire.PromptsGet, `{"name":"git_secret"}`, 200, false},
		{"bob", wire.ResourcesRead, `{"uri":"files://a1"}`, 200, true},
		{"bob", wire.ResourcesRead, `{"uri":"files://a2"}`, 200, false},
	} {
		r := o.session(tt.who).ask(tt.method, tt.params)
		if r.status != tt.status || (r.result() != nil) != tt.done {
			t.Errorf("%s: %s %s: %v; want %d, done: %v", tt.who, tt.method, tt.params, r, tt.status, tt.done)
		}
	}
}

// randomAuthz makes policies whose conditions about arguments are single comparisons of path.
func randomAuthz(r *rand.Rand) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	var b strings.Builder
	b.WriteString("policies:\n")
	for range 2 + r.IntN(4) {
		fmt.Fprintf(&b, "  - |\n    %s(%s, %s, %s)%s;\n",
			pick("permit", "permit", "permit", "forbid"),
			pick("principal", `principal in THVGroup::"dev"`, `principal in THVGroup::"ops"`, `principal == Client::"bob"`),
			pick("action", `action == Action::"call_tool"`, `action == Action::"get_prompt"`, `action == Action::"read_resource"`, `action in [Action::"get_prompt", Action::"read_resource"]`),
			pick("resource", `resource in Backend::"files"`, `resource in Backend::"git"`, `resource == Tool::"files_read"`, `resource == Prompt::"git_greet"`, `resource == Resource::"git://b1"`, "resource is Tool"),
			pick("", "", ` when { context has arg_path && context.arg_path == "a" }`, ` unless { context has arg_path && context.arg_path like "b*" }`, ` when { principal.scopes.contains("mcp:read") }`, ` when { resource has readOnlyHint && resource.readOnlyHint }`))
	}
	for i := range r.IntN(3) {
		if i == 0 {
			b.WriteString("allow:\n")
		}
		fmt.Fprintf(&b, "  - {name: rule%d, %s %s}\n", i, pick("", "groups: [dev],", "subjects: [carol],", "scopes: [more],", "scopes: [mcp:read],"),
			pick(`tools: ["*"]`, `tools: ["files.*"]`, `prompts: ["git.*"]`, `resources: ["*"], tools: ["git.read"]`))
	}
	return b.String()
}

// For random policies: a tool is listed exactly if some arguments are allowed, and one that is not listed is answered
// like one that does not exist.
func TestListsAreWhatIsCallableUnderRandomPolicies(t *testing.T) {
	rounds := 3
	if testmode.Thorough() {
		rounds = 150
	}
	o := openOffice(t, officeRules, "")
	all := o.offered()
	listed, hidden, argued := 0, 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 3))
		authz := randomAuthz(r)
		o.replace(authz, "")
		for _, who := range []string{"alice", "bob", "carol"} {
			v := o.stateless(who)
			if r.IntN(2) == 0 {
				v = o.session(who)
			}
			for _, k := range kindsOfThings {
				shown := v.listed(k)
				for _, name := range all[k.list] {
					done, refused, unknown := 0, 0, 0
					for _, arguments := range []string{`{}`, `{"path":"a"}`, `{"path":"bc"}`, `{"path":"c"}`} {
						method, params := k.use(name)
						switch r := v.ask(method, string(jsonscan.Set([]byte(params), "arguments", []byte(arguments)))); {
						case r.result() != nil, strings.Contains(r.header.Get("WWW-Authenticate"), "insufficient_scope"):
							done++
						case r.status == 403:
							refused++
						default:
							unknown++
						}
					}
					is := slices.Contains(shown, name)
					switch {
					case is != (done > 0), unknown > 0 && unknown < 4, is == (unknown > 0):
						t.Fatalf("seed %d: %s has %s %q listed: %v; of four calls %d are done, %d refused, %d unknown\n%s", seed, who, k.member, name, is, done, refused, unknown, authz)
					case is && refused > 0:
						argued++
					case is:
						listed++
					default:
						hidden++
					}
				}
			}
		}
	}
	if listed == 0 || hidden == 0 || testmode.Thorough() && argued == 0 {
		t.Errorf("%d listed, %d hidden, %d by their arguments: this tests nothing", listed, hidden, argued)
	}
}
