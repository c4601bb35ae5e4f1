package catalog

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/definition"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/script"
)

// What tests of scripts need to know, without a backend.

// Tools are the scripted tools that compile.
func (s *Scripts) Tools() []*ScriptedTool { return s.tools }

// Load finds what scripts load.
func (s *Scripts) Load(from, name string) (script.File, error) { return s.load(from, name) }

// Composite reports whether the tool is written in the legacy format.
func (t *ScriptedTool) Composite() bool { return t.composite }

// LockedTool is a tool of a backend as a lock has it.
type LockedTool struct {
	Name, Origin  string         // as scripts call it: by the name that clients see, and as backend.tool
	Input, Output *schema.Schema // nil: anything
	Definition    json.RawMessage
}

// LockedTools are the tools of a configuration's backends as a lock has them, with the names that they
// have when they are served. complete is false when the lock has nothing of some backend.
func LockedTools(cfg *config.Config, f *lock.File) (tools []LockedTool, complete bool) {
	b := &builder{cfg: cfg, rules: map[string]*config.WorkloadTools{}}
	b.readRules()
	complete = true
	for _, be := range cfg.Backends {
		complete = complete && f.Has(be.Name)
		var items []backends.Item
		for _, n := range f.Names() {
			if n.Kind == lock.Tool && n.Backend == be.Name {
				items = append(items, backends.Item{Name: n.Own, Raw: f.Entries[n].Definition})
			}
		}
		tools = append(tools, b.lockedTools(be.Name, items)...)
	}
	return tools, complete
}

func (b *builder) lockedTools(backend string, items []backends.Item) (tools []LockedTool) {
	rule, exact := b.rules[backend], map[string]bool{}
	for _, item := range items {
		if text := b.toolText(backend, rule, item.Name); exposedName(text) == text {
			exact[text] = true
		}
	}
	for _, item := range items {
		if definition.Tool.Usable(item.Name, item.Raw) != nil {
			continue
		}
		text := b.toolText(backend, rule, item.Name)
		name := exposedName(text)
		if name != text && exact[name] {
			name = hashedName(text)
		}
		tools = append(tools, LockedTool{Name: name, Origin: backend + "." + item.Name, Definition: item.Raw,
			Input: foreignSchema(jsonscan.Get(item.Raw, "inputSchema")), Output: foreignSchema(jsonscan.Get(item.Raw, "outputSchema"))})
	}
	return tools
}
