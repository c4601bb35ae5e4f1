package toolhive

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

// mapping is the translation of one of ToolHive's servers, or of a member of its group, into a spec of ours.
type mapping struct {
	set       Set
	of        *thing
	ignored   []place // the fields that are not supported, in order
	problem   resolve.Problem
	problemAt place

	group         string
	compositeRefs []string
	leftOut       func(backend string) string // why a backend cannot be called as outgoingAuth says; "" if it can
}

// place is a path in one of ToolHive's objects.
type place struct {
	of   *thing
	path string
}

// within formats a place for messages about t: the path, after the object if that is another one.
func (p place) within(t *thing) string {
	if p.of == t {
		return p.path
	}
	return p.of.String() + ": " + p.path
}

// refuse records why the object cannot be used. The first reason is kept, but any other replaces AuthNotCarried, which is
// ignored if our object has its own incomingAuth.
func (m *mapping) refuse(reason, path, format string, args ...any) {
	if m.problem.Reason == "" || m.problem.Reason == object.ReasonAuthNotCarried && reason != m.problem.Reason {
		m.problem = resolve.Problem{Reason: reason, Message: m.of.String() + ": " + path + ": " + fmt.Sprintf(format, args...)}
		m.problemAt = place{m.of, path}
	}
}

// drop records that the field at a path is not supported.
func (m *mapping) drop(path string) { m.ignored = append(m.ignored, place{m.of, path}) }

// leave records, once, the field for which a backend is left out.
func (m *mapping) leave(p place) {
	if !slices.Contains(m.ignored, p) {
		m.ignored = append(m.ignored, p)
	}
}

// deployed are the fields of ToolHive's server that configure its Deployment. They are ignored without a note.
var deployed = []string{
	"replicas", "podTemplateSpec", "serviceType", "sessionAffinity", "serviceAccount", "imagePullSecrets", "sessionStorage",
}

// server translates the spec of a VirtualMCPServer. Unsupported fields are recorded in m.
func (m *mapping) server() tree {
	spec := maps.Clone(m.of.spec)
	m.group = m.of.group()
	theirs := member(spec, "config")
	if group, ok := theirs["groupRef"].(string); ok && m.group == "" {
		m.group = group // its place in the oldest versions
	}
	delete(theirs, "groupRef")
	delete(spec, "groupRef")
	for _, name := range deployed {
		delete(spec, name)
	}
	ours := tree{"groupRef": tree{"name": m.group}, "incomingAuth": m.incomingAuth(spec)}
	m.outgoingAuth(spec, theirs)
	if rates := member(spec, "rateLimiting"); rates != nil {
		keep(rates, reflect.TypeFor[config.RateLimiting](), "spec.rateLimiting", m.drop)
		ours["config"] = tree{"rateLimiting": rates}
	}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		m.drop("spec." + name)
	}
	c := m.config(theirs)
	if rates, ok := ours["config"].(tree); ok {
		maps.Copy(c, rates)
	}
	ours["config"] = c
	return ours
}

// incomingAuth translates the access rules. Each field that is not supported is a reason not to serve.
func (m *mapping) incomingAuth(spec tree) tree {
	in := member(spec, "incomingAuth")
	if in == nil {
		m.refuse(object.ReasonAuthNotCarried, "spec.incomingAuth", "missing; it says who may come in")
		return tree{"type": object.Anonymous}
	}
	keep(in, reflect.TypeFor[object.IncomingAuth](), "spec.incomingAuth", func(path string) {
		m.refuse(object.ReasonAuthNotCarried, path, "cannot be carried, and without it others might come in")
	})
	if spec["authServerConfig"] != nil {
		delete(spec, "authServerConfig")
		m.refuse(object.ReasonAuthNotCarried, "spec.authServerConfig", "cannot be carried: there is no authorization server in this proxy, whose tokens spec.incomingAuth could ask for")
	}
	if in["authzConfigRef"] != nil {
		m.refuse(object.ReasonAuthNotCarried, "spec.incomingAuth.authzConfigRef", "cannot be carried: write the policies in authzConfig")
	}
	return in
}

// outgoingAuth sets m.leftOut: backends whose credential an MCPExternalAuthConfig describes cannot be called, since that
// object is not read.
func (m *mapping) outgoingAuth(spec, theirs tree) {
	out := member(spec, "outgoingAuth")
	if out != nil && theirs["outgoingAuth"] != nil {
		m.drop("spec.config.outgoingAuth") // spec.outgoingAuth replaces it, as in ToolHive
	} else if out == nil {
		out, _ = theirs["outgoingAuth"].(tree)
	}
	delete(theirs, "outgoingAuth")
	backends, _ := out["backends"].(tree)
	open := func(v any) bool {
		strategy, _ := v.(tree)
		return strategy == nil || strategy["type"] == "discovered" || strategy["type"] == "unauthenticated"
	}
	m.leftOut = func(backend string) string {
		if strategy, ok := backends[backend]; ok {
			if open(strategy) {
				return ""
			}
			return config.KeyPath("spec.outgoingAuth.backends", backend)
		}
		if open(out["default"]) {
			return ""
		}
		return "spec.outgoingAuth.default"
	}
}

// config reduces spec.config to the fields that our objects have.
func (m *mapping) config(c tree) tree {
	const path = "spec.config"
	if c == nil {
		c = tree{}
	}
	if name, _ := c["name"].(string); name == "" {
		c["name"] = m.of.name
	}
	m.operational(c)
	if c["aggregation"] == nil {
		c["aggregation"] = tree{}
	}
	if aggregation, ok := c["aggregation"].(tree); ok {
		m.aggregation(aggregation)
	}
	keep(c, reflect.TypeFor[config.Config](), path, m.drop)
	for _, ref := range list(c["compositeToolRefs"]) {
		if ref, ok := ref.(tree); ok {
			name, _ := ref["name"].(string)
			m.compositeRefs = append(m.compositeRefs, name)
		}
	}
	return c
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// operational removes partialFailureMode best_effort, which is what vmcp does anyway, and converts the names of backends.
func (m *mapping) operational(c tree) {
	operational, _ := c["operational"].(tree)
	failures, _ := operational["failureHandling"].(tree)
	if failures["partialFailureMode"] == "best_effort" {
		delete(failures, "partialFailureMode")
	}
	timeouts, _ := operational["timeouts"].(tree)
	if by, ok := timeouts["perWorkload"].(tree); ok {
		renamed := tree{}
		for name, timeout := range by {
			renamed[backendName(name)] = timeout
		}
		timeouts["perWorkload"] = renamed
	}
}

// visibility converts defaultToolVisibility, whose values have other names here. An unknown value is refused: it might
// hide tools.
func (m *mapping) visibility(a tree) {
	switch v := a["defaultToolVisibility"]; v {
	case nil:
	case "allow", "":
		a["defaultToolVisibility"] = "visible"
	case "deny":
		a["defaultToolVisibility"] = "hidden"
	default:
		m.refuse(object.ReasonInvalid, "spec.config.aggregation.defaultToolVisibility", "want allow or deny, have %q", fmt.Sprint(v))
		delete(a, "defaultToolVisibility")
	}
}

// aggregation replaces references to MCPToolConfigs by their content, and converts the names of backends.
func (m *mapping) aggregation(a tree) {
	prefixed(a)
	m.visibility(a)
	for i, v := range list(a["tools"]) {
		of, ok := v.(tree)
		if !ok {
			continue
		}
		if name, ok := of["workload"].(string); ok {
			of["workload"] = backendName(name)
		}
		ref := member(of, "toolConfigRef")
		if ref == nil {
			continue
		}
		path := document.IndexPath("spec.config.aggregation.tools", i) + ".toolConfigRef"
		name, _ := ref["name"].(string)
		conf, ok := m.set.read(tools, name)
		if !ok {
			m.refuse(object.ReasonRefNotFound, path, "names MCPToolConfig %s, which is not there", name)
			continue
		}
		m.toolConfig(of, conf)
	}
	resolution, _ := a["conflictResolutionConfig"].(tree)
	for i, name := range list(resolution["priorityOrder"]) {
		if name, ok := name.(string); ok {
			list(resolution["priorityOrder"])[i] = backendName(name)
		}
	}
}

// prefixed sets ToolHive's default explicitly: the names of all tools get the backend's name as a prefix, even with
// a single backend.
func prefixed(a tree) {
	if a["conflictResolution"] == nil {
		a["conflictResolution"] = "prefix"
	}
	if a["conflictResolution"] != "prefix" {
		return
	}
	if a["conflictResolutionConfig"] == nil {
		a["conflictResolutionConfig"] = tree{}
	}
	if c, ok := a["conflictResolutionConfig"].(tree); ok && c["prefixFormat"] == nil {
		c["prefixFormat"] = "{workload}_"
	}
}

// toolConfig sets the filter and overrides of a backend's tools from an MCPToolConfig. Those beside the reference are
// ignored, as in ToolHive.
func (m *mapping) toolConfig(of tree, conf *thing) {
	delete(of, "filter")
	delete(of, "overrides")
	rest := maps.Clone(conf.spec)
	for theirs, ours := range map[string]string{"toolsFilter": "filter", "toolsOverride": "overrides"} {
		if v, ok := rest[theirs]; ok {
			of[ours] = v
			delete(rest, theirs)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		m.ignored = append(m.ignored, place{conf, "spec." + name})
	}
}

// entry translates a member of the group into the spec of an MCPServerEntry.
func (m *mapping) entry(urlOf func(*thing) string) tree {
	t := m.of
	spec := maps.Clone(t.spec)
	if spec["externalAuthConfigRef"] != nil {
		delete(spec, "externalAuthConfigRef")
		m.drop("spec.externalAuthConfigRef")
		m.refuse(object.ReasonAuthNotCarried, "spec.externalAuthConfigRef", "cannot be carried; it is left out, as calling it without its credential is no substitute")
	}
	if name := backendName(t.name); len(name) > maxBackendName {
		m.refuse(object.ReasonInvalid, "metadata.name", "the name of a backend has at most %d characters, this one has %d", maxBackendName, len(name))
	}
	ours := tree{"transport": transport(t)}
	if t.kind == entry {
		keep(spec, reflect.TypeFor[object.EntrySpec](), "spec", m.drop)
		ours = spec
	}
	ours["groupRef"] = tree{"name": t.group()}
	ours["remoteUrl"] = urlOf(t)
	return ours
}

// maxBackendName is the maximum length of a backend's name, as for MCPServerEntry.
const maxBackendName = 63

// transport is the transport of the object's endpoint, not that of the container behind it.
func transport(t *thing) string {
	name, _ := t.spec["transport"].(string)
	if t.kind == mcpServer && (name == "stdio" || name == "") {
		name, _ = t.spec["proxyMode"].(string)
	}
	if name = strings.ToLower(name); name == "" {
		return "streamable-http"
	}
	return name
}
