package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// A scriptedTool is a workflow that clients see as a tool. It does not change.
type scriptedTool struct {
	name       string
	definition json.RawMessage
	program    *script.Program
	limits     script.Limits
}

// compileScripts compiles every scripted tool of a configuration. The error has all
// the problems of all of them.
func compileScripts(cfg *config.Config) ([]*scriptedTool, error) {
	var tools []*scriptedTool
	var problems []error
	for i := range cfg.ScriptedTools {
		t, err := compileScript(cfg, &cfg.ScriptedTools[i])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		tools = append(tools, t)
	}
	return tools, errors.Join(problems...)
}

func compileScript(cfg *config.Config, c *config.ScriptedTool) (*scriptedTool, error) {
	file := script.File{Name: c.Name + ".star", Source: []byte(c.Script)}
	if c.ScriptFile != "" {
		source, err := os.ReadFile(c.ScriptFile)
		if err != nil {
			return nil, fmt.Errorf("scripted tool %s: %w", c.Name, err)
		}
		file = script.File{Name: c.ScriptFile, Source: source}
	}
	limits := scriptLimits(c.Limits).Or(scriptLimits(&cfg.Limits))
	if c.Timeout > 0 {
		limits.Time = c.Timeout.Std()
	}
	program, err := script.Compile(file, script.Options{Builtins: builtins.All(), Limits: limits})
	if err != nil {
		return nil, err
	}
	return &scriptedTool{name: c.Name, definition: scriptDefinition(c), program: program, limits: limits}, nil
}

// scriptLimits is the configuration's limits as the engine takes them.
func scriptLimits(l *config.Limits) script.Limits {
	if l == nil {
		return script.Limits{}
	}
	return script.Limits{
		Steps: uint64(l.Steps), Memory: int64(l.Memory), Time: l.Time.Std(), CallTimeout: l.CallTimeout.Std(),
		ElicitTimeout: l.ElicitTimeout.Std(), Calls: l.Calls, Parallel: l.Parallel, Branches: l.Branches,
		Nesting: l.Nesting, CallDepth: l.CallDepth, LoadDepth: l.LoadDepth, Source: int(l.Source),
		Result: int64(l.Result), Output: int64(l.Output), LogBytes: int64(l.LogBytes),
	}
}

// scriptDefinition is the tool as clients see it.
func scriptDefinition(c *config.ScriptedTool) json.RawMessage {
	def := wire.Set(nil, "name", wire.Quote(c.Name))
	if c.Title != "" {
		def = wire.Set(def, "title", wire.Quote(c.Title))
	}
	def = wire.Set(def, "description", wire.Quote(c.Description))
	input := c.Parameters.JSON
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	def = wire.Set(def, "inputSchema", input)
	if len(c.Output.JSON) > 0 {
		def = wire.Set(def, "outputSchema", c.Output.JSON)
	}
	if c.Annotations != nil {
		annotations, _ := json.Marshal(c.Annotations)
		def = wire.Set(def, "annotations", annotations)
	}
	return def
}
