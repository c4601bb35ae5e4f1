package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// A scriptedTool is a workflow that clients see as a tool. It does not change.
type scriptedTool struct {
	name       string
	definition json.RawMessage
	program    *script.Program
	limits     script.Limits
	input      *schema.Schema // nil: anything, like output
	output     *schema.Schema
	trusted    bool // its annotations may look safer than what it calls
	composite  bool // it is written in the legacy format
	file       script.File
	tools      []string // that a composite calls
}

// compileScripts compiles every scripted tool of a configuration. The error has all
// the problems of all of them.
func compileScripts(cfg *config.Config) ([]*scriptedTool, error) {
	var tools []*scriptedTool
	var problems []error
	load := libraries(cfg).Load
	found, err := folderTools(cfg)
	if err != nil {
		problems = append(problems, err)
	}
	configured := slices.Concat(cfg.ScriptedTools, found)
	for i := range configured {
		t, err := compileScript(cfg, &configured[i], load)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		tools = append(tools, t)
	}
	for i := range cfg.CompositeTools {
		t, err := compileComposite(cfg, &cfg.CompositeTools[i])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		tools = append(tools, t)
	}
	return tools, errors.Join(problems...)
}

// libraries is where load() finds files.
func libraries(cfg *config.Config) script.Library {
	l := script.Library{Inline: map[string]string{}}
	for _, lib := range cfg.Libraries {
		if lib.Path != "" {
			l.Dirs = append(l.Dirs, lib.Path)
		} else {
			l.Inline[lib.Name] = lib.Source
		}
	}
	l.Dirs = append(l.Dirs, cfg.Scripts...)
	return l
}

type loadFunc func(from, name string) (script.File, error)

func compileScript(cfg *config.Config, c *config.ScriptedTool, load loadFunc) (*scriptedTool, error) {
	file := script.File{Name: c.Name + ".star", Source: []byte(c.Script)}
	if c.ScriptFile != "" {
		source, err := os.ReadFile(c.ScriptFile)
		if err != nil {
			return nil, fmt.Errorf("scripted tool %s: %w", c.Name, err)
		}
		file = script.File{Name: c.ScriptFile, Source: source}
	}
	t := &scriptedTool{name: c.Name, limits: scriptLimits(c.Limits).Or(scriptLimits(&cfg.Limits)), trusted: c.TrustAnnotations}
	if c.Timeout > 0 {
		t.limits.Time = c.Timeout.Std()
	}
	t.file = file
	var err error
	if t.program, err = script.Compile(file, builtins.Legacy(script.Options{Builtins: builtins.All(), Load: load, Limits: t.limits})); err != nil {
		return nil, err
	}
	t.definition = scriptDefinition(c)
	return t, t.compileSchemas(c)
}

func (t *scriptedTool) compileSchemas(c *config.ScriptedTool) (err error) {
	if t.input, err = schema.Compile(wire.Get(t.definition, "inputSchema")); err != nil {
		return fmt.Errorf("scripted tool %s: parameters: %w", c.Name, err)
	}
	if len(c.Output.JSON) > 0 {
		if t.output, err = schema.Compile(c.Output.JSON); err != nil {
			return fmt.Errorf("scripted tool %s: output: %w", c.Name, err)
		}
	}
	return nil
}

// calls returns the tools that the script can call, and whether it can call others.
func (t *scriptedTool) calls() script.Calls {
	if t.composite {
		return script.Calls{Tools: t.tools}
	}
	return t.program.Calls()
}

// arguments fills in the defaults of a call's arguments and checks them.
func (t *scriptedTool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if t.input == nil {
		return orEmpty(raw), nil
	}
	args, err := t.input.Defaults(orEmpty(raw))
	if err == nil {
		err = t.input.Validate(args)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s do not fit its parameters: %w", t.name, err)
	}
	return args, nil
}

// checkOutput holds a result against the schema that the tool declares.
func (t *scriptedTool) checkOutput(res *script.Result) error {
	if t.output == nil || res.IsError {
		return nil
	}
	if len(res.Structured) == 0 {
		return fmt.Errorf("%s declares an output schema and returned no structured value", t.name)
	}
	if err := t.output.Validate(res.Structured); err != nil {
		return fmt.Errorf("the value that %s returned does not fit its output schema: %w", t.name, err)
	}
	return nil
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
