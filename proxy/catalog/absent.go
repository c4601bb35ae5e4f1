package catalog

import (
	"path"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog/naming"
)

// absent is a backend that was not up when a catalog was built, with the rules that its
// names will go through.
type absent struct {
	backend     *backends.Backend
	state       backends.State
	prefix      string // of its names, made to fit
	toolsHidden bool   // from clients, all of them
	tools       *config.WorkloadTools
	prompts     config.WorkloadPrompts
	resources   config.WorkloadResources
}

// noteAbsent lists a backend that is not up. One that was lost and is connecting again
// has its entries in the catalog.
func (b *builder) noteAbsent(be *backends.Backend, state backends.State) {
	if state.Status != backends.Down && !state.Starting() {
		return
	}
	name := be.Name()
	rule := b.rules[name]
	b.c.absent = append(b.c.absent, &absent{
		backend: be, state: state, prefix: naming.Clean(b.prefix(name)),
		toolsHidden: b.cfg.Aggregation.ExcludeAllTools || rule == nil && b.cfg.Aggregation.DefaultToolVisibility == "hidden" || rule != nil && rule.ExcludeAll,
		tools:       rule, prompts: b.promptRules[name], resources: b.resourceRules[name],
	})
}

// Starting reports whether a backend was on its first attempt when c was built.
func (c *Catalog) Starting() bool { return c.everything.Starting() }

// Starting is that of the backends of which v may show anything.
func (v *View) Starting() bool {
	return slices.ContainsFunc(v.c.absent, func(a *absent) bool { return a.state.Starting() && v.MayShow(a.backend.Name()) })
}

// cut takes the prefix off an exposed name; ok is false when the name cannot be one of
// this backend's. whole is false when only a part of the own name may be left: names
// that would be too long end in a hash.
func (a *absent) cut(name string) (rest string, whole, ok bool) {
	if len(name) < naming.Max {
		rest, ok = strings.CutPrefix(name, a.prefix)
		return rest, true, ok && rest != ""
	}
	room := naming.Max - len(naming.Tail(""))
	return "", false, strings.HasPrefix(name, a.prefix[:min(len(a.prefix), room)])
}

// mayHaveTool reports whether clients may call a tool of this backend by that name.
func (a *absent) mayHaveTool(name string) bool {
	rest, whole, ok := a.cut(name)
	switch {
	case !ok || a.toolsHidden:
		return false
	case !whole || a.tools == nil || len(a.tools.Filter) == 0:
		return true
	}
	for own, over := range a.tools.Overrides {
		if over.Name != "" && naming.Clean(over.Name) == rest && keeps(a.tools.Filter, own, over.Name) {
			return true
		}
	}
	return mayMatch(a.tools.Filter, rest)
}

// mayHaveAnyTool is mayHaveTool for scripts: they call hidden tools, too, and any tool
// as backend.tool.
func (a *absent) mayHaveAnyTool(name string) bool {
	if own, ok := strings.CutPrefix(name, a.backend.Name()+"."); ok && own != "" {
		return true
	}
	_, _, ok := a.cut(name)
	return ok
}

// mayHavePrompt reports whether the backend may offer a prompt of that name.
func (a *absent) mayHavePrompt(name string) bool {
	rest, whole, ok := a.cut(name)
	switch {
	case !ok || a.prompts.ExcludeAll:
		return false
	case !whole || len(a.prompts.Filter) == 0:
		return true
	}
	for own, over := range a.prompts.Overrides {
		if over.Name != "" && naming.Clean(over.Name) == rest && keeps(a.prompts.Filter, own, over.Name) {
			return true
		}
	}
	return mayMatch(a.prompts.Filter, rest)
}

// mayHaveResources reports whether the backend may serve a URI. Filters see the URIs and
// templates of its lists, which nobody has yet.
func (a *absent) mayHaveResources() bool { return !a.resources.ExcludeAll }

// mayMatch reports whether a filter may keep a name that reads like rest after it was made
// to fit. A _ may stand for another character, so that what a name was is not known.
func mayMatch(filter []string, rest string) bool {
	wanted, unwanted := globs(filter)
	if !strings.Contains(rest, "_") && matchesAny(unwanted, rest) {
		return false
	}
	if len(wanted) == 0 {
		return true
	}
	for _, g := range wanted {
		if strings.ContainsAny(g, `[\`) {
			return true
		}
		if ok, _ := path.Match(sanitiseGlob(g), rest); ok {
			return true
		}
	}
	return false
}

// sanitiseGlob is sanitise for a glob, whose wildcards stay.
func sanitiseGlob(g string) string {
	return strings.Map(func(r rune) rune {
		if r == '*' || r == '?' {
			return r
		}
		return naming.Fit(r)
	}, g)
}
