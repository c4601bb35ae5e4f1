package auth_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/auth/authtest"
)

// TestATokenForAProfile: it is accepted at its profile only, and one for the endpoint everywhere, both for
// JWTs and for introspected tokens.
func TestATokenForAProfile(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	cfg := oidc(issuer)
	cfg.OIDC.IntrospectionURL = issuer.URL + "/introspect"
	a, _ := newAuth(t, cfg)
	for _, tt := range []struct {
		name, aud, in string
		more          []string
	}{
		{name: "the endpoint", aud: audience, in: ", office, home"},
		{name: "a profile", aud: audience + "/office", in: "office"},
		{name: "two profiles", aud: audience + "/office", more: []string{audience + "/home", "https://other.example"}, in: "office, home"},
		{name: "a profile and the endpoint", aud: audience + "/office", more: []string{audience}, in: ", office, home"},
		{name: "below a profile", aud: audience + "/office/x"},
		{name: "no name", aud: audience + "/"},
		{name: "another server", aud: "https://mcp.example.com/mcpx/office"},
		{name: "its beginning", aud: "https://mcp.example.com"},
	} {
		all := append([]string{tt.aud}, tt.more...)
		opaque := "opaque-" + strings.ReplaceAll(tt.name, " ", "-")
		issuer.Opaque(opaque, map[string]any{"sub": "bob", "scope": "x", "aud": all, "iss": issuer.URL})
		for _, token := range []string{issuer.Token(t, audience, map[string]any{"aud": all}), opaque} {
			var in []string
			for _, profile := range []string{"", "office", "home"} {
				for range 2 { // the second time it is known
					p, err := a.AuthenticateAt(profile, request("Bearer "+token))
					q, err2 := a.VerifyAt(t.Context(), profile, token)
					if (err == nil) != (err2 == nil) || err == nil && (p == nil || q == nil) {
						t.Errorf("%s at %q: %v, and %v without a request", tt.name, profile, err, err2)
					}
					if err != nil && err.Error() != "the token is for another audience" {
						t.Errorf("%s at %q: %v", tt.name, profile, err)
					}
					if err == nil && (len(in) == 0 || in[len(in)-1] != profile) {
						in = append(in, profile)
					}
				}
			}
			if got := strings.Join(in, ", "); got != tt.in {
				t.Errorf("%s: comes in at %q, want %q", tt.name, got, tt.in)
			}
		}
	}
}

// TestMetadataOfProfiles: each profile is a separate resource, whose metadata a challenge names (RFC 9728, section
// 3.3).
func TestMetadataOfProfiles(t *testing.T) {
	const root = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	a, _ := newAuth(t, oidc(authtest.NewIssuer(t)))
	if got := [2]string{a.MetadataURL(""), a.MetadataURL("office")}; got != [2]string{root, root + "/office"} {
		t.Errorf("challenges name %q", got)
	}
	for path, want := range map[string]string{"": audience, "/office": audience + "/office", "/nobody": "", "/office/": "", "/": ""} {
		w := httptest.NewRecorder()
		a.ServeMetadata(w, httptest.NewRequest(http.MethodGet, root+path, nil), []string{"office"})
		if got := w.Body.String(); (w.Code == 200) != (want != "") || want != "" && !strings.Contains(got, `"resource":"`+want+`"`) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, got, want)
		}
	}
	cfg := oidc(authtest.NewIssuer(t))
	cfg.OIDC.Audience = "vmcp" // no URL, and nothing is below it
	named, _ := newAuth(t, cfg)
	if got := named.MetadataURL("office"); got != "" {
		t.Errorf("without a URL as resource: %q", got)
	}
}
