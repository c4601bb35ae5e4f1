package object

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// check checks a spec beyond the types of its fields, without its references.
func check[S Spec](d *document.Document, o *Object[S]) {
	switch spec := any(&o.Spec).(type) {
	case *ServerSpec:
		checkServer(d, o.Name, spec)
	case *EntrySpec:
		checkEntry(d, o.Name, spec)
	case *ScriptedSpec:
		config.CheckObjectTool(d, spec)
	}
}

// reserved are names that a server cannot have: its path /NAME would be one of the endpoint's own.
var reserved = []string{"mcp", "healthz", "health", "readyz", "metrics", "oauth", "api", "debug", "assets"}

func checkServer(d *document.Document, name string, s *ServerSpec) {
	if slices.Contains(reserved, name) || strings.HasPrefix(name, ".") {
		d.Report("metadata.name", "%q is a path of the endpoint itself; want another name", name)
	}
	switch hasGroup, hasFrom := d.Has("spec.groupRef"), d.Has("spec.from"); {
	case hasGroup == hasFrom:
		d.Report("spec", "want exactly one of groupRef and from")
	case hasFrom && s.From != nil && s.From.ToolHive == "":
		d.Report("spec.from.toolhive", "want the name of a VirtualMCPServer of ToolHive")
	case hasFrom && d.Has("spec.config"):
		d.Report("spec.config", "only with groupRef: with from the other object says it")
	case hasGroup && !d.Has("spec.incomingAuth"):
		d.Report("spec.incomingAuth", "incomingAuth is required: say {type: anonymous} to let everybody in who reaches the endpoint")
	}
	emptyName(d, "spec.groupRef", s.GroupRef)
	checkAuth(d, s.IncomingAuth)
	config.CheckObject(d, &s.Config)
}

// checkAuth checks that incomingAuth has the fields that its types need, and no others.
func checkAuth(d *document.Document, a *IncomingAuth) {
	const at = "spec.incomingAuth"
	if a == nil {
		return
	}
	switch {
	case a.Type == OIDC && a.OIDCConfigRef == nil:
		d.Report(at+".oidcConfigRef", "type oidc needs oidcConfigRef: the MCPOIDCConfig with the issuer")
	case a.Type == Anonymous && a.OIDCConfigRef != nil:
		d.Report(at+".oidcConfigRef", "only with type: oidc")
	}
	if z := a.AuthzConfig; z != nil {
		switch {
		case z.Type == "inline" && (z.Inline == nil || z.ConfigMap != nil):
			d.Report(at+".authzConfig", "type inline needs inline, and no configMap")
		case z.Type == "configMap" && (z.ConfigMap == nil || z.Inline != nil):
			d.Report(at+".authzConfig", "type configMap needs configMap, and no inline")
		case z.Type == "inline" && len(z.Inline.Policies) == 0:
			d.Report(at+".authzConfig.inline.policies", "want at least one policy: with none of them everything would be denied to everybody")
		}
	}
}

func emptyName(d *document.Document, at string, r *config.NameRef) {
	if r != nil && r.Name == "" {
		d.Report(at+".name", "want a name")
	}
}

// backendName matches the names of backends.
var backendName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func checkEntry(d *document.Document, name string, s *EntrySpec) {
	if !backendName.MatchString(name) {
		d.Report("metadata.name", "the name is that of a backend: want up to 63 letters, digits and -, without dots; have %q", name)
	}
	emptyName(d, "spec.groupRef", &s.GroupRef)
	const plain = "spec.headerForward.addPlaintextHeaders"
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.HeaderForward.AddPlaintextHeaders)) {
		at := document.KeyPath(plain, name)
		names[at] = name
		if strings.ContainsAny(s.HeaderForward.AddPlaintextHeaders[name], "\r\n\x00") {
			d.Report(at, "the value holds a line break or NUL character")
		}
	}
	for i, h := range s.HeaderForward.AddHeadersFromSecret {
		at := fmt.Sprintf("spec.headerForward.addHeadersFromSecret[%d]", i)
		names[at+".headerName"] = h.HeaderName
		for field, text := range map[string]string{"name": h.ValueSecretRef.Name, "key": h.ValueSecretRef.Key} {
			if text == "" {
				d.Report(at+".valueSecretRef."+field, "want the Secret and the key in it")
			}
		}
	}
	config.CheckBackend(d, "spec.remoteUrl", s.RemoteURL, names)
	if linkLocal(s.RemoteURL) {
		d.Report("spec.remoteUrl", "link-local addresses are refused: among them are those that hand out credentials of the machine")
	}
	if s.CABundleRef != nil && strings.HasPrefix(s.RemoteURL, "http:") {
		d.Report("spec.caBundleRef", "only with a remoteUrl that begins with https://")
	}
}

// linkLocal reports whether a URL has a link-local address, 169.254.0.0/16 or fe80::/10 in any notation, or the name of the
// metadata service.
func linkLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.WithZone("").Unmap().IsLinkLocalUnicast()
	}
	return slices.Contains([]string{"metadata.google.internal", "metadata"}, strings.ToLower(host))
}
