package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// compileComposite converts a workflow in the legacy format to a scripted tool. There is no second engine: the tool
// runs the script that vmcp migrate-composite prints.
func compileComposite(cfg *config.Config, c *config.CompositeTool) (*ScriptedTool, error) {
	def, err := migrate.ParseAt(c.Pos, c.Raw.JSON)
	if err != nil {
		return nil, err
	}
	s, err := migrate.Translate(def, migrate.Options{Style: migrate.Exact})
	if err != nil {
		return nil, err
	}
	t := &ScriptedTool{Name: s.Name, Definition: compositeDefinition(s), Limits: compositeLimits(cfg), Composite: true, Steps: s.Tools, Durable: durableOf(cfg, nil)}
	for _, tool := range s.Tools {
		t.Calls.Tools = append(t.Calls.Tools, tool.Name)
	}
	if s.Timeout > 0 {
		t.Limits.Time = script.Duration(s.Timeout)
	}
	t.Text = s.Source
	file := script.File{Name: s.Name + ".star", Source: []byte(s.Source)}
	t.Program, err = script.Compile(file, legacy.With(script.Options{Builtins: builtins.All(), Limits: t.Limits}))
	if err != nil {
		return nil, fmt.Errorf("composite tool %s: %w", s.Name, err)
	}
	if !s.Unchecked {
		if t.input, err = schema.CompileForeign(jsonscan.Get(t.Definition, "inputSchema")); err != nil {
			return nil, fmt.Errorf("composite tool %s: parameters: %w", s.Name, err)
		}
	}
	return t, nil
}

// Whole reports whether limits.time bounds a whole run of the tool, suspended time included, as in the legacy engine.
func (t *ScriptedTool) Whole() bool { return t.Composite }

// compositeLimits are limits that allow what the legacy engine allowed: loops of 1,000 elements with retries, 50 at a
// time, any number of them.
func compositeLimits(cfg *config.Config) script.Limits {
	l := generalLimits(cfg)
	l.Calls, l.Branches, l.Parallel = max(l.Calls, 100_000), max(l.Branches, 100_000), max(l.Parallel, 50)
	return l
}

// compositeDefinition is the tool as clients see it.
func compositeDefinition(s *migrate.Script) json.RawMessage {
	return new(jsonscan.Object).Text("name", s.Name).Text("description", s.Description).
		Raw("inputSchema", orAnyObject(s.Parameters)).Raw("outputSchema", s.Output).Raw("annotations", s.Annotations).JSON()
}
