package resolve_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy"
)

// A world is a namespace and its Resolver. Every server that can be served is served.
type world struct {
	t     testing.TB
	r     *resolve.Resolver
	state resolve.State
	clock time.Time
	uids  int
	// refuse decides whether a configuration is refused.
	refuse func(*resolve.Server) error
	served map[string]*resolve.Server
	live   map[string]string // of all servers
}

func newWorld(t testing.TB, o resolve.Options) *world {
	o.Check = proxy.CheckTools
	return &world{t: t, r: resolve.New(o), clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), served: map[string]*resolve.Server{},
		state: resolve.State{Servers: map[string]*object.VirtualMCPServer{}, Entries: map[string]*object.MCPServerEntry{},
			Scripted: map[string]*object.VirtualMCPScriptedToolDefinition{}, Composites: map[string]*object.VirtualMCPCompositeToolDefinition{},
			ConfigMaps: map[string]*object.ConfigMap{}, Secrets: map[string]*object.Secret{}},
		live: map[string]string{}}
}

// restart replaces the Resolver by a new one: the last good versions are lost.
func (w *world) restart(o resolve.Options) {
	o.Check = proxy.CheckTools
	w.r, w.served = resolve.New(o), map[string]*resolve.Server{}
}

// apply writes manifests to the namespace and serves the new state.
func (w *world) apply(manifests string) {
	w.t.Helper()
	all, _ := object.Read("m.yaml", []byte(manifests))
	for _, m := range all {
		switch o := m.Object.(type) {
		case *object.VirtualMCPServer:
			put(w, w.state.Servers, o, &o.Meta)
		case *object.MCPServerEntry:
			put(w, w.state.Entries, o, &o.Meta)
		case *object.VirtualMCPScriptedToolDefinition:
			put(w, w.state.Scripted, o, &o.Meta)
		case *object.VirtualMCPCompositeToolDefinition:
			put(w, w.state.Composites, o, &o.Meta)
		case *object.ConfigMap:
			w.state.ConfigMaps[o.Name] = o
		case *object.Secret:
			w.state.Secrets[o.Name] = o
		default:
			w.t.Fatalf("no object: %+v", m)
		}
	}
	w.resolve()
}

// put sets the metadata that an API server sets.
func put[T any](w *world, all map[string]*T, o *T, m *object.Meta) {
	metaOf := func(o *T) *object.Meta {
		switch o := any(o).(type) {
		case *object.VirtualMCPServer:
			return &o.Meta
		case *object.MCPServerEntry:
			return &o.Meta
		case *object.VirtualMCPScriptedToolDefinition:
			return &o.Meta
		case *object.VirtualMCPCompositeToolDefinition:
			return &o.Meta
		}
		return nil
	}
	if old := all[m.Name]; old != nil {
		was := metaOf(old)
		m.UID, m.Generation, m.CreationTimestamp = was.UID, was.Generation+1, was.CreationTimestamp
	} else {
		w.uids++
		w.clock = w.clock.Add(time.Second)
		m.UID, m.Generation, m.CreationTimestamp = fmt.Sprint(w.uids), 1, w.clock
	}
	all[m.Name] = o
}

// resolve serves the current state.
func (w *world) resolve() {
	servers := w.r.Resolve(&w.state)
	maps.DeleteFunc(w.served, func(name string, _ *resolve.Server) bool { return servers[name] == nil })
	for name, s := range servers {
		w.serve(name, s)
	}
}

func (w *world) serve(name string, s *resolve.Server) {
	for s != nil && s.Config != nil {
		var err error
		if w.refuse != nil {
			err = w.refuse(s)
		}
		if err == nil {
			if problems := proxy.CheckTools(s.Config); len(problems) > 0 {
				err = problems
			}
		}
		if err == nil {
			w.r.Applied(s)
			w.served[name] = s
			return
		}
		s = w.r.Refused(s, err)
	}
	if s != nil {
		delete(w.served, name)
	}
}

// status formats the conditions of an object as lines: type, status, reason and message.
func (w *world) status(name string) string {
	for _, r := range w.reports() {
		if r.Object.String() != name {
			continue
		}
		lines := []string{fmt.Sprintf("%d/%d", r.Status.AppliedGeneration, r.Status.ObservedGeneration)}
		if r.Status.Path != "" {
			lines[0] += " " + r.Status.Path
		}
		for _, c := range r.Status.Conditions {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)))
		}
		return strings.Join(lines, "\n")
	}
	return "no " + name
}

func (w *world) reports() []resolve.Report {
	return w.r.Reports(func(string) map[string]string { return w.live })
}

// has checks that the status of an object has lines that begin as wanted.
func (w *world) has(name string, lines ...string) {
	w.t.Helper()
	got := strings.Split(w.status(name), "\n")
	for _, want := range lines {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			w.t.Errorf("%s:\n%s\nwant a line that begins %s", name, strings.Join(got, "\n"), want)
		}
	}
}

// tools returns the tools that a server serves.
func (w *world) tools(server string) string {
	s := w.served[server]
	if s == nil {
		return "not served"
	}
	var names []string
	for _, t := range s.Config.ScriptedTools {
		names = append(names, t.Name+"="+strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(t.Script), "def run(p):\n"), "return ", "")))
	}
	for _, t := range s.Config.CompositeTools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) serves(server, want string) {
	w.t.Helper()
	if got := w.tools(server); got != want {
		w.t.Errorf("%s serves %q, want %q", server, got, want)
	}
}

// serverOf is the manifest of a server, with the lines of its config.
func serverOf(name, config string) string {
	return "---\napiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: " + name + "}\nspec:\n  groupRef: {name: g}\n  incomingAuth: {type: anonymous}\n  config:\n    name: " + name + "\n" + indent(config, "    ")
}

// toolOf is the manifest of a scripted tool whose script returns an expression.
func toolOf(object, name, expression string) string {
	return "---\napiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPScriptedToolDefinition\nmetadata: {name: " + object + "}\nspec:\n  name: " + name +
		"\n  description: d\n  script: |\n    def run(p):\n        return " + expression + "\n"
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	b.WriteString("\n")
	return b.String()
}

// problem is an error of a proxy about a path of a configuration.
func problem(path, message string) error {
	return diag.Problems{{Path: path, Code: "config", Message: message}}
}

// edit writes a new version of a tool without resolving.
func (w *world) edit(name, expression string) {
	all, _ := object.Read("m.yaml", []byte(toolOf(name, name, expression)))
	o := all[0].Object.(*object.VirtualMCPScriptedToolDefinition)
	put(w, w.state.Scripted, o, &o.Meta)
}
