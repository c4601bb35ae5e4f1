package policy_test

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// Developers may read files, except those below /etc.
func ExampleCompile() {
	set, problems := policy.Compile(&config.Config{
		Backends: []config.Backend{{Name: "files", URL: "http://127.0.0.1/mcp"}},
		IncomingAuth: config.IncomingAuth{Type: "oidc", Authz: config.Authz{Policies: []string{
			`permit (principal in THVGroup::"dev", action == Action::"call_tool", resource == Tool::"files_read");`,
			`forbid (principal, action == Action::"call_tool", resource == Tool::"files_read") when { context has arg_path && context.arg_path like "/etc/*" };`,
		}}},
	})
	if err := problems.Err(); err != nil {
		fmt.Println(err)
	}
	bob := set.Principal(policy.Identity{Subject: "bob", Groups: []string{"dev"}})
	read := set.Entry(policy.Of{Kind: policy.Tool, Name: "files_read", Backend: "files", Original: "read"})
	for _, path := range []string{"/tmp/x", "/etc/passwd"} {
		d := set.Decide(bob, read, json.RawMessage(`{"path": "`+path+`"}`))
		fmt.Println(path, d.Outcome)
	}
	fmt.Println("listed:", set.Possible(bob, read).Outcome)
	// Output:
	// /tmp/x allow
	// /etc/passwd deny
	// listed: allow
}
