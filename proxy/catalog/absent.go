package catalog

import (
	"path"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
)

// absent is a backend that was not available when a catalog was built, with the rules for its names.
type absent struct {
	backend     *backends.Backend
	state       backends.State
	prefix      string // of its names, sanitised
	toolsHidden bool   // all of its tools are hidden from clients
	tools       *config.WorkloadTools
	prompts     config.WorkloadPrompts
	resources   config.WorkloadResources
}

// noteAbsent lists a backend that is not available. One that was lost and reconnects keeps its entries in the catalog.
func (b *builder) noteAbsent(be *backends.Backend, state backends.State) {
	if state.Status != backends.Down && !state.Starting() {
		return
	}
	name := be.Name()
	rule := b.rules[name]
	b.c.absent = append(b.c.absent, &absent{
		backend: be, state: state, prefix: clean(b.prefix(name)),
		toolsHidden: b.cfg.Aggregation.ExcludeAllTools || rule == nil && b.cfg.Aggregation.DefaultToolVisibility == "hidden" || rule != nil && rule.ExcludeAll,
		tools:       rule, prompts: b.promptRules[name], resources: b.resourceRules[name],
	})
}

// Starting reports whether a backend was on its first connection attempt when c was built.
func (c *Catalog) Starting() bool { return c.everything.Starting() }

// Starting is Catalog.Starting for the backends of which v may show entries.
func (v *View) Starting() bool {
	return slices.ContainsFunc(v.c.absent, func(a *absent) bool { return a.state.Starting() && v.MayShow(a.backend.Name()) })
}

// cut removes the backend's prefix from an exposed name; ok is false if this backend cannot have the name. whole is
// false if rest may be truncated: names that are too long end in a hash.
func (a *absent) cut(name string) (rest string, whole, ok bool) {
	if len(name) < mostName {
		rest, ok = strings.CutPrefix(name, a.prefix)
		return rest, true, ok && rest != ""
	}
	room := mostName - len(tail(""))
	return "", false, strings.HasPrefix(name, a.prefix[:min(len(a.prefix), room)])
}

// mayHaveTool reports whether this backend may have a visible tool with that name.
func (a *absent) mayHaveTool(name string) bool {
	rest, whole, ok := a.cut(name)
	switch {
	case !ok || a.toolsHidden:
		return false
	case !whole || a.tools == nil || len(a.tools.Filter) == 0:
		return true
	}
	for own, over := range a.tools.Overrides {
		if over.Name != "" && clean(over.Name) == rest && keeps(a.tools.Filter, own, over.Name) {
			return true
		}
	}
	return mayMatch(a.tools.Filter, rest)
}

// mayHaveAnyTool is mayHaveTool for scripts, which also call hidden tools, and any tool as backend.tool.
func (a *absent) mayHaveAnyTool(name string) bool {
	if own, ok := strings.CutPrefix(name, a.backend.Name()+"."); ok && own != "" {
		return true
	}
	_, _, ok := a.cut(name)
	return ok
}

// mayHavePrompt reports whether this backend may have a prompt with that name.
func (a *absent) mayHavePrompt(name string) bool {
	rest, whole, ok := a.cut(name)
	switch {
	case !ok || a.prompts.ExcludeAll:
		return false
	case !whole || len(a.prompts.Filter) == 0:
		return true
	}
	for own, over := range a.prompts.Overrides {
		if over.Name != "" && clean(over.Name) == rest && keeps(a.prompts.Filter, own, over.Name) {
			return true
		}
	}
	return mayMatch(a.prompts.Filter, rest)
}

// mayHaveResources reports whether the backend may serve any URI. Filters apply to its lists, which are not known yet.
func (a *absent) mayHaveResources() bool { return !a.resources.ExcludeAll }

// mayMatch reports whether a filter may keep a name whose sanitised form is rest. A _ may replace another character, so
// the original name is not known.
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

// sanitiseGlob sanitises a glob but keeps its wildcards.
func sanitiseGlob(g string) string {
	return strings.Map(func(r rune) rune {
		if r == '*' || r == '?' {
			return r
		}
		return fit(r)
	}, g)
}
