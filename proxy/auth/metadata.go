package auth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// wellKnown is the path of the metadata of a protected resource (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataURL is the URL of the protected resource's metadata, of a profile if it is not ""; ""
// without an issuer. It is made from the configured resource, never from a request's Host.
func (a *Authenticator) MetadataURL(profile string) string {
	u, err := url.Parse(a.resource())
	if a.cfg.Type != "oidc" || err != nil || u.Host == "" {
		return ""
	}
	u = u.JoinPath(profile)
	u.Path, u.RawQuery, u.Fragment = wellKnown+strings.TrimSuffix(u.Path, "/"), "", ""
	return u.String()
}

// resource is the resource identifier of the endpoint (RFC 8707).
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

// resourceAt returns the resource whose metadata are at a path: the endpoint, or one of its
// profiles; "" for none.
func (a *Authenticator) resourceAt(path string, profiles []string) string {
	u, err := url.Parse(a.resource())
	if err != nil {
		return ""
	}
	mine := wellKnown + strings.TrimSuffix(u.Path, "/")
	if path == wellKnown || path == mine {
		return a.resource()
	}
	name, below := strings.CutPrefix(path, mine+"/")
	if !below || !slices.Contains(profiles, name) {
		return ""
	}
	return strings.TrimSuffix(a.resource(), "/") + "/" + name
}

// ServeMetadata serves the resource's metadata, at the root and below the resource's path,
// and those of the profiles. Pages of any origin may read them.
func (a *Authenticator) ServeMetadata(w http.ResponseWriter, r *http.Request, profiles []string) {
	resource := a.resourceAt(r.URL.Path, profiles)
	if a.cfg.Type != "oidc" || resource == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions { // clients in browsers send Mcp-Protocol-Version
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
	_ = json.NewEncoder(w).Encode(metadata{resource, []string{a.cfg.OIDC.Issuer}, a.advertised(), []string{"header"}}) // an error means that the client has disconnected
}

// metadata describes a protected resource (RFC 9728, section 2). A member without elements is left out (section 3.2).
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
}
