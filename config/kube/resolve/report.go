package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// mostNamed bounds how many elements of a list a message names.
const mostNamed = 5

// Reports returns the status of every object, by kind and name.
func (r *Resolver) Reports(live Live) []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reports []Report
	for _, name := range slices.Sorted(maps.Keys(r.servers)) {
		reports = append(reports, r.server(r.servers[name], live(name)))
	}
	others := r.others()
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		reports = append(reports, r.entry(name, live, others))
	}
	for _, name := range slices.Sorted(maps.Keys(r.state.Scripted)) {
		o := r.state.Scripted[name]
		reports = append(reports, r.tool(o.Ref(), o.Problems, others))
	}
	for _, name := range slices.Sorted(maps.Keys(r.state.Composites)) {
		o := r.state.Composites[name]
		reports = append(reports, r.tool(o.Ref(), o.Problems, others))
	}
	return reports
}

// A status collects the conditions of an object.
type status struct{ Report }

func newStatus(of object.Ref) *status {
	return &status{Report{Object: of, Status: object.Status{ObservedGeneration: of.Generation}}}
}

// set adds a condition.
func (s *status) set(kind, is, reason, format string, args ...any) {
	s.Status.Conditions = append(s.Status.Conditions, object.Condition{Type: kind, Status: is, Reason: reason,
		Message: shortened(fmt.Sprintf(format, args...), object.MaxMessage), ObservedGeneration: s.Object.Generation})
}

// shortened clips a message to a number of bytes.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return display.ClipText(text, most-len(display.Mark))
}

// accepted adds the condition Accepted, about spec and references.
func (s *status) accepted(f finding) {
	s.Problems = append(s.Problems, f.problems...)
	if f.found() {
		s.set(object.Accepted, object.False, f.reason, "%s", textOf(f.problems))
		return
	}
	s.set(object.Accepted, object.True, object.ReasonAccepted, "spec and references are good")
}

// textOf formats the first problems without positions: objects of a cluster are in no file.
func textOf(problems diag.Problems) string {
	var texts []string
	for _, p := range problems[:min(len(problems), mostNamed)] {
		text := p.Message
		if p.Path != "" {
			text = p.Path + ": " + text
		}
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + more(len(problems))
}

// placedText formats the first problems of a script with their positions.
func placedText(problems diag.Problems) string {
	var texts []string
	for _, p := range problems[:min(len(problems), mostNamed)] {
		at := p.Path
		if p.Line > 0 {
			at = p.Pos.String()
		}
		text := p.Message
		if at != "" {
			text = at + ": " + text
		}
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + more(len(problems))
}

func more(n int) string {
	if n <= mostNamed {
		return ""
	}
	return fmt.Sprintf("; and %d more", n-mostNamed)
}

// server makes the report of one server.
func (r *Resolver) server(s *server, live map[string]string) Report {
	out := newStatus(s.object.Ref())
	f := s.finding
	if s.now != nil || s.serves() == nil {
		f.join(s.soft)
		f.join(s.names)
	}
	out.accepted(f)
	out.scripts(s)
	out.backends(s, live)
	if s.object.Spec.From != nil {
		out.translated(s)
	}
	served := int64(0)
	if s.served && s.good != nil {
		served = s.good.generation
		out.Status.Path = "/" + s.object.Name + "/mcp"
	}
	out.ready(served, s.trouble)
	return out.Report
}

// scripts adds the condition ScriptsValid of a server: its own tools and those that it refers to.
func (s *status) scripts(of *server) {
	failed := slices.Clone(of.scripts)
	for _, f := range of.scripts {
		s.Problems = append(s.Problems, f.problems...)
	}
	for _, u := range of.uses {
		if len(u.failed) > 0 && !slices.ContainsFunc(of.scripts, func(f failure) bool { return f.label == u.name }) {
			failed = append(failed, failure{u.name, u.failed})
		}
	}
	if len(failed) == 0 {
		s.set(object.ScriptsValid, object.True, object.ReasonCompiled, "%s compiled", count(of.tools, "tool"))
		return
	}
	var texts []string
	for _, f := range failed[:min(len(failed), mostNamed)] {
		texts = append(texts, f.label+": "+placedText(f.problems))
	}
	s.set(object.ScriptsValid, object.False, object.ReasonCompileFailed, "%d of %s: %s%s", len(failed), count(max(of.tools, len(failed)), "tool"), strings.Join(texts, "; "), more(len(failed)))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// backends adds the condition BackendsReady of a server.
func (s *status) backends(of *server, live map[string]string) {
	var away, connecting []string
	for _, m := range of.members {
		name := m.version.config.Name
		switch why, known := live[name]; {
		case !known:
			connecting = append(connecting, name)
		case why != "":
			away = append(away, name+": "+why)
		}
	}
	bad := len(away) + len(connecting)
	reason := object.ReasonSomeUnavailable
	if bad == len(of.members) {
		reason = object.ReasonNoneAvailable
	}
	switch {
	case !of.served || of.good == nil:
		s.set(object.BackendsReady, object.Unknown, object.ReasonNotServed, "the server is not served")
	case bad == 0:
		s.set(object.BackendsReady, object.True, object.ReasonAllReady, "%s ready", count(len(of.members), "backend"))
	case len(away) == 0:
		s.set(object.BackendsReady, object.Unknown, reason, "connecting: %s", list(connecting))
	default:
		s.set(object.BackendsReady, object.False, reason, "%s", list(away))
	}
}

func list(names []string) string {
	return strings.Join(names[:min(len(names), mostNamed)], ", ") + more(len(names))
}

// translated adds the condition Translated of a server with from.
func (s *status) translated(of *server) {
	v := of.serves()
	switch {
	case v == nil:
		s.set(object.Translated, object.Unknown, object.ReasonNotServed, "the server is not served")
	case len(v.ignored) == 0:
		s.set(object.Translated, object.True, object.ReasonComplete, "all of it is carried")
	default:
		s.set(object.Translated, object.False, object.ReasonFieldsIgnored, "%s", strings.Join(v.ignored, ", "))
	}
}

// ready adds the condition Ready for the generation that is served; 0: none is.
func (s *status) ready(generation int64, trouble string) {
	s.Status.AppliedGeneration = generation
	if trouble != "" {
		trouble = ": " + trouble
	}
	switch {
	case generation == 0:
		s.set(object.Ready, object.False, object.ReasonNotServed, "no generation is served%s", trouble)
	case generation != s.Object.Generation:
		s.set(object.Ready, object.False, object.ReasonLastGoodServed, "generation %d is served%s", generation, trouble)
	default:
		s.set(object.Ready, object.True, object.ReasonServed, "this generation is served")
	}
}

// A usage is a use and the server that it belongs to.
type usage struct {
	server *server
	use    *use
}

// usesIn returns the uses of a tool by the servers of the namespace.
func (r *Resolver) usesIn(kind object.Kind, name string) (found []usage) {
	for _, s := range slices.Sorted(maps.Keys(r.servers)) {
		for _, u := range r.servers[s].uses {
			if u.kind == kind && u.name == name && r.owns(r.servers[s], kind) {
				found = append(found, usage{r.servers[s], u})
			}
		}
	}
	return found
}

// owns reports whether a server's tools of a kind are our objects, not ToolHive's.
func (r *Resolver) owns(s *server, kind object.Kind) bool {
	v := s.serves()
	return kind == object.Scripted || v == nil || v.composites == nil
}

// tool makes the report of one scripted or composite tool.
func (r *Resolver) tool(of object.Ref, problems diag.Problems, others referred) Report {
	out := newStatus(of)
	out.accepted(finding{object.ReasonInvalid, problems})
	out.set(object.ScriptsValid, object.Unknown, object.ReasonNotServed, "not compiled")
	out.set(object.Ready, object.False, object.ReasonNotReferenced, "no %s that is served refers to it", object.Server.Name)
	var servers []object.ServerStatus
	for _, u := range r.usesIn(of.Kind, of.Name) {
		one := toolIn(of, problems, u)
		servers = append(servers, one.in(u.server.object.Name))
		out.join(one.Problems)
	}
	return out.over(servers, others.tools[of.String()])
}

// toolIn makes the status of a tool in one server.
func toolIn(of object.Ref, problems diag.Problems, u usage) *status {
	out := newStatus(of)
	f := finding{object.ReasonInvalid, problems}
	if !f.found() {
		f.join(u.use.finding)
		f.join(u.use.conflict)
	}
	out.accepted(f)
	failed := u.use.failed
	out.Problems = append(out.Problems, failed...)
	switch {
	case len(failed) > 0:
		out.set(object.ScriptsValid, object.False, object.ReasonCompileFailed, "%s", placedText(failed))
	case f.found() && f.reason != object.ReasonNameConflict:
		out.set(object.ScriptsValid, object.Unknown, object.ReasonNotServed, "not compiled")
	default:
		out.set(object.ScriptsValid, object.True, object.ReasonCompiled, "compiled")
	}
	served := int64(0)
	if u.server.served && u.server.good != nil && u.use.good != nil {
		served = u.use.good.generation
	}
	out.ready(served, "")
	return out
}

// entry makes the report of one entry. The references of an entry that no server has are not reported: processes may be
// permitted to read different ones.
func (r *Resolver) entry(name string, live Live, others referred) Report {
	e := r.entries[name]
	out := newStatus(e.object.Ref())
	out.accepted(finding{object.ReasonInvalid, e.object.Problems})
	out.set(object.Ready, object.False, object.ReasonNotReferenced, "no %s that is served has the group %s", object.Server.Name, e.object.Spec.GroupRef.Name)
	var servers []object.ServerStatus
	for _, n := range slices.Sorted(maps.Keys(r.servers)) {
		s := r.servers[n]
		v := s.serves()
		if v == nil || v.group == "" || v.group != e.object.Spec.GroupRef.Name {
			continue
		}
		one := entryIn(e, s, live(n))
		servers = append(servers, one.in(n))
	}
	out.join(e.finding.problems)
	return out.over(servers, others.groups[e.object.Spec.GroupRef.Name])
}

// entryIn makes the status of an entry in one server.
func entryIn(e *entry, s *server, live map[string]string) *status {
	out := newStatus(e.object.Ref())
	out.accepted(e.finding)
	if e.good != nil {
		out.Status.AppliedGeneration = e.good.generation
	}
	why, known := live[e.object.Name]
	switch {
	case e.good == nil || e.good.generation != e.object.Generation:
		out.ready(out.Status.AppliedGeneration, "")
	case s.served && !known:
		out.set(object.Ready, object.Unknown, object.ReasonUnavailable, "connecting")
	case s.served && why != "":
		out.set(object.Ready, object.False, object.ReasonUnavailable, "%s", why)
	default:
		out.set(object.Ready, object.True, object.ReasonServed, "connected")
	}
	return out
}
