package catalog

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/lock"
)

// What tests of scripts need to know, without a backend.

// Tools are the scripted tools that compile.
func (s *Scripts) Tools() []*ScriptedTool { return s.tools }

// Composite reports whether the tool is written in the legacy format.
func (t *ScriptedTool) Composite() bool { return t.composite }

// LockedTool is a tool of a backend as a lock has it.
type LockedTool struct {
	Name, Origin       string // as scripts call it: by the name that clients see, and as backend.tool
	Input              json.RawMessage
	Arguments, Returns *schema.Schema // compiled; nil: anything
}

// LockedTools are the tools of a configuration's backends as a lock has them, with the names that they
// have when they are served. complete is false when the lock has nothing of some backend.
func LockedTools(cfg *config.Config, f *lock.File) (tools []LockedTool, complete bool) {
	eachLocked(cfg, f, func(exposed, origin string, definition json.RawMessage) {
		input := jsonscan.Get(definition, "inputSchema")
		tools = append(tools, LockedTool{Name: exposed, Origin: origin, Input: input,
			Arguments: foreignSchema(input), Returns: foreignSchema(jsonscan.Get(definition, "outputSchema"))})
	})
	return tools, len(notLocked(cfg, f)) == 0
}
