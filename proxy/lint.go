package proxy

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// lint looks for mistakes in scripts that their text shows once it is known which tools
// there are: tools that do not exist, arguments that do not fit.
func (b *builder) lint(scripts []*scriptedTool) {
	tools := map[string]json.RawMessage{}
	for name, e := range b.c.toolByName {
		tools[name] = wire.Get(e.def, "inputSchema")
	}
	for origin, e := range b.c.toolByOrigin {
		tools[origin] = wire.Get(e.def, "inputSchema")
	}
	for _, s := range scripts {
		if s.composite {
			continue
		}
		for _, p := range script.Check(s.file, script.CheckOptions{Builtins: builtins.All(), Tools: tools, Limits: s.limits}) {
			text := p.String()
			if p.Hint != "" {
				text += "; " + p.Hint
			}
			b.problem("", s.name, "%s", text)
		}
	}
}
