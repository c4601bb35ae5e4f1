package config

import (
	"strings"
	"testing"
)

// TestAuthzWithoutRules: an authz that is there and permits nothing is refused, in whatever way its rules are missing. It is no
// endpoint without authorization: whoever removes the last rule, or renders an empty list, did not ask for that.
func TestAuthzWithoutRules(t *testing.T) {
	const want = "authz needs policies, policyFiles or allow: without them every request would be denied"
	for _, authz := range []string{
		"", "null", "~", "{}", "{type: cedar}", "{allow: []}", "{allow:}", "{allow: null}", "{policies: []}", "{policyFiles: []}", "{admins: {groups: [ops]}}", "{scripts: caller}", "{groupClaimName: roles}",
	} {
		_, err := parse("vmcp.yaml", []byte("backends: []\nincomingAuth:\n  authz: "+authz+"\n"), testEnv)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "vmcp.yaml:3:") {
			t.Errorf("authz: %s\n got %v\nwant vmcp.yaml:3: … %s", authz, err, want)
		}
	}
	for _, authz := range []string{"{type: none}", "{type: none, admins: {groups: [ops]}}", `{policies: ["permit(principal, action, resource);"]}`} {
		if _, err := parse("vmcp.yaml", []byte("backends: []\nincomingAuth:\n  authz: "+authz+"\n"), testEnv); err != nil {
			t.Errorf("authz: %s: %v", authz, err)
		}
	}
}

// TestUnrestricted: an endpoint for other machines whose callers log in, and may then do everything, is warned about unless
// somebody wrote that this is meant.
func TestUnrestricted(t *testing.T) {
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"listen: 0.0.0.0:4483\nincomingAuth: {type: oidc, oidc: {issuer: https://idp.example.com, audience: a}}", true},
		{"listen: 127.0.0.1:4483\nincomingAuth: {type: oidc, oidc: {issuer: https://idp.example.com, audience: a}}", false},
		{"listen: 0.0.0.0:4483\nincomingAuth: {type: oidc, oidc: {issuer: https://idp.example.com, audience: a}, authz: {type: none}}", false},
		{"listen: 0.0.0.0:4483\nincomingAuth: {type: oidc, oidc: {issuer: https://idp.example.com, audience: a}, authz: {allow: [{name: x, tools: ['*']}]}}", false},
		{"listen: 0.0.0.0:4483", false},
	} {
		c, err := parse("testdata/vmcp.yaml", []byte(tt.text+"\nbackends: []\n"), testEnv)
		if err != nil {
			t.Fatalf("%s: %v", tt.text, err)
		}
		warned := strings.Contains(c.Warnings().Error(), EveryCallerMayDoEverything)
		if c.Unrestricted() != tt.want || warned != tt.want {
			t.Errorf("%s: unrestricted %t, warned %t, want %t", tt.text, c.Unrestricted(), warned, tt.want)
		}
	}
}
