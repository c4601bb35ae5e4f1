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
	"github.com/vmcp-dev/vmcp/proxy/catalog/texts"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// A ScriptedTool is a workflow that clients see as a tool. It does not change.
type ScriptedTool struct {
	Name       string
	definition json.RawMessage
	Program    *script.Program
	text       string // as it is written
	Limits     script.Limits
	input      *schema.Schema // nil: anything, like output
	output     *schema.Schema
	none       atomic.Pointer[json.RawMessage] // what a call without arguments comes to, once it is known to fit
	trusted    bool                            // its annotations may look safer than what it calls
	Isolated   bool                            // runs in worker processes
	composite  bool                            // it is written in the legacy format
	Durable    Durable
	calls      check.Calls    // the tools that it calls
	steps      []migrate.Tool // where a composite names them
}

// generalLimits are those of runs of tools that set none.
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

func compileScript(cfg *config.Config, c *config.ScriptedTool, text *scriptText, load texts.Load) (*ScriptedTool, error) {
	t := &ScriptedTool{Name: c.Name, Limits: toolLimits(cfg, c), trusted: c.TrustAnnotations, Isolated: c.Isolated, Durable: durableOf(cfg, c)}
	made, err := text.compile(t.Limits, load)
	if err != nil {
		return nil, err
	}
	t.Program = made.program.For(c.Entry)
	t.text = string(text.source.File.Source)
	t.calls = made.scan.Calls()
	if len(text.source.Tools) > 1 { // which do not call what the others call
		t.calls = made.scan.CallsOf(text.source.File, c.Entry)
	}
	t.definition = scriptDefinition(c)
	return t, nil
}

// compiled is the program of a text, for all of its tools.
type compiled struct {
	limits  script.Limits
	program *script.Program
	scan    *check.Scan
}

// compile compiles a text once for all of its tools that set the same limits to that.
func (t *scriptText) compile(l script.Limits, load texts.Load) (compiled, error) {
	for _, made := range t.made {
		if m := made.limits; m.Source == l.Source && m.Program == l.Program && m.LoadDepth == l.LoadDepth {
			return made, nil
		}
	}
	made := compiled{limits: l, scan: check.NewScan(builtins.Table())}
	var functions []string
	for _, e := range t.source.Tools {
		functions = append(functions, e.Function)
	}
	options := legacy.With(script.Options{Builtins: builtins.All(), Load: load, Limits: l, Inspect: made.scan.File, Functions: functions})
	var err error
	if made.program, err = script.Compile(t.source.File, options); err != nil {
		return compiled{}, err
	}
	t.made = append(t.made, made)
	return made, nil
}

// compileSchemas compiles what the tool takes and returns.
func (t *ScriptedTool) compileSchemas(c *config.ScriptedTool) (err error) {
	if t.input, err = schema.Compile(jsonscan.Get(t.definition, "inputSchema")); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if len(c.Output.JSON) > 0 {
		if t.output, err = schema.Compile(c.Output.JSON); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// Arguments fills in the defaults of a call's arguments and checks them.
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
		known := slices.Clip(slices.Clone(args)) // those of this call may be a part of its request
		t.none.Store(&known)
	}
	return args, nil
}

// CheckOutput holds a result against the schema that the tool declares.
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

// orAnyObject is the schema of a tool's arguments, which a tool has to have.
func orAnyObject(input json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return input
}
