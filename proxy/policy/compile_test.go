package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, authz, want string }{
		{"broken in a block", "policies:\n  - |\n    permit(principal, action, resource);\n    forbid(principal action, resource);", `vmcp.yaml:9:26: error: incomingAuth.authz.policies[0]: not Cedar: want ",", have "action" [policy]`},
		{"broken in a line", "policies: ['permit(principal, action);']", `vmcp.yaml:6:16: error: incomingAuth.authz.policies[0]: not Cedar, line 1, column 25 of the text: want ",", have ")" [policy]`},
		{"twice", "policies: ['@id(\"a\") permit(principal, action, resource); @id(\"a\") permit(principal, action, resource);']", `another policy with @id("a")`},
		{"named as a rule", "allow: [{name: a, tools: ['*']}]\npolicies: ['@id(\"a\") permit(principal, action, resource);']", `another policy with @id("a")`},
		{"entities", "entitiesJson: '{'\nallow: [{name: a, tools: ['*']}]", `incomingAuth.authz.entitiesJson: want a JSON list of entities`},
		{"exposed", "policies: ['permit(principal, action, resource == Tool::\"git_log\");']", `warning: incomingAuth.authz.policies[0]: "git_log" is the exposed name of the tool`},
		{"exposed, its origin", "policies: ['permit(principal, action, resource) when { resource.name == \"git_log\" };']", `resource.backend == "git" && resource.original == "log"`},
		{"action", "policies: ['permit(principal, action == Action::\"call_tol\", resource);']", `there is no action "call_tol"; did you mean "call_tool"?`},
		{"type", "policies: ['permit(principal in Group::\"a\", action, resource);']", `no entity has the type Group; want Client, THVGroup,`},
		{"server", "policies: ['permit(principal, action, resource in MCP::\"x\");']", `this server is MCP::"vmcp", by the field name of the configuration; MCP::"x" is another one`},
		{"backend", "policies: ['permit(principal, action, resource in Backend::\"x\");']", `there is no backend "x"`},
		{"unguarded", "policies: ['forbid(principal, action, resource) when { context.arg_path like \"/etc/*\" };']", `forbids every call without the argument path`},
		{"empty", "policies: ['// nothing']", `warning: incomingAuth.authz.policies[0]: the text has no policies`},
		{"none", "type: cedar", `incomingAuth.authz.type: authz needs policies, policyFiles or allow`},
		{"off", "type: none\nallow: [{name: a, tools: ['*']}]", `incomingAuth.authz.type: type none ignores the policies that are configured; want cedar`},
		{"no backend", "allow: [{name: a, tools: ['file.*']}]", `incomingAuth.authz.allow[0].tools[0]: there is no backend "file"; did you mean "files.*"?`},
		{"no origin", "allow: [{name: a, tools: ['read']}]", `want an origin, which is a backend and its own name for it, such as "files.read", or "*" for all; have "read"`},
		{"nothing", "allow: [{name: a, groups: [b]}]", `incomingAuth.authz.allow[0]: allows nothing`},
		{"empty list", "allow: [{name: a, groups: [], tools: ['*']}]", `an empty list matches no principal: want names, or leave it out to match all`},
		{"when", "allow: [{name: a, prompts: ['*'], when: readOnly}]", `readOnly is about tools, and this rule has none`},
		{"no file", "policyFiles: [no/*.cedar]", `incomingAuth.authz.policyFiles[0]: no file "no/*.cedar"`},
		{"fine", "allow: [{name: a, tools: ['files.*'], when: readOnly}]\npolicies: ['permit(principal, action == Action::\"list_tools\", resource);']", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, problems := configured(t, tt.authz)
			if !cfg.Partial() {
				_, found := policy.Compile(cfg)
				problems = append(problems, found...)
			}
			if got := problems.Error(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFilesSayWhereTheyAreWrong(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.cedar": "@id(\"good\")\npermit(principal, action, resource);\n",
		"bad.cedar":  "// a comment\npermit(principal, action, resource)\nwhen { principal.x == };\n",
		"vmcp.yaml":  "incomingAuth:\n  authz:\n    policyFiles: ['*.cedar']\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, problems := configuredFile(t, filepath.Join(dir, "vmcp.yaml"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set, problems := policy.Compile(cfg)
	want := diag.Pos{File: diag.File(filepath.Join(dir, "bad.cedar")), Line: 3, Column: 23}
	if set != nil || len(problems) != 1 || problems[0].Pos != want {
		t.Fatalf("set %v, problems %v\nwant one at %v", set, problems, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.cedar"), []byte("permit(principal, action, resource);\n@id(\"b\") permit(principal, action, resource);"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems = policy.Compile(cfg)
	if names := strings.Join(set.Names(), " "); len(problems) > 0 || names != diag.File(filepath.Join(dir, "bad.cedar"))+":1 b good" {
		t.Errorf("names %q, problems %v", names, problems)
	}
}

func TestPrint(t *testing.T) {
	set := compiled(t, `
allow:
  - {name: dev-read, groups: [dev, "o\"ps"], tools: ["files.read", "scripts.*"], prompts: ["files.*"], resources: ["files.note://a*"]}
  - {name: readers, scopes: ["mcp:read", x], subjects: [bob], clients: [cli], tools: ["*"], when: readOnly}
policies: ['permit(principal, action == Action::"call_tool", resource);']
`)
	const want = `@id("dev-read")
permit ( principal, action in [Action::"call_tool", Action::"get_prompt", Action::"read_resource"], resource )
when { principal in THVGroup::"dev" || principal in THVGroup::"o\"ps" }
when { resource is Tool && (resource.backend == "files" && resource.original == "read" || resource.backend == "scripts" && resource.original like "*") || resource is Prompt && (resource.backend == "files" && resource.original like "*") || resource is Resource && (resource.backend == "files" && resource.original like "note://a*") };

@id("readers")
@scopes("mcp:read x")
permit ( principal, action == Action::"call_tool", resource is Tool )
when { principal == Client::"bob" }
when { principal.client == "cli" }
when { principal.scopes.containsAll(["mcp:read", "x"]) }
when { resource has readOnlyHint && resource.readOnlyHint && true };

// incomingAuth.authz.policies[0]
permit ( principal, action == Action::"call_tool", resource );
`
	got := set.Print()
	if strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The printed policies decide as the originals.
	again := compiled(t, "policies:\n  - |\n    "+strings.ReplaceAll(strings.TrimSpace(got), "\n", "\n    "))
	if again.Print() != strings.Replace(got, "// incomingAuth.authz.policies[0]", "// "+again.Names()[2], 1) {
		t.Errorf("printed again:\n%s", again.Print())
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`permti(principal, action, resource);`, `:1:1: error: not Cedar: want permit or forbid, have "permti"`},
		{"permit(principal, action, resource)", `:1:36: error: not Cedar: want ";" before the end`},
		{"permit(principal, action, resource)\nwhen { foo };", ":2:8: error: not Cedar: want an expression"},
		{`permit(principal, action, resource) when { "abc };`, `:1:44: error: not Cedar: literal not terminated`},
		{`permit(principal, action, resource) when { bar(1) };`, "is not a function"},
		{`permit(principal, action, resource) when { 99999999999999999999 == 1 };`, `:1:44: error: not Cedar: 99999999999999999999: value out of range`},
		{`permit(principal, action, resource) when { principal.é };`, `:1:54: error`},
	} {
		name := filepath.Join(t.TempDir(), "p.cedar")
		if err := os.WriteFile(name, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _ := configured(t, "policyFiles: ['"+name+"']")
		if _, problems := policy.Compile(cfg); !strings.Contains(problems.Error(), tt.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tt.text, problems, tt.want)
		}
	}
}
