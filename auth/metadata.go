package auth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// wellKnown is where a protected resource describes itself (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataURL is where clients find out how to get a token; "" when there is nothing to
// find out. It is made of the configured resource, never of a request's Host.
func (a *Authenticator) MetadataURL() string {
	u, err := url.Parse(a.resource())
	if a.cfg.Type != "oidc" || err != nil || u.Host == "" {
		return ""
	}
	u.Path, u.RawQuery, u.Fragment = wellKnown+strings.TrimSuffix(u.Path, "/"), "", ""
	return u.String()
}

// resource is what tokens are for (RFC 8707).
func (a *Authenticator) resource() string {
	if a.cfg.OIDC.Resource != "" {
		return a.cfg.OIDC.Resource
	}
	return a.cfg.OIDC.Audience
}

// IsMetadata reports whether a path is one of a protected resource's metadata.
func IsMetadata(path string) bool {
	return path == wellKnown || strings.HasPrefix(path, wellKnown+"/")
}

// ServeMetadata answers a request for the resource's metadata, at the root and below the
// resource's path; any page may read it.
func (a *Authenticator) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	u, err := url.Parse(a.resource())
	mine := err == nil && (r.URL.Path == wellKnown || r.URL.Path == wellKnown+strings.TrimSuffix(u.Path, "/"))
	if a.cfg.Type != "oidc" || !mine {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions { // clients in pages say which revision of MCP they speak
		w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD")
		w.Header().Set("Access-Control-Allow-Headers", "Accept, Content-Type, Mcp-Protocol-Version")
		w.Header().Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that left is no error of ours
		"resource":                 a.resource(),
		"authorization_servers":    []string{a.cfg.OIDC.Issuer},
		"scopes_supported":         a.advertised(),
		"bearer_methods_supported": []string{"header"},
	})
}
