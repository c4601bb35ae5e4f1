package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// configured reads a configuration with this text as authz and two backends.
func configured(t testing.TB, authz string) (*config.Config, diag.Problems) {
	t.Helper()
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(authz), "\n", "\n    ")
	text := "backends:\n  - {name: files, url: http://localhost:1/mcp}\n  - {name: git, url: http://localhost:2/mcp}\nincomingAuth:\n  authz:\n" + indented + "\n"
	name := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configuredFile(t, name)
}

func configuredFile(t testing.TB, name string) (*config.Config, diag.Problems) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Read(name, text)
	if cfg == nil {
		t.Fatal(problems)
	}
	return cfg, problems
}

func compiled(t testing.TB, authz string) *policy.Set {
	t.Helper()
	cfg, problems := configured(t, authz)
	set, found := policy.Compile(cfg)
	if errs, _ := append(problems, found...).Split(); len(errs) > 0 || set == nil {
		t.Fatal(errs)
	}
	return set
}

// tool is a tool of a backend under the name with the backend's prefix.
func tool(set *policy.Set, origin string) *policy.Entry { return entry(set, policy.Tool, origin) }

func entry(set *policy.Set, kind policy.Kind, origin string) *policy.Entry {
	backend, name, _ := config.SplitOrigin(origin)
	exposed := backend + "_" + name
	if kind == policy.Resource {
		exposed = name
	}
	if backend == config.ScriptsOrigin {
		exposed = name
	}
	return set.Entry(policy.Of{Kind: kind, Name: exposed, Backend: backend, Original: name})
}

func TestDecide(t *testing.T) {
	set := compiled(t, `
type: cedar
policies:
  - |
    @id("ops")
    permit(principal in THVGroup::"ops", action, resource);
    @id("no-etc")
    forbid(principal, action == Action::"call_tool", resource) when { context has arg_path && context.arg_path like "/etc/*" };
    @id("exposed")
    permit(principal, action == Action::"call_tool", resource == Tool::"git_log");
    @id("owner")
    permit(principal, action == Action::"call_tool", resource == Tool::"git_push") when { context.arg_owner == principal.claim_sub };
    @id("weekday")
    permit(principal, action == Action::"call_tool", resource == Tool::"git_tag") when { context.claim_day == "monday" };
allow:
  - {name: dev-read, groups: [dev], tools: ["files.read", "scripts.*"], prompts: ["files.*"], resources: ["files.note://a*"]}
  - {name: step, groups: [dev], scopes: ["files:admin", "files:purge"], tools: [files.delete]}
  - {name: by-name, subjects: [carol], clients: [cli], tools: ["git*.*_file"]}
`)
	who := map[string]policy.Identity{
		"ops": {Subject: "olga", Groups: []string{"ops"}}, "dev": {Subject: "dan", Groups: []string{"dev"}},
		"dev+": {Subject: "dan", Groups: []string{"dev"}, Scopes: []string{"files:purge", "x", "files:admin"}},
		"bob":  {Subject: "bob"}, "carol": {Subject: "carol", Client: "cli"}, "carol-web": {Subject: "carol", Client: "web"},
		"monday": {Subject: "m", Claims: map[string]any{"day": "monday"}},
	}
	for _, tt := range []struct{ who, kind, origin, args, want string }{
		{"ops", "tool", "files.write", `{"path":"/tmp"}`, "allow ops"},
		{"ops", "tool", "files.write", `{"path":"/etc/passwd"}`, "deny no-etc"},
		{"ops", "tool", "files.write", `{"path":"/tmp","path":"/etc/passwd"}`, "deny"},
		{"ops", "tool", "files.write", `{"Path":"/etc/passwd"}`, "deny"},
		{"ops", "tool", "files.write", `{"path":"\u002fetc/passwd"}`, "deny no-etc"},
		{"ops", "prompt", "files.p", ``, "allow ops"},
		{"dev", "tool", "files.read", ``, "allow dev-read"},
		{"dev", "tool", "files.reader", ``, "invisible"},
		{"dev", "tool", "files.read.x", ``, "invisible"},
		{"dev", "tool", "scripts.deploy", ``, "allow dev-read"},
		{"dev", "prompt", "files.anything", ``, "allow dev-read"},
		{"dev", "prompt", "git.anything", ``, "invisible"},
		{"dev", "resource", "files.note://a/b", ``, "allow dev-read"},
		{"dev", "resource", "files.note://b", ``, "invisible"},
		{"dev", "tool", "files.delete", ``, "step-up step [files:admin files:purge]"},
		{"dev+", "tool", "files.delete", ``, "allow step"},
		{"bob", "tool", "files.delete", ``, "invisible"},
		{"bob", "tool", "git.log", ``, "allow exposed"},
		{"bob", "tool", "git.push", `{"owner":"bob"}`, "allow owner"},
		{"bob", "tool", "git.push", `{"owner":"ann"}`, "deny"},
		{"bob", "tool", "git.push", ``, "deny"},
		{"bob", "tool", "git.tag", ``, "invisible"},
		{"monday", "tool", "git.tag", ``, "allow weekday"},
		{"carol", "tool", "git.read_file", ``, "allow by-name"},
		{"carol", "tool", "git.read_files", ``, "invisible"},
		{"carol-web", "tool", "git.read_file", ``, "invisible"},
	} {
		kind, _ := policy.KindOf(tt.kind)
		d := set.Decide(set.Principal(who[tt.who]), entry(set, kind, tt.origin), []byte(tt.args))
		got := strings.TrimSpace(d.Outcome.String() + " " + strings.Join(d.Policies, ","))
		if len(d.Scopes) > 0 {
			got += fmt.Sprint(" ", d.Scopes)
		}
		if got != tt.want {
			t.Errorf("%s %s %s %s: %s, want %s", tt.who, tt.kind, tt.origin, tt.args, got, tt.want)
		}
	}
}
