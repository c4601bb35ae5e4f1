package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// A ScriptedTool is a script that clients see as a tool. It is immutable.
type ScriptedTool struct {
	Name       string
	Definition json.RawMessage // as clients see it, without derived hints
	Program    *script.Program
	Text       string // its source
	Limits     script.Limits
	Trusted    bool // its annotations may claim less risk than those of the tools that it calls
	Isolated   bool // runs in worker processes
	Composite  bool // it is written in the legacy format
	Durable    Durable
	Calls      check.Calls    // the tools that it can call
	Steps      []migrate.Tool // the tools that the steps of a composite name
	input      *schema.Schema // nil: anything is valid; so for output
	output     *schema.Schema
	none       atomic.Pointer[json.RawMessage] // the arguments of a call without any, once they were validated
}

// generalLimits are the limits of tools that set none.
func generalLimits(cfg *config.Config) script.Limits { return cfg.Limits.Or(script.DefaultLimits()) }

// toolLimits are the limits of a tool's runs.
func toolLimits(cfg *config.Config, c *config.ScriptedTool) script.Limits {
	l := generalLimits(cfg)
	if c.Limits != nil {
		l = c.Limits.Or(l)
	}
	if c.Timeout > 0 {
		l.Time = c.Timeout
	}
	return l
}

func compileScript(cfg *config.Config, c *config.ScriptedTool, text *Text, load Load) (*ScriptedTool, error) {
	t := &ScriptedTool{Name: c.Name, Limits: toolLimits(cfg, c), Trusted: c.TrustAnnotations, Isolated: c.Isolated, Durable: durableOf(cfg, c)}
	made, err := text.compile(t.Limits, load)
	if err != nil {
		return nil, err
	}
	t.Program = made.program.For(c.Entry)
	t.Text = made.text
	t.Calls = made.scan.Calls()
	if len(text.Source.Tools) > 1 { // a declared tool does not have the calls of the others
		t.Calls = made.scan.CallsOf(text.Source.File, c.Entry)
	}
	t.Definition = scriptDefinition(c)
	return t, nil
}

// compiled is the program of a text, shared by its tools.
type compiled struct {
	limits  script.Limits
	program *script.Program
	scan    *check.Scan
	text    string
}

// compile compiles a text once for all of its tools with equal limits for compilation.
func (t *Text) compile(l script.Limits, load Load) (compiled, error) {
	for _, made := range t.made {
		if m := made.limits; m.Source == l.Source && m.Program == l.Program && m.LoadDepth == l.LoadDepth {
			return made, nil
		}
	}
	made := compiled{limits: l, scan: check.NewScan(builtins.Table()), text: string(t.Source.File.Source)}
	var functions []string
	for _, e := range t.Source.Tools {
		functions = append(functions, e.Function)
	}
	options := legacy.With(script.Options{Builtins: builtins.All(), Load: load, Limits: l, Inspect: made.scan.File, Functions: functions})
	var err error
	if made.program, err = script.Compile(t.Source.File, options); err != nil {
		return compiled{}, err
	}
	t.made = append(t.made, made)
	return made, nil
}

// compileSchemas compiles the schemas of parameters and result.
func (t *ScriptedTool) compileSchemas(c *config.ScriptedTool) (err error) {
	if t.input, err = schema.Compile(jsonscan.Get(t.Definition, "inputSchema")); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if len(c.Output.JSON) > 0 {
		if t.output, err = schema.Compile(c.Output.JSON); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// Arguments fills in defaults and validates the arguments of a call.
func (t *ScriptedTool) Arguments(raw json.RawMessage) (json.RawMessage, error) {
	if t.input == nil {
		return wire.OrEmpty(raw), nil
	}
	raw = wire.OrEmpty(raw)
	empty := string(raw) == "{}"
	if known := t.none.Load(); known != nil && empty {
		return *known, nil
	}
	args, err := t.input.Defaults(raw)
	if err == nil {
		err = t.input.Validate(args)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s do not fit its parameters: %w", t.Name, err)
	}
	if empty {
		known := slices.Clip(slices.Clone(args)) // a copy: args may be part of the request
		t.none.Store(&known)
	}
	return args, nil
}

// CheckOutput validates a result with the declared output schema.
func (t *ScriptedTool) CheckOutput(res *script.Result) error {
	if t.output == nil || res.IsError {
		return nil
	}
	if len(res.Structured) == 0 {
		return fmt.Errorf("%s declares an output schema and returned no structured value", t.Name)
	}
	if err := t.output.Validate(res.Structured); err != nil {
		return fmt.Errorf("the value that %s returned does not fit its output schema: %w", t.Name, err)
	}
	return nil
}

// scriptDefinition is the tool as clients see it.
func scriptDefinition(c *config.ScriptedTool) json.RawMessage {
	def := new(jsonscan.Object).Text("name", c.Name)
	if c.Title != "" {
		def.Text("title", c.Title)
	}
	def.Text("description", c.Description)
	def.Raw("inputSchema", orAnyObject(c.Parameters.JSON)).Raw("outputSchema", c.Output.JSON)
	if c.Annotations != nil {
		annotations, _ := json.Marshal(c.Annotations)
		def.Raw("annotations", annotations)
	}
	return def.JSON()
}

// orAnyObject is the input schema, which is required in MCP: any object if none is declared.
func orAnyObject(input json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return input
}
