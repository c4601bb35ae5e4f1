// Package toolhive translates the objects of ToolHive into ours: at run time, for a VirtualMCPServer of ours that refers
// to one of theirs (Translate), or into manifests (Convert). It does no I/O, depends on none of ToolHive's code, and
// never writes one of its objects. In this package "theirs" is ToolHive's.
//
//	t := toolhive.Translate(set, "team-a-vmcp") // a *resolve.Translation; nil: there is no such server
//
// Fields that we do not support are listed by path. Fields that restrict access, such as policies, are never dropped:
// if one is not supported, the server is not served.
package toolhive

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

// The version of ToolHive's group that is read. The older v1alpha1 has the same objects; an API server returns them in
// either version.
const (
	Version    = "v1beta1"
	apiVersion = object.ToolHiveGroup + "/" + Version
)

// Kind is a kind of ToolHive's, as its CustomResourceDefinition names it.
type Kind struct {
	Name, Plural string
}

// The names of ToolHive's kinds.
const (
	server    = "VirtualMCPServer"
	composite = "VirtualMCPCompositeToolDefinition"
	mcpServer = "MCPServer"
	proxy     = "MCPRemoteProxy"
	entry     = "MCPServerEntry"
	tools     = "MCPToolConfig"
	group     = "MCPGroup"
	oidc      = "MCPOIDCConfig"
)

// Kinds are the kinds that Translate and Issuers read.
var Kinds = []Kind{
	{server, "virtualmcpservers"},
	{composite, "virtualmcpcompositetooldefinitions"},
	{mcpServer, "mcpservers"},
	{proxy, "mcpremoteproxies"},
	{entry, "mcpserverentries"},
	{tools, "mcptoolconfigs"},
	{group, "mcpgroups"},
	{oidc, "mcpoidcconfigs"},
}

// Set is ToolHive's objects of a namespace: the JSON of each, by kind and name.
type Set map[string]map[string]json.RawMessage

// Put adds an object to the set, or replaces it.
func (s Set) Put(kind, name string, data json.RawMessage) {
	if s[kind] == nil {
		s[kind] = map[string]json.RawMessage{}
	}
	s[kind][name] = data
}

// thing is one of ToolHive's objects.
type thing struct {
	kind, name, namespace string
	meta                  json.RawMessage
	spec                  tree
	url                   string // status.url
}

// read returns an object of the set; false if it does not exist or cannot be decoded.
func (s Set) read(kind, name string) (*thing, bool) {
	data, ok := s[kind][name]
	if !ok {
		return nil, false
	}
	t, err := parse(kind, data)
	return t, err == nil
}

func parse(kind string, data []byte) (*thing, error) {
	var o struct {
		Metadata json.RawMessage `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
		Status   struct {
			URL any `json:"url"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	var meta object.Meta
	if err := json.Unmarshal(o.Metadata, &meta); err != nil {
		return nil, errors.New("metadata: want a mapping with a name, which is a string")
	}
	t := &thing{kind: kind, name: meta.Name, namespace: meta.Namespace, meta: o.Metadata, spec: tree{}}
	t.url, _ = o.Status.URL.(string)
	if len(o.Spec) > 0 {
		if err := decodeTree(o.Spec, &t.spec); err != nil {
			return nil, errors.New("spec: want a mapping")
		}
	}
	return t, nil
}

// String is the kind and the name.
func (t *thing) String() string { return t.kind + " " + t.name }

// group is the name of the group that an object refers to, in the form of either version.
func (t *thing) group() string {
	switch ref := t.spec["groupRef"].(type) {
	case string:
		return ref
	case map[string]any:
		name, _ := ref["name"].(string)
		return name
	}
	return ""
}

// Translate translates ToolHive's VirtualMCPServer of that name; nil if there is none.
func Translate(set Set, name string) *resolve.Translation {
	theirs, ok := set.read(server, name)
	if !ok {
		return nil
	}
	m := &mapping{set: set, of: theirs}
	ours := m.server()
	if _, ok := set[group][m.group]; !ok {
		m.refuse(object.ReasonRefNotFound, "spec.groupRef", "names MCPGroup %s, which is not there", m.group)
	}
	t := &resolve.Translation{Composites: m.composites()}
	t.Spec = decodeSpec[object.ServerSpec](m, ours)
	t.Backends = m.backends()
	for _, p := range m.ignored {
		t.Ignored = append(t.Ignored, p.within(theirs))
	}
	t.Problem = m.problem
	return t
}

// decodeSpec decodes a spec of ours strictly. Its problems become the problem of the mapping.
func decodeSpec[S object.Spec](m *mapping, spec tree) S {
	o, err := object.Decode[S](mustJSON(map[string]any{"metadata": tree{"name": "translated"}, "spec": spec}))
	if err != nil {
		m.refuse(object.ReasonInvalid, "metadata", "%v", err)
		return *new(S)
	}
	for _, p := range o.Problems {
		reason := object.ReasonInvalid
		if strings.HasPrefix(p.Path, "spec.incomingAuth") {
			reason = object.ReasonAuthNotCarried
		}
		m.refuse(reason, p.Path, "%s", p.Message)
	}
	return o.Spec
}

// composites returns the composite tools that the server refers to, as objects of ours.
func (m *mapping) composites() map[string]*object.VirtualMCPCompositeToolDefinition {
	found := map[string]*object.VirtualMCPCompositeToolDefinition{}
	for _, name := range m.compositeRefs {
		data, ok := m.set[composite][name]
		if !ok {
			continue // Resolver.Resolve reports the missing reference
		}
		if o, err := object.Decode[object.CompositeSpec](data); err == nil {
			found[name] = o
		}
	}
	return found
}

// backends returns the members of the server's group, sorted by name.
func (m *mapping) backends() []resolve.Backend {
	var found []resolve.Backend
	by := map[string]string{} // the object of each backend, by its name
	for _, kind := range []string{mcpServer, proxy, entry} {
		for _, name := range slices.Sorted(maps.Keys(m.set[kind])) {
			t, ok := m.set.read(kind, name)
			if !ok || m.group == "" || t.group() != m.group {
				continue
			}
			b := m.backend(t)
			if first, clash := by[b.Name]; clash && b.Problem.Reason == "" {
				m.leave(place{t, "metadata.name"})
				b.Problem = resolve.Problem{Reason: object.ReasonNameConflict, Message: fmt.Sprintf("%s: %s is the backend %s, too", t, first, b.Name)}
			} else if !clash {
				by[b.Name] = b.Object
			}
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b resolve.Backend) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// backend translates a member of the group.
func (m *mapping) backend(t *thing) resolve.Backend {
	b := resolve.Backend{Name: backendName(t.name), Object: t.String()}
	at := &mapping{set: m.set, of: t}
	spec := at.entry(inPlace)
	if why := m.leftOut(t.name); why != "" {
		m.leave(place{m.of, why})
		b.Problem = resolve.Problem{Reason: object.ReasonAuthNotCarried, Message: fmt.Sprintf("%s: %s: %s says how to call it, which cannot be carried; it is left out", t, m.of, why)}
		return b
	}
	if at.problem.Reason == "" && spec["remoteUrl"] != "" {
		b.Spec = decodeSpec[object.EntrySpec](at, spec)
	}
	m.ignored = append(m.ignored, at.ignored...)
	if at.problem.Reason != "" {
		m.leave(at.problemAt)
	}
	b.Problem = at.problem
	return b
}

// backendName is the name of the backend of an object: dots become hyphens, since a dot separates the names of backend and tool.
func backendName(name string) string { return strings.ReplaceAll(name, ".", "-") }

// inPlace returns the URL of an object from its spec or status; "" if there is none yet.
func inPlace(t *thing) string {
	if t.kind == entry {
		url, _ := t.spec["remoteUrl"].(string)
		return url
	}
	url, _, _ := strings.Cut(t.url, "#") // of SSE: /sse#NAME
	return url
}

// Issuers translates the MCPOIDCConfigs of a set, by name.
func Issuers(set Set) map[string]*resolve.Issuer {
	found := map[string]*resolve.Issuer{}
	for name := range set[oidc] {
		if t, ok := set.read(oidc, name); ok {
			found[name] = issuer(t)
		}
	}
	return found
}

// issuer translates an MCPOIDCConfig. Its inline form has the same fields as a configuration file; the form for
// ServiceAccounts, which validates tokens through the API server, is not supported.
func issuer(t *thing) *resolve.Issuer {
	i := &resolve.Issuer{}
	refuse := func(format string, args ...any) *resolve.Issuer {
		i.Problem = resolve.Problem{Reason: object.ReasonAuthNotCarried, Message: t.String() + ": " + fmt.Sprintf(format, args...)}
		return i
	}
	if kind, _ := t.spec["type"].(string); kind != "inline" {
		return refuse("spec.type %q is not carried, only inline is", kind)
	}
	in, _ := t.spec["inline"].(map[string]any)
	rest := maps.Clone(tree(in))
	take := func(name string) any { v := rest[name]; delete(rest, name); return v }
	text := func(name string) string { s, _ := take(name).(string); return s }
	yes := func(name string) bool { b, _ := take(name).(bool); return b }
	i.Config = config.OIDC{
		Issuer: text("issuer"), ClientID: text("clientId"), JWKSURL: text("jwksUrl"), IntrospectionURL: text("introspectionUrl"),
		InsecureAllowHTTP: yes("insecureAllowHTTP"), JWKSAllowPrivateIP: yes("jwksAllowPrivateIP"),
		ProtectedResourceAllowPrivateIP: yes("protectedResourceAllowPrivateIP"),
	}
	i.ClientSecret = keyRef(take("clientSecretRef"))
	if ref, ok := take("caBundleRef").(map[string]any); ok {
		if key := keyRef(ref["configMapRef"]); key != nil {
			i.CABundle = &object.CABundleKey{Name: key.Name, Key: key.Key}
		}
	}
	maps.DeleteFunc(rest, func(_ string, v any) bool { return v == nil || v == "" || v == false })
	if len(rest) > 0 {
		return refuse("spec.inline.%s is not carried", slices.Sorted(maps.Keys(rest))[0])
	}
	if i.Config.Issuer == "" {
		return refuse("spec.inline has no issuer")
	}
	return i
}

// keyRef reads a reference to a key of a Secret or ConfigMap; nil if there is none.
func keyRef(v any) *config.KeyRef {
	ref, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	name, _ := ref["name"].(string)
	key, _ := ref["key"].(string)
	return &config.KeyRef{Name: name, Key: key}
}
