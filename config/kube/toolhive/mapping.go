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

// mapping is one of their servers, or a member of its group, on its way into a spec of ours.
type mapping struct {
	set       Set
	of        *thing
	ignored   []place // what is not carried, in order
	problem   resolve.Problem
	problemAt place

	group         string
	compositeRefs []string
	leftOut       func(backend string) string // why a backend cannot be called as outgoingAuth says; "" if it can
}

// place is where one of their objects says something.
type place struct {
	of   *thing
	path string
}

// within is how an object of ours tells of a place: by its path alone where it is in the object's own server.
func (p place) within(t *thing) string {
	if p.of == t {
		return p.path
	}
	return p.of.String() + ": " + p.path
}

// refuse notes why the object cannot be used. The first reason stays, but for one about authentication, which may
// be replaced by declaration.
func (m *mapping) refuse(reason, path, format string, args ...any) {
	if m.problem.Reason == "" || m.problem.Reason == object.ReasonAuthNotCarried && reason != m.problem.Reason {
		m.problem = resolve.Problem{Reason: reason, Message: m.of.String() + ": " + path + ": " + fmt.Sprintf(format, args...)}
		m.problemAt = place{m.of, path}
	}
}

// drop notes that what stands at a path is not carried.
func (m *mapping) drop(path string) { m.ignored = append(m.ignored, place{m.of, path}) }

// leave notes the reason for which a backend is left out, once.
func (m *mapping) leave(p place) {
	if !slices.Contains(m.ignored, p) {
		m.ignored = append(m.ignored, p)
	}
}

// deployed are fields of their server that are about its Deployment. They say nothing of what is served.
var deployed = []string{
	"replicas", "podTemplateSpec", "serviceType", "sessionAffinity", "serviceAccount", "imagePullSecrets", "sessionStorage",
}

// server is the spec of their VirtualMCPServer as a spec of ours. What cannot be said is in m.
func (m *mapping) server() tree {
	spec := maps.Clone(m.of.spec)
	m.group = m.of.group()
	theirs := member(spec, "config")
	if group, ok := theirs["groupRef"].(string); ok && m.group == "" {
		m.group = group // where the oldest of their objects say it
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

// incomingAuth is who may come in. All of it guards: what is not carried is a reason not to serve.
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

// outgoingAuth notes which backends cannot be called as theirs says: those whose credential an
// MCPExternalAuthConfig describes, which is not read.
func (m *mapping) outgoingAuth(spec, theirs tree) {
	out := member(spec, "outgoingAuth")
	if out != nil && theirs["outgoingAuth"] != nil {
		m.drop("spec.config.outgoingAuth") // replaced, there as here
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

// config is spec.config, cut to what an object of ours can say.
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

// operational takes out what says what happens here anyway: that some backends may be away.
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

// aggregation puts what MCPToolConfigs say in the place of their names, and writes backends as they are called here.
func (m *mapping) aggregation(a tree) {
	prefixed(a)
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

// prefixed says what is theirs' default: names stand before those of tools of a single backend, too.
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

// toolConfig makes what an MCPToolConfig says the settings of a backend's tools: what stands beside the reference
// does not count, there as here.
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

// entry is a member of the group as the spec of an MCPServerEntry of ours.
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

// maxBackendName bounds the name of a backend, as that of an MCPServerEntry of ours.
const maxBackendName = 63

// transport is the one of the endpoint, not that of the container behind it.
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
