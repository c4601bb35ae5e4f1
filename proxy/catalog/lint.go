package catalog

import (
	"maps"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/script/check"
)

// checkShadowed reports scripts that name a tool of a backend whose name a scripted tool
// has: they reach the script, and one that calls itself never ends.
func (b *builder) checkShadowed() {
	for _, e := range b.tools {
		if e.Script == nil {
			continue
		}
		for _, name := range e.Script.calls.Tools {
			if hidden := b.c.shadowed[name]; hidden != nil {
				b.mistake("", e.Name, "calls %q, which is a scripted tool here; the backend's tool of that name is %q", name, hidden.Origin())
			}
		}
	}
}

// known is what checks may know of a tool.
func (e *Entry) known() check.Tool {
	return check.Tool{
		Description: jsonscan.GetString(e.Definition, "description"),
		Input:       jsonscan.Get(e.Definition, "inputSchema"), Output: jsonscan.Get(e.Definition, "outputSchema"),
		Annotations: jsonscan.Get(e.Definition, "annotations"), Script: e.Script != nil,
	}
}

// lint looks for mistakes in scripts and libraries that their text shows once it is known
// which tools there are: tools that do not exist, arguments that do not fit. Until then it
// reports what is known without.
func (b *builder) lint(scripts *Scripts) {
	if !b.complete {
		for _, t := range scripts.texts {
			b.reportText(t, t.problems)
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
	for _, t := range scripts.texts {
		if t.source.Source == nil {
			b.reportText(t, t.problems)
		}
	}
	scripts.assign(scripts.check(tools, nil, Known{Cache: scripts.cache}).Problems(), func(t *scriptText, p diag.Problem) { b.reportText(t, diag.Problems{p}) })
	for _, s := range scripts.tools {
		if s.composite {
			b.lintComposite(s, tools)
		}
	}
}

func (b *builder) reportText(t *scriptText, problems diag.Problems) {
	for _, p := range Judged(b.cfg, problems) {
		p.Entry = t.entry
		b.c.Problems = append(b.c.Problems, p)
	}
}

// lintComposite looks for steps whose tool does not exist.
func (b *builder) lintComposite(s *ScriptedTool, tools map[string]check.Tool) {
	for _, t := range s.steps {
		if _, ok := tools[t.Name]; ok {
			continue
		}
		b.problem("", s.Name, "%s: no tool %q%s", t.Path, t.Name, spell.Hint(t.Name, slices.Sorted(maps.Keys(tools))))
	}
}
