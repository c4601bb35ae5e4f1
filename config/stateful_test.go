package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestStatefulServersAreHinted: a well-known server that keeps state per client causes a hint,
// unless the file sets its sessions; sessions: exclusive causes one where nobody is authenticated.
func TestStatefulServersAreHinted(t *testing.T) {
	for _, tt := range []struct {
		rest string
		want string
	}{
		{"{name: a, command: npx, args: [-y, '@playwright/mcp@latest']}", "keeps state"},
		{"{name: a, command: uvx, args: [mcp-server-sqlite]}", "keeps state"},
		{"{name: a, command: npx, args: [chrome-devtools-mcp]}", "keeps state"},
		{"{name: a, command: npx, args: ['@playwright/mcp'], sessions: auto}", ""},
		{"{name: a, command: workspace, args: [-root, playwrights]}", ""},
		{"{name: a, url: 'http://127.0.0.1:1/playwright'}", ""},
		{"{name: a, command: npx, args: ['@playwright/mcp'], sessions: exclusive}", "set incomingAuth: {type: local}"},
		{"{name: a, url: 'http://127.0.0.1:1/mcp', sessions: exclusive}\nincomingAuth: {type: anonymous}", "set incomingAuth: {type: local}"},
		{"{name: a, command: x, sessions: exclusive}\nlisten: 0.0.0.0:1", "set incomingAuth with a login"},
		{"{name: a, command: x, sessions: exclusive}\nincomingAuth: {type: local}", ""},
		{"{name: a, command: x, sessions: shared}", ""},
	} {
		c, err := Parse("vmcp.yaml", []byte("backends:\n  - "+tt.rest+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Warnings()); tt.want == "" && len(c.Warnings()) > 0 || !strings.Contains(got, tt.want) {
			t.Errorf("%s: warnings %s, want %q", tt.rest, got, tt.want)
		}
	}
}
