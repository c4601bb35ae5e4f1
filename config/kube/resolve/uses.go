package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// find finds the tools that a server refers to, and which versions of them can be tried.
func (r *Resolver) find(l lookup, s *server) {
	before := s.uses
	s.uses = nil
	if s.serves() == nil {
		if s.tried != nil { // to report the problems of its tools
			s.soft = r.missing(s.tried)
			s.uses = r.usesOf(l, s, s.tried, before)
		}
		return
	}
	if s.now != nil {
		s.soft = r.missing(s.now)
		if s.soft.found() && s.good != nil && s.good.generation != s.now.generation {
			s.finding, s.soft, s.now = s.soft, finding{}, nil // the new version refers to a missing tool
		}
	}
	s.uses = r.usesOf(l, s, s.serves(), before)
	if s.now == nil || s.good == nil {
		return
	}
	if broken := r.breaks(s); len(broken) > 0 {
		s.scripts, s.now = broken, nil
		s.uses = r.usesOf(l, s, s.good, before)
	}
}

// usesOf returns the uses of a version of a server. Their good versions come from before.
func (r *Resolver) usesOf(l lookup, s *server, v *serverVersion, before []*use) (uses []*use) {
	in := scopeOf(v.base)
	for _, ref := range v.base.ScriptedToolRefs {
		if o := r.state.Scripted[ref.Name]; o != nil {
			u := useOf(before, object.Scripted, &o.Meta)
			u.finding = finding{object.ReasonInvalid, o.Problems}
			if !u.finding.found() {
				u.now, u.finding = l.scripted(o.Spec, o.Ref(), "spec")
			}
			uses = append(uses, r.try(u, in))
		}
	}
	for _, ref := range v.base.CompositeToolRefs {
		if o := r.composite(v, ref.Name); o != nil {
			u := useOf(before, object.Composite, &o.Meta)
			if u.finding = (finding{object.ReasonInvalid, o.Problems}); !u.finding.found() {
				u.now = &tool{object: o.Ref(), path: "spec", generation: o.Generation, composite: &o.Spec}
			}
			uses = append(uses, r.try(u, in))
		}
	}
	return uses
}

// composite finds the composite tool that a version of a server refers to: ToolHive's if it is translated, else ours.
func (r *Resolver) composite(v *serverVersion, name string) *object.VirtualMCPCompositeToolDefinition {
	if v.composites != nil {
		return v.composites[name]
	}
	return r.state.Composites[name]
}

// useOf makes a use of an object, with the good version of the earlier use of the same object.
func useOf(before []*use, kind object.Kind, meta *object.Meta) *use {
	u := &use{kind: kind, name: meta.Name, meta: meta}
	for _, b := range before {
		if b.kind == kind && b.name == meta.Name && b.meta.UID == meta.UID {
			u.good = b.good
		}
	}
	return u
}

// try compiles the newest version of a tool, and the good one with the server's current libraries and limits; a version
// with problems is cleared.
func (r *Resolver) try(u *use, in scope) *use {
	if u.finding.found() {
		u.now = nil
	}
	if u.now != nil {
		if problems := r.checks.of(u.now, in); len(problems) > 0 {
			u.failed, u.now = below("spec", problems), nil
		}
	}
	if u.good != nil && len(r.checks.of(u.good, in)) > 0 {
		u.good = nil
	}
	return u
}

// breaks returns the tools that compile with the good version of the server, but not with its newest one.
func (r *Resolver) breaks(s *server) (broken []failure) {
	before := scopeOf(s.good.base)
	if before.hash == scopeOf(s.now.base).hash {
		return nil
	}
	l := lookup{r.state, r.options.Offline}
	for _, u := range s.uses {
		if len(u.failed) == 0 || u.kind != object.Scripted {
			continue
		}
		t, _ := l.scripted(r.state.Scripted[u.name].Spec, u.meta.Ref(u.kind), "spec")
		if len(r.checks.of(t, before)) == 0 {
			broken = append(broken, failure{u.name, u.failed})
		}
	}
	return broken
}

// missing reports the tools that a version of a server refers to and that do not exist.
func (r *Resolver) missing(v *serverVersion) (f finding) {
	for i, ref := range v.base.ScriptedToolRefs {
		if r.state.Scripted[ref.Name] == nil {
			f.add(object.ReasonRefNotFound, config.IndexPath("spec.config.scriptedToolRefs", i), "there is no %s %s%s",
				object.Scripted.Name, ref.Name, display.Hint(ref.Name, slices.Sorted(maps.Keys(r.state.Scripted))))
		}
	}
	for i, ref := range v.base.CompositeToolRefs {
		if r.composite(v, ref.Name) == nil {
			f.add(object.ReasonRefNotFound, config.IndexPath("spec.config.compositeToolRefs", i), "there is no %s %s%s",
				object.Composite.Name, ref.Name, display.Hint(ref.Name, slices.Sorted(maps.Keys(r.state.Composites))))
		}
	}
	return f
}

// choose resolves conflicts of tool names: the object that was created first has the name. It sets taken of each use,
// and returns the tools of the server's own config that are served.
func (r *Resolver) choose(s *server, v *serverVersion) (own []*tool) {
	type claim struct {
		meta *object.Meta
		use  *use
	}
	claims := []claim{{meta: &s.object.Meta}}
	for _, u := range s.uses {
		claims = append(claims, claim{u.meta, u})
	}
	slices.SortStableFunc(claims, func(a, b claim) int {
		switch {
		case a.meta.Older(b.meta):
			return -1
		case b.meta.Older(a.meta):
			return 1
		}
		return 0
	})
	owner := map[string]string{}
	for _, c := range claims {
		if c.use != nil {
			r.chooseUse(c.use, owner, s)
			continue
		}
		for _, t := range v.own {
			if other := owner[t.name()]; other != "" {
				s.names.add(object.ReasonNameConflict, t.path+".name", "%s has the name %s already, and is older: this tool is left out", other, t.name())
				continue
			}
			owner[t.name()] = object.Server.Name + " " + s.object.Name
			own = append(own, t)
		}
	}
	return own
}

// chooseUse sets the version of a tool that is served: the newest whose name is free.
func (r *Resolver) chooseUse(u *use, owner map[string]string, s *server) {
	self := u.kind.Name + " " + u.name
	u.taken, u.conflict = nil, finding{}
	for _, t := range []*tool{u.now, u.good} {
		if t == nil || u.taken != nil {
			continue
		}
		if other := owner[t.name()]; other != "" {
			if t == u.now {
				u.conflict.add(object.ReasonNameConflict, "spec.name", "%s has the name %s in %s %s already, and is older", other, t.name(), object.Server.Name, s.object.Name)
			}
			continue
		}
		u.taken = t
		owner[t.name()] = self
	}
	if name := r.declared(u); name != "" && owner[name] == "" {
		owner[name] = self // an invalid newest version keeps its name reserved
	}
}

// declared is the tool name in the spec of a use's object.
func (r *Resolver) declared(u *use) string {
	if u.kind == object.Scripted {
		return r.state.Scripted[u.name].Spec.Name
	}
	if o := r.state.Composites[u.name]; o != nil {
		return o.Spec.Name
	}
	return ""
}

// unnamed reports unknown backends in the aggregation and the timeouts.
func (s *server) unnamed(v *serverVersion, cfg *config.Config, offline bool) {
	s.names = finding{}
	var known []string
	for _, b := range cfg.Backends {
		known = append(known, b.Name)
	}
	look := func(path, name string) {
		if slices.Contains(known, name) || offline && len(known) == 0 {
			return
		}
		s.names.add(object.ReasonRefNotFound, path, "no backend is named %q%s", name, display.Hint(name, known))
	}
	a := &v.base.Aggregation
	for i, w := range a.Tools {
		look(fmt.Sprintf("spec.config.aggregation.tools[%d].workload", i), w.Workload)
	}
	for i, w := range a.Prompts {
		look(fmt.Sprintf("spec.config.aggregation.prompts[%d].workload", i), w.Workload)
	}
	for i, w := range a.Resources {
		look(fmt.Sprintf("spec.config.aggregation.resources[%d].workload", i), w.Workload)
	}
	for i, name := range a.ConflictResolutionConfig.PriorityOrder {
		look(fmt.Sprintf("spec.config.aggregation.conflictResolutionConfig.priorityOrder[%d]", i), name)
	}
	for _, name := range slices.Sorted(maps.Keys(v.base.Operational.Timeouts.PerWorkload)) {
		look(config.KeyPath("spec.config.operational.timeouts.perWorkload", name), name)
	}
}
