package config

import "testing"

// TestStatefulServersAreHinted: a well-known server that keeps state per client causes a hint,
// unless the file sets its sessions.
func TestStatefulServersAreHinted(t *testing.T) {
	for _, tt := range []struct {
		backend string
		want    bool
	}{
		{"{name: a, command: npx, args: [-y, '@playwright/mcp@latest']}", true},
		{"{name: a, command: uvx, args: [mcp-server-sqlite]}", true},
		{"{name: a, command: npx, args: [chrome-devtools-mcp]}", true},
		{"{name: a, command: npx, args: ['@playwright/mcp'], sessions: exclusive}", false},
		{"{name: a, command: npx, args: ['@playwright/mcp'], sessions: auto}", false},
		{"{name: a, command: workspace, args: [-root, playwrights]}", false},
		{"{name: a, url: 'http://127.0.0.1:1/playwright'}", false},
	} {
		c, err := Parse("vmcp.yaml", []byte("backends:\n  - "+tt.backend+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(c.Warnings()) > 0; got != tt.want {
			t.Errorf("%s: warnings %v, want some: %v", tt.backend, c.Warnings(), tt.want)
		}
	}
}
