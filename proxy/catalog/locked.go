package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// LockedTool is a tool of a backend according to a lock file.
type LockedTool struct {
	Name, Origin       string // as scripts call it: exposed name, and backend.tool
	Input              json.RawMessage
	Arguments, Returns *schema.Schema // compiled; nil: anything is valid
	Repeat             script.Repeat
}

// LockedTools are the tools of a configuration's backends according to a lock file, with their exposed names. complete
// is false if the lock has no entries of some backend.
func LockedTools(cfg *config.Config, f *lock.File) (tools []LockedTool, complete bool) {
	eachLocked(cfg, f, func(exposed, origin string, e *Entry) {
		input := jsonscan.Get(e.Definition, "inputSchema")
		tools = append(tools, LockedTool{Name: exposed, Origin: origin, Input: input, Repeat: e.Repeat(),
			Arguments: foreignSchema(input), Returns: foreignSchema(jsonscan.Get(e.Definition, "outputSchema"))})
	})
	return tools, len(notLocked(cfg, f)) == 0
}

// lockedTools are the tools of backends according to a lock file, by the names that scripts use; names, overrides and
// conflicts are resolved as Build does.
func lockedTools(cfg *config.Config, f *lock.File) map[string]check.Tool {
	tools := map[string]check.Tool{}
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}}
	b.readRules()
	eachLocked(cfg, f, func(exposed, origin string, e *Entry) {
		tool := e.known()
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

// eachLocked calls visit for each tool of a lock file: the exposed name, backend.tool, and an entry with the definition and
// the overrides.
func eachLocked(cfg *config.Config, f *lock.File, visit func(exposed, origin string, e *Entry)) {
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}}
	b.readRules()
	for _, name := range priority(cfg) {
		rule := b.rules[name]
		items, exact := lockedItems(f, name), map[string]bool{}
		for _, item := range items {
			if text := b.toolText(name, rule, item.Name); exposed(text) == text {
				exact[text] = true
			}
		}
		for _, item := range items {
			if definitionTool.Usable(item.Name, item.Raw) != nil {
				continue
			}
			text := b.toolText(name, rule, item.Name)
			exposed := exposed(text)
			if exposed != text && exact[exposed] {
				exposed = hashed(text)
			}
			var over config.ToolOverride
			if rule != nil {
				over = rule.Overrides[item.Name]
			}
			e := &Entry{Definition: overrideTool(item.Raw, exposed, over)}
			e.trust(cfg, over)
			visit(exposed, name+"."+item.Name, e)
		}
	}
}

// hiddenTool marks a tool that clients do not see: a script may take its name.
const hiddenTool = "hidden"

// priority is the order in which backends get names.
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

// notLocked are the indices of the backends of which the lock has no entries.
func notLocked(cfg *config.Config, f *lock.File) (missing []int) {
	for i, b := range cfg.Backends {
		if !f.Has(b.Name) {
			missing = append(missing, i)
		}
	}
	return missing
}

// mayBeOf reports whether a name may belong to a tool of one of the backends.
func mayBeOf(cfg *config.Config, indices []int, name string) bool {
	b := &builder{cfg: cfg}
	for _, i := range indices {
		backend := cfg.Backends[i].Name
		if strings.HasPrefix(name, backend+".") || strings.HasPrefix(name, clean(b.prefix(backend))) {
			return true
		}
	}
	return slices.ContainsFunc(cfg.CompositeTools, func(c config.CompositeTool) bool { return c.Name == name })
}
