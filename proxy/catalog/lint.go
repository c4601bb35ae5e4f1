package catalog

import (
	"maps"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"

	"github.com/vmcp-dev/vmcp/script/check"
)

// checkShadowed reports scripts that call a name that both a backend's tool and a scripted tool have: the call goes to
// the scripted tool, which may be the caller itself, in an endless recursion.
func (b *builder) checkShadowed() {
	for _, e := range b.tools {
		if e.Script == nil {
			continue
		}
		for _, name := range e.Script.Calls.Tools {
			if hidden := b.c.shadowed[name]; hidden != nil {
				b.mistake("", e.Name, "calls %q, which is a scripted tool here; the backend's tool of that name is %q", name, hidden.Origin())
			}
		}
	}
}

// known is what checks of scripts know of a tool.
func (e *Entry) known() check.Tool {
	return check.Tool{
		Description: jsonscan.GetString(e.Definition, "description"),
		Input:       jsonscan.Get(e.Definition, "inputSchema"), Output: jsonscan.Get(e.Definition, "outputSchema"),
		Annotations: jsonscan.Get(e.Definition, "annotations"), Script: e.Script != nil,
	}
}

// lint checks scripts and libraries against the tools that exist: unknown tools, arguments that do not fit. While
// backends are missing, it reports only what does not depend on them.
func (b *builder) lint(set *Set) {
	if !b.complete {
		for _, t := range set.Texts() {
			b.reportText(t, t.Problems)
		}
		return
	}
	tools := map[string]check.Tool{}
	for name, e := range b.c.toolByName {
		tools[name] = e.known()
	}
	for origin, e := range b.c.toolByOrigin {
		tools[origin] = e.known()
	}
	for _, t := range set.Texts() {
		if t.Source.Source == nil {
			b.reportText(t, t.Problems)
		}
	}
	set.Assign(set.Check(tools, nil, Known{Cache: set.Cache()}).Problems(), func(t *Text, p diag.Problem) { b.reportText(t, diag.Problems{p}) })
	for _, s := range set.Tools() {
		if s.Composite {
			b.lintComposite(s, tools)
		}
	}
}

func (b *builder) reportText(t *Text, problems diag.Problems) {
	for _, p := range Judged(b.cfg, problems) {
		p.Entry = t.Entry
		b.c.Problems = append(b.c.Problems, p)
	}
}

// lintComposite reports steps whose tool does not exist.
func (b *builder) lintComposite(s *ScriptedTool, tools map[string]check.Tool) {
	for _, t := range s.Steps {
		if _, ok := tools[t.Name]; ok {
			continue
		}
		b.problem("", s.Name, "%s: no tool %q%s", t.Path, t.Name, display.Hint(t.Name, slices.Sorted(maps.Keys(tools))))
	}
}
