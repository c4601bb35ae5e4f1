package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/definition"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/proxy/catalog/naming"
	"github.com/vmcp-dev/vmcp/proxy/catalog/texts"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Known is what is known when a configuration is checked. The zero value is nothing: what is
// found then needs no tool of a backend.
type Known struct {
	// Lock has the tools of the backends; nil: they are not known.
	Lock *lock.File
	// Overlay are texts of files that are not saved yet.
	Overlay Overlay
	// Last is what was known of earlier texts, see check.Options.
	Last *check.Program
	// Cache has what earlier checks found, see check.Options; nil: nothing is kept.
	Cache *check.Cache
}

// Overlay are texts that stand for those of files, by absolute path.
type Overlay = texts.Overlay

// Check finds what is wrong with the scripts, libraries, tests and workflows of a configuration,
// and what may not be meant.
func Check(cfg *config.Config, known Known) (*check.Program, diag.Problems) {
	set, problems := compile(cfg, known)
	if known.Lock == nil {
		for _, t := range set.texts {
			problems = append(problems, t.problems...)
		}
		return set.program, append(problems, deprecated(cfg)...)
	}
	for _, t := range set.texts {
		if t.source.Source == nil {
			problems = append(problems, t.problems...)
		}
	}
	tools := lockedTools(cfg, known.Lock)
	for name, t := range scriptedTools(set.texts) {
		if hidden, taken := tools[name]; taken && hidden.Pos.File != hiddenTool {
			problems = append(problems, diag.Problem{Pos: t.Pos, Code: "tool-duplicate",
				Message: fmt.Sprintf("a backend has a tool %s, too: clients and scripts get the script", name), Hint: "rename one of the two"})
		}
		tools[name] = t
	}
	missing := notLocked(cfg, known.Lock)
	var unknown func(string) bool
	if len(missing)+len(cfg.CompositeTools) > 0 {
		unknown = func(name string) bool { return mayBeOf(cfg, missing, name) }
	}
	p := set.check(tools, unknown, known)
	problems = append(problems, p.Problems()...)
	for _, i := range missing {
		problems = append(problems, diag.Problem{Pos: cfg.Place(fmt.Sprintf("backends[%d]", i)), Severity: diag.Warning, Code: "lock-incomplete",
			Message: fmt.Sprintf("nothing of the backend %s is in the lock: calls of its tools are not checked", cfg.Backends[i].Name),
			Hint:    "vmcp lock --backend " + cfg.Backends[i].Name})
	}
	return p, append(problems, deprecated(cfg)...)
}

// Judged are problems as the configuration wants them told.
func Judged(cfg *config.Config, problems diag.Problems) (told diag.Problems) {
	for _, p := range problems {
		if slices.Contains(cfg.Check.Ignore, p.Code) {
			continue
		}
		if s, ok := cfg.Check.Severity[p.Code]; ok {
			p.Severity = diag.Severity(s)
		}
		told = append(told, p)
	}
	return told
}

// check checks all texts together.
func (s *Scripts) check(tools map[string]check.Tool, unknown func(string) bool, known Known) *check.Program {
	var sources []check.Source
	for _, t := range s.texts {
		if t.source.Source != nil {
			sources = append(sources, t.source)
		}
	}
	return check.Check(sources, check.Options{Builtins: builtins.Table(), Tools: tools, Unknown: unknown, TestBuiltins: suite.Table(), Hold: s.hold, Load: s.load,
		Last: known.Last, Cache: known.Cache})
}

// assign finds the text that each problem stands in.
func (s *Scripts) assign(problems diag.Problems, to func(*scriptText, diag.Problem)) {
	for _, p := range problems {
		i := slices.IndexFunc(s.texts, func(t *scriptText) bool { return t.source.Source != nil && t.source.Holds(p.Pos) })
		if i >= 0 {
			to(s.texts[i], p)
		}
	}
}

// scriptedTools are the tools that texts are.
func scriptedTools(texts []*scriptText) map[string]check.Tool {
	tools := map[string]check.Tool{}
	for _, t := range texts {
		for i, e := range t.source.Tools {
			if e.Tool != "" {
				tools[e.Tool] = check.Tool{Input: orAnyObject(e.Input), Output: e.Output, Script: true, Pos: t.named[i]}
			}
		}
	}
	return tools
}

// lockedTools are the tools of backends as a file of pins has them, by the names under which
// scripts call them: names, overrides and conflicts are as when they are served.
func lockedTools(cfg *config.Config, f *lock.File) map[string]check.Tool {
	tools := map[string]check.Tool{}
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}}
	b.readRules()
	eachLocked(cfg, f, func(exposed, origin string, definition json.RawMessage) {
		tool := (&Entry{Definition: definition}).known()
		if backend, own, _ := strings.Cut(origin, "."); b.isHidden(b.rules[backend], own) {
			tool.Pos.File = hiddenTool
		}
		if _, taken := tools[exposed]; !taken {
			tools[exposed] = tool
		}
		tools[origin] = tool
	})
	return tools
}

// eachLocked visits the tools of a file of pins: the name that clients see, backend.tool, and the definition
// with what the configuration changes in it.
func eachLocked(cfg *config.Config, f *lock.File, visit func(exposed, origin string, definition json.RawMessage)) {
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}}
	b.readRules()
	for _, name := range priority(cfg) {
		rule := b.rules[name]
		items, exact := lockedItems(f, name), map[string]bool{}
		for _, item := range items {
			if text := b.toolText(name, rule, item.Name); naming.Exposed(text) == text {
				exact[text] = true
			}
		}
		for _, item := range items {
			if definition.Tool.Usable(item.Name, item.Raw) != nil {
				continue
			}
			text := b.toolText(name, rule, item.Name)
			exposed := naming.Exposed(text)
			if exposed != text && exact[exposed] {
				exposed = naming.Hashed(text)
			}
			var over config.ToolOverride
			if rule != nil {
				over = rule.Overrides[item.Name]
			}
			visit(exposed, name+"."+item.Name, overrideTool(item.Raw, exposed, over))
		}
	}
}

// hiddenTool marks a tool that clients do not see: a script may stand in for it.
const hiddenTool = "hidden"

// priority is the order in which backends claim names.
func priority(cfg *config.Config) (names []string) {
	for _, b := range cfg.Backends {
		names = append(names, b.Name)
	}
	order := cfg.Aggregation.ConflictResolutionConfig.PriorityOrder
	if cfg.Aggregation.ConflictResolution == "priority" && len(order) > 0 {
		rank := func(name string) int {
			if i := slices.Index(order, name); i >= 0 {
				return i
			}
			return len(order)
		}
		slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	}
	return names
}

func lockedItems(f *lock.File, backend string) (items []backends.Item) {
	for _, n := range f.Names() {
		if n.Kind == lock.Tool && n.Backend == backend {
			items = append(items, backends.Item{Name: n.Own, Raw: f.Entries[n].Definition})
		}
	}
	return items
}

// notLocked are the backends, by index, of which nothing is in a file of pins.
func notLocked(cfg *config.Config, f *lock.File) (missing []int) {
	for i, b := range cfg.Backends {
		if !f.Has(b.Name) {
			missing = append(missing, i)
		}
	}
	return missing
}

// mayBeOf reports whether a name may be that of a tool of one of the backends.
func mayBeOf(cfg *config.Config, indices []int, name string) bool {
	b := &builder{cfg: cfg}
	for _, i := range indices {
		backend := cfg.Backends[i].Name
		if strings.HasPrefix(name, backend+".") || strings.HasPrefix(name, naming.Clean(b.prefix(backend))) {
			return true
		}
	}
	return slices.ContainsFunc(cfg.CompositeTools, func(c config.CompositeTool) bool { return c.Name == name })
}
