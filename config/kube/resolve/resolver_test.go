package resolve_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

var open = resolve.Options{AllowAnonymous: true}

const entry = `---
apiVersion: vmcp.dev/v1alpha1
kind: MCPServerEntry
metadata: {name: github}
spec:
  groupRef: {name: g}
  remoteUrl: https://mcp.example.com/mcp
  transport: streamable-http
`

// TestAnObjectIsServed: all conditions of objects without problems.
func TestAnObjectIsServed(t *testing.T) {
	w := newWorld(t, open)
	w.live["github"] = ""
	w.apply(entry + toolOf("one", "hello", "1") + serverOf("ops", "scriptedToolRefs: [{name: one}]"))
	w.serves("ops", "hello=1")
	for name, want := range map[string]string{
		"VirtualMCPServer ops": `1/1 /ops/mcp
Accepted=True Accepted: spec and references are good
ScriptsValid=True Compiled: 1 tool compiled
BackendsReady=True AllReady: 1 backend ready
Ready=True Served: this generation is served`,
		"MCPServerEntry github": `1/1
Accepted=True Accepted: spec and references are good
Ready=True Served: connected`,
		"VirtualMCPScriptedToolDefinition one": `1/1
Accepted=True Accepted: spec and references are good
ScriptsValid=True Compiled: compiled
Ready=True Served: this generation is served`,
	} {
		if got := w.status(name); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	c := w.served["ops"].Config
	if c.Name != "ops" || len(c.Backends) != 1 || c.Backends[0].URL != "https://mcp.example.com/mcp" || c.Backends[0].MaxConnections != 64 {
		t.Errorf("config: %+v", c.Backends)
	}
	w.resolve()
	if !w.served["ops"].Same {
		t.Error("nothing changed, and the configuration is not the same")
	}
}

func TestBackendsThatAreAway(t *testing.T) {
	w := newWorld(t, open)
	w.apply(entry + strings.ReplaceAll(entry, "github", "jira") + serverOf("ops", ""))
	w.has("VirtualMCPServer ops", "BackendsReady=Unknown NoneAvailable: connecting: github, jira", "Ready=True Served")
	w.has("MCPServerEntry github", "Ready=Unknown Unavailable: connecting")
	w.live["github"], w.live["jira"] = "", "connection refused"
	w.has("VirtualMCPServer ops", "BackendsReady=False SomeUnavailable: jira: connection refused", "Ready=True Served")
	w.has("MCPServerEntry jira", "Ready=False Unavailable: connection refused")
	w.has("MCPServerEntry github", "Ready=True Served: connected")
	w.live["github"] = "no route"
	w.has("VirtualMCPServer ops", "BackendsReady=False NoneAvailable: github: no route, jira: connection refused")
}

// TestABrokenToolStopsNoOther: its condition has the position, and its last good version stays in force.
func TestABrokenToolStopsNoOther(t *testing.T) {
	w := newWorld(t, open)
	w.apply(toolOf("a", "a", "1") + toolOf("b", "b", "undefinde") + serverOf("ops", "scriptedToolRefs: [{name: a}, {name: b}]"))
	w.serves("ops", "a=1")
	w.has("VirtualMCPScriptedToolDefinition b", "0/1", "Accepted=True", "ScriptsValid=False CompileFailed: b.star:2:12: undefined: undefinde", "Ready=False NotServed")
	w.has("VirtualMCPServer ops", "ScriptsValid=False CompileFailed: 1 of 2 tools: b: b.star:2:12: undefined: undefinde", "Ready=True Served")
	w.apply(toolOf("b", "b", "2"))
	w.serves("ops", "a=1 b=2")
	w.has("VirtualMCPScriptedToolDefinition b", "2/2", "ScriptsValid=True", "Ready=True Served")
	w.apply(toolOf("b", "b", ") ("))
	w.serves("ops", "a=1 b=2")
	w.has("VirtualMCPScriptedToolDefinition b", "2/3", "ScriptsValid=False CompileFailed: b.star:2:12:", "Ready=False LastGoodServed: generation 2 is served")
	w.apply(strings.Replace(toolOf("b", "b", "3"), "description:", "descripton:", 1))
	w.serves("ops", "a=1 b=2")
	w.has("VirtualMCPScriptedToolDefinition b", "2/4", `Accepted=False Invalid: spec.descripton: unknown field; did you mean "description"?; spec.description: missing; it needs one`)
	w.restart(open)
	w.resolve()
	w.serves("ops", "a=1")
	w.has("VirtualMCPScriptedToolDefinition b", "0/4", "Ready=False NotServed")
	delete(w.state.Scripted, "a")
	w.resolve()
	w.serves("ops", "")
	w.has("VirtualMCPServer ops", "Accepted=False RefNotFound: spec.config.scriptedToolRefs[0]: there is no VirtualMCPScriptedToolDefinition a", "Ready=True Served")
}

func TestABrokenServerKeepsItsLastGoodVersion(t *testing.T) {
	w := newWorld(t, open)
	inline := func(expression string) string {
		return serverOf("ops", "scriptedTools:\n  - name: in\n    description: d\n    script: |\n      def run(p):\n          return "+expression)
	}
	w.apply(inline("nothing"))
	w.serves("ops", "not served")
	w.has("VirtualMCPServer ops", "0/1", "ScriptsValid=False CompileFailed: 1 of 1 tool: in: in.star:2:12: undefined: nothing", "Ready=False NotServed")
	w.apply(inline("1"))
	w.serves("ops", "in=1")
	for _, tt := range []struct{ manifest, want string }{
		{inline("nothing"), "ScriptsValid=False CompileFailed: 1 of 1 tool: in: in.star:2:12"},
		{serverOf("ops", "agregation: {}"), `Accepted=False Invalid: spec.config.agregation: unknown field; did you mean "aggregation"?`},
		{serverOf("ops", "scriptedToolRefs: [{name: nobody}]"), "Accepted=False RefNotFound: spec.config.scriptedToolRefs[0]: there is no VirtualMCPScriptedToolDefinition nobody"},
		{serverOf("ops", "libraries: [{name: a.star, sourceFrom: {configMapKeyRef: {name: no-such-map, key: k}}}]"), "Accepted=False RefNotFound: spec.config.libraries[0].sourceFrom.configMapKeyRef: there is no ConfigMap no-such-map"},
	} {
		w.apply(tt.manifest)
		w.serves("ops", "in=1")
		w.has("VirtualMCPServer ops", "2/", tt.want, "Ready=False LastGoodServed: generation 2 is served")
	}
	w.apply(inline("5"))
	w.serves("ops", "in=5")
	w.has("VirtualMCPServer ops", "7/7", "Ready=True Served")
}

// TestScriptsFromConfigMaps: keys of the same ConfigMap go before libraries, and each tool has its own.
func TestScriptsFromConfigMaps(t *testing.T) {
	w := newWorld(t, open)
	configMap := func(name, util string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  util.star: |\n" + indent(util, "    ") +
			"  main.star: |\n    load('util.star', 'x')\n    load('common.star', 'y')\n    def run(p):\n        return x + y\n"
	}
	tool := func(object, configMap string) string {
		return "---\napiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPScriptedToolDefinition\nmetadata: {name: " + object + "}\nspec: {name: " + object +
			", description: d, scriptFrom: {configMapKeyRef: {name: " + configMap + ", key: main.star}}}\n"
	}
	server := func(common string) string {
		return serverOf("ops", "scriptedToolRefs: [{name: a}, {name: b}]\nlibraries:\n  - name: common.star\n    source: "+common+"\n  - {name: util.star, source: 'z = 1'}")
	}
	w.apply(configMap("m1", "x = 1") + configMap("m2", "x = 2") + tool("a", "m1") + tool("b", "m2") + server("y = 5"))
	w.has("VirtualMCPServer ops", "ScriptsValid=True Compiled: 2 tools")
	if got := w.served["ops"].Config.ScriptedTools[1].Bundle; got == nil || got.Name != "m2" || got.File != "main.star" {
		t.Errorf("bundle: %+v", got)
	}
	w.apply(configMap("m1", "x = "))
	w.has("VirtualMCPScriptedToolDefinition a", "1/1", "ScriptsValid=False CompileFailed: m1/util.star:1:", "Ready=True Served")
	if got := w.served["ops"].Config.ScriptedTools[0].Bundle.Texts["util.star"]; got != "x = 1\n" {
		t.Errorf("what was good is not served on: util.star is %q", got)
	}
	w.apply(configMap("m1", "x = 3"))
	w.has("VirtualMCPScriptedToolDefinition a", "1/1", "ScriptsValid=True", "Ready=True Served")
	w.apply(server("y = (")) // a library with which tools that compiled do not
	w.has("VirtualMCPServer ops", "1/2", "ScriptsValid=False CompileFailed: 2 of 2 tools: a: common.star:1:", "Ready=False LastGoodServed")
	w.apply(server("y = 6"))
	w.has("VirtualMCPServer ops", "3/3", "ScriptsValid=True")
	delete(w.state.ConfigMaps, "m1")
	w.resolve()
	w.has("VirtualMCPScriptedToolDefinition a", "1/1", "Accepted=False RefNotFound: spec.scriptFrom.configMapKeyRef: there is no ConfigMap m1", "Ready=True Served")
	if got := len(w.served["ops"].Config.ScriptedTools); got != 2 {
		t.Errorf("%d tools are served after the ConfigMap has gone, want 2", got)
	}
}

// TestNames: of two tools with one name the older object's is served, also when it becomes invalid.
func TestNames(t *testing.T) {
	w := newWorld(t, open)
	w.apply(toolOf("old", "x", "1") + toolOf("young", "x", "2") + serverOf("ops", "scriptedToolRefs: [{name: young}, {name: old}]"))
	w.serves("ops", "x=1")
	conflict := "Accepted=False NameConflict: spec.name: VirtualMCPScriptedToolDefinition old has the name x in VirtualMCPServer ops already, and is older"
	w.has("VirtualMCPScriptedToolDefinition young", "0/1", conflict, "Ready=False NotServed")
	w.has("VirtualMCPScriptedToolDefinition old", "Accepted=True", "Ready=True Served")
	w.apply(toolOf("old", "x", "broken"))
	w.serves("ops", "x=1")
	w.restart(open)
	w.resolve()
	w.serves("ops", "")
	w.has("VirtualMCPScriptedToolDefinition young", conflict)
	w.apply(toolOf("old", "y", "3"))
	w.serves("ops", "x=2 y=3")
	w.apply(toolOf("old", "x", "4"))
	w.serves("ops", "x=4")
	w.has("VirtualMCPScriptedToolDefinition young", conflict)
	delete(w.state.Scripted, "old")
	w.resolve()
	w.serves("ops", "x=2")
	w.apply(serverOf("ops", "scriptedToolRefs: [{name: young}]\nscriptedTools:\n  - name: x\n    description: d\n    script: |\n      def run(p):\n          return 7\n"))
	w.serves("ops", "x=2") // the server was created after the tool
	w.has("VirtualMCPServer ops", "Accepted=False NameConflict: spec.config.scriptedTools[0].name: VirtualMCPScriptedToolDefinition young has the name x already", "Ready=True Served")
}

func TestSecrets(t *testing.T) {
	w := newWorld(t, open)
	secret := func(value string) string {
		return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {header: " + value + "}\n"
	}
	header := func() string { return w.served["ops"].Config.Backends[0].Headers["Authorization"] }
	withSecret := entry + "  headerForward:\n    addPlaintextHeaders: {X-Team: '${HOME}'}\n    addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: token, key: header}}]\n"
	w.apply(withSecret + serverOf("ops", ""))
	w.has("MCPServerEntry github", "0/1", "Accepted=False RefNotFound: spec.headerForward.addHeadersFromSecret[0].valueSecretRef: there is no Secret token", "Ready=False NotServed")
	w.apply(secret(`"Bearer a${HOME}$${b}\n"`))
	if got := header(); got != "Bearer a${HOME}$${b}" {
		t.Errorf("the header is %q", got)
	}
	c := w.served["ops"].Config
	if c.Backends[0].Headers["X-Team"] != "${HOME}" || !strings.Contains(strings.Join(c.Secrets(), " "), "a${HOME}$${b}") {
		t.Errorf("headers: %v, secrets: %v", c.Backends[0].Headers, c.Secrets())
	}
	w.apply(secret(`"Bearer two\r\n"`))
	if got := header(); got != "Bearer two" {
		t.Errorf("after the rotation the header is %q", got)
	}
	for value, want := range map[string]string{
		`"Bearer hunter2\x01"`:         "Accepted=False InvalidSecret: spec.headerForward.addHeadersFromSecret[0].valueSecretRef: key header of Secret token holds a control character",
		`"Bearer hunter2\n\n"`:         "Accepted=False InvalidSecret: spec.headerForward.addHeadersFromSecret[0].valueSecretRef: key header of Secret token holds a control character",
		`"\n"`:                         "Accepted=False InvalidSecret: spec.headerForward.addHeadersFromSecret[0].valueSecretRef: key header of Secret token is empty",
		`x, other: "hunter2"}` + "\n#": "Accepted=True",
	} {
		w.apply(secret(value))
		w.has("MCPServerEntry github", want, "1/1")
		if strings.Contains(w.status("MCPServerEntry github"), "hunter2") {
			t.Error("the status shows the secret")
		}
	}
	delete(w.state.Secrets, "token")
	before := header()
	w.resolve()
	if header() != before {
		t.Errorf("the header of the deleted Secret is %q, want %q", header(), before)
	}
	w.has("MCPServerEntry github", "1/1", "Accepted=False RefNotFound")
}

// TestWhoMayComeIn: all access rules are applied, or the server is not served.
func TestWhoMayComeIn(t *testing.T) {
	server := func(auth string) string {
		return "apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: ops}\nspec:\n  groupRef: {name: g}\n  incomingAuth: " + auth + "\n"
	}
	authz := func(text string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: authz}\ndata:\n  authz.json: '" + text + "'\n"
	}
	const fromMap = "{type: anonymous, authzConfig: {type: configMap, configMap: {name: authz}}}"
	for _, tt := range []struct{ name, manifests, want string }{
		{"anonymous", server("{type: anonymous}"), ""},
		{"policies", server("{type: anonymous, authzConfig: {type: inline, inline: {policies: ['forbid(principal, action, resource);']}}}"), ""},
		{"policies of a ConfigMap", server(fromMap) + authz(`{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);"],"entities_json":"[]"}}`), ""},
		{"no ConfigMap", server(fromMap), "RefNotFound: spec.incomingAuth.authzConfig.configMap: there is no ConfigMap authz"},
		{"a ConfigMap of something else", server(fromMap) + authz(`{"type":"opa"}`), `AuthNotCarried: spec.incomingAuth.authzConfig.configMap: key authz.json of ConfigMap authz has type "opa"; want cedarv1`},
		{"a ConfigMap without policies", server(fromMap) + authz(`{"type":"cedarv1","cedar":{"policies":[]}}`), "AuthNotCarried: spec.incomingAuth.authzConfig.configMap: key authz.json of ConfigMap authz has no policies"},
		{"a ConfigMap that is no YAML", server(fromMap) + authz(`{`), "AuthNotCarried: spec.incomingAuth.authzConfig.configMap: key authz.json of ConfigMap authz cannot be read"},
		{"another object", server("{type: anonymous, authzConfigRef: {name: theirs}}"), "AuthNotCarried: spec.incomingAuth.authzConfigRef: MCPAuthzConfig theirs is not read here"},
		{"no issuer", server("{type: oidc, oidcConfigRef: {name: idp, audience: a}}"), "RefNotFound: spec.incomingAuth.oidcConfigRef: there is no MCPOIDCConfig idp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.apply(server("{type: anonymous}"))
			w.apply(tt.manifests)
			if tt.want == "" {
				w.has("VirtualMCPServer ops", "2/2", "Accepted=True")
				return
			}
			w.has("VirtualMCPServer ops", "0/2", "Accepted=False "+tt.want, "Ready=False NotServed")
			w.serves("ops", "not served") // the previous version allowed more
			if w.r.Resolve(&w.state)["ops"].Config != nil {
				t.Error("there is a configuration to serve")
			}
		})
	}
}

func TestAnonymousIsNotAllowedEverywhere(t *testing.T) {
	w := newWorld(t, resolve.Options{})
	w.apply(serverOf("ops", "") + strings.ReplaceAll(serverOf("idp", ""), "{type: anonymous}", "{type: oidc, oidcConfigRef: {name: idp, audience: a}}"))
	w.serves("ops", "not served")
	w.has("VirtualMCPServer ops", "Accepted=False NotAllowed: spec.incomingAuth.type: anonymous lets everybody in")
	w.state.OIDC = map[string]*resolve.Issuer{"idp": {}}
	w.resolve()
	w.serves("idp", "")
	if got := w.served["idp"].Config.IncomingAuth; got.Type != "oidc" || got.OIDC.Audience != "a" {
		t.Errorf("incomingAuth: %+v", got)
	}
}

// TestARefusedConfiguration: the object that the problem is about gets its last good version.
func TestARefusedConfiguration(t *testing.T) {
	w := newWorld(t, open)
	w.live["github"] = ""
	w.apply(entry + toolOf("a", "a", "1") + serverOf("ops", "scriptedToolRefs: [{name: a}]"))
	asked := 0
	w.refuse = func(s *resolve.Server) error {
		asked++
		if len(s.Config.ScriptedTools) > 0 && strings.Contains(s.Config.ScriptedTools[0].Script, "2") {
			return problem("scriptedTools[0].output", "does not fit")
		}
		return nil
	}
	w.apply(toolOf("a", "a", "2"))
	w.serves("ops", "a=1")
	w.has("VirtualMCPScriptedToolDefinition a", "1/2", "ScriptsValid=False CompileFailed: spec.output: does not fit", "Ready=False LastGoodServed")
	if asked != 2 {
		t.Errorf("%d configurations were tried, want 2", asked)
	}
	w.resolve()
	if asked != 3 {
		t.Errorf("what is known to be refused was tried again: %d", asked)
	}
	w.refuse = func(s *resolve.Server) error {
		if s.Config.Backends[0].Timeout.String() == "5s" {
			return problem("backends[0].timeout", "too short")
		}
		if len(s.Config.PassthroughHeaders) > 0 {
			return problem("passthroughHeaders[0]", "not that one")
		}
		return nil
	}
	w.apply(entry + "  timeout: 5s\n")
	w.has("MCPServerEntry github", "1/2", "Accepted=False Invalid: spec.timeout: too short", "Ready=False LastGoodServed")
	w.apply(serverOf("ops", "passthroughHeaders: [X-A]\nscriptedToolRefs: [{name: a}]"))
	w.has("VirtualMCPServer ops", "1/2", "Accepted=False Invalid: spec.config.passthroughHeaders[0]: not that one", "Ready=False LastGoodServed")
	w.refuse = func(*resolve.Server) error { return errors.New("the store is away") }
	w.apply(serverOf("ops", "scriptedToolRefs: [{name: a}]"))
	w.has("VirtualMCPServer ops", "1/3", "Accepted=True", "Ready=False LastGoodServed: generation 1 is served: the store is away")
	w.refuse = nil
	w.resolve()
	w.has("VirtualMCPServer ops", "3/3", "Ready=True")
}

// TestARefusedPolicyIsNotLeftOut: if a policy is refused, the previous version, which allows more, is not served either.
func TestARefusedPolicyIsNotLeftOut(t *testing.T) {
	for name, err := range map[string]error{
		"a place":  problem("incomingAuth.authz.policies[0]", "not Cedar"),
		"no place": errors.New("the issuer is away"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open)
			w.apply(serverOf("ops", ""))
			w.serves("ops", "")
			w.refuse = func(*resolve.Server) error { return err }
			w.apply(strings.Replace(serverOf("ops", ""), "{type: anonymous}", "{type: anonymous, authzConfig: {type: inline, inline: {policies: [forbid]}}}", 1))
			w.serves("ops", "not served")
			w.has("VirtualMCPServer ops", "0/2", "Ready=False NotServed")
			w.refuse = nil
			w.apply(serverOf("ops", ""))
			w.has("VirtualMCPServer ops", "3/3", "Ready=True")
		})
	}
}

func TestFromToolHive(t *testing.T) {
	w := newWorld(t, open)
	const ours = "apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: team}\nspec:\n  from: {toolhive: theirs}\n"
	w.apply(ours)
	w.has("VirtualMCPServer team", "Accepted=False RefNotFound: spec.from.toolhive: there is no VirtualMCPServer theirs of toolhive.stacklok.dev", "Translated=Unknown", "Ready=False NotServed")
	spec := object.ServerSpec{IncomingAuth: &object.IncomingAuth{Type: object.Anonymous}}
	w.state.ToolHive = map[string]*resolve.Translation{"theirs": {Spec: spec, Ignored: []string{"spec.config.optimizer"},
		Backends: []resolve.Backend{{Name: "a", Object: "MCPServer a", Spec: object.EntrySpec{RemoteURL: "http://a/mcp", Transport: "sse"}}, {Name: "b", Object: "MCPServer b"}}}}
	w.live["a"] = ""
	w.resolve()
	w.has("VirtualMCPServer team", "1/1 /team/mcp", "Accepted=True", "Translated=False FieldsIgnored: spec.config.optimizer", "BackendsReady=True AllReady: 1 backend", "Ready=True")
	if got := w.served["team"].Config; got.Name != "team" || len(got.Backends) != 1 || got.Backends[0].URL != "http://a/mcp" {
		t.Errorf("config: %+v", got)
	}
	w.state.ToolHive = map[string]*resolve.Translation{"theirs": {Problem: resolve.Problem{Reason: object.ReasonAuthNotCarried, Message: "their policies"}}}
	w.resolve()
	w.has("VirtualMCPServer team", "Accepted=False AuthNotCarried: spec.from.toolhive: their policies", "Ready=False NotServed")
	w.serves("team", "not served")
	w.state.ToolHive["theirs"].Spec = spec
	w.apply(ours + "  incomingAuth: {type: anonymous}\n")
	w.has("VirtualMCPServer team", "2/2", "Accepted=True", "Ready=True")
}

func TestWhatNobodyUses(t *testing.T) {
	w := newWorld(t, open)
	w.apply(entry + toolOf("a", "a", "1"))
	w.has("MCPServerEntry github", "0/1", "Accepted=True", "Ready=False NotReferenced: no VirtualMCPServer that is served has the group g")
	w.has("VirtualMCPScriptedToolDefinition a", "0/1", "Accepted=True", "ScriptsValid=Unknown", "Ready=False NotReferenced")
}

func TestRulesForBackendsThatAreNotThere(t *testing.T) {
	w := newWorld(t, open)
	server := serverOf("ops", "aggregation: {tools: [{workload: githb, filter: [a]}]}")
	w.apply(entry + server)
	w.has("VirtualMCPServer ops", "1/1", `Accepted=False RefNotFound: spec.config.aggregation.tools[0].workload: no backend is named "githb"; did you mean "github"?`, "Ready=True Served")
}

// TestATeamCannotStopAnother: a server that cannot be served leaves the others alone.
func TestATeamCannotStopAnother(t *testing.T) {
	w := newWorld(t, open)
	w.apply(serverOf("one", "nonsense: 1") + serverOf("two", "") + serverOf("metrics", ""))
	w.serves("one", "not served")
	w.serves("two", "")
	w.has("VirtualMCPServer metrics", `Accepted=False Invalid: metadata.name: "metrics" is a path of the endpoint itself; want another name`)
}

// TestAppliedLater: Applied updates the tools also when Resolve was called again meanwhile.
func TestAppliedLater(t *testing.T) {
	w := newWorld(t, open)
	w.refuse = func(*resolve.Server) error { w.r.Resolve(&w.state); return nil }
	w.apply(toolOf("one", "hello", "1") + serverOf("ops", "scriptedToolRefs: [{name: one}]"))
	w.refuse = nil
	if !w.r.Resolve(&w.state)["ops"].Same {
		t.Error("nothing changed, and the configuration is not the same")
	}
	if got := w.status("VirtualMCPScriptedToolDefinition one"); !strings.Contains(got, "1/1") || !strings.Contains(got, "Ready=True Served") {
		t.Errorf("the tool is %s", got)
	}
}
