package proxy

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/script"
)

// compileComposite makes a scripted tool of a workflow in the legacy format. There is no
// second engine: the workflow runs as the script that migrate-composite prints.
func compileComposite(cfg *config.Config, c *config.CompositeTool) (*scriptedTool, error) {
	def, err := migrate.ParseAt(migrate.Pos{File: c.Pos.File, Line: c.Pos.Line, Column: c.Pos.Column}, c.Raw.JSON)
	if err != nil {
		return nil, err
	}
	s, err := migrate.Translate(def, migrate.Options{Style: migrate.Exact})
	if err != nil {
		return nil, err
	}
	t := &scriptedTool{name: s.Name, definition: compositeDefinition(s), limits: compositeLimits(cfg), composite: true, tools: s.Tools}
	if s.Timeout > 0 {
		t.limits.Time = s.Timeout
	}
	file := script.File{Name: s.Name + ".star", Source: []byte(s.Source)}
	t.program, err = script.Compile(file, builtins.Legacy(script.Options{Builtins: builtins.All(), Limits: t.limits}))
	if err != nil {
		return nil, fmt.Errorf("composite tool %s: %w", s.Name, err)
	}
	if !s.Unchecked {
		if t.input, err = schema.CompileForeign(wire.Get(t.definition, "inputSchema")); err != nil {
			return nil, fmt.Errorf("composite tool %s: parameters: %w", s.Name, err)
		}
	}
	return t, nil
}

// compositeLimits leave room for what the legacy engine allowed: loops of 1,000 elements
// with retries, 50 at a time, in any number.
func compositeLimits(cfg *config.Config) script.Limits {
	l := scriptLimits(&cfg.Limits)
	l.Calls, l.Branches, l.Parallel = max(l.Calls, 100_000), max(l.Branches, 100_000), max(l.Parallel, 50)
	return l
}

// compositeDefinition is the tool as clients see it.
func compositeDefinition(s *migrate.Script) json.RawMessage {
	def := wire.Set(nil, "name", wire.Quote(s.Name))
	def = wire.Set(def, "description", wire.Quote(s.Description))
	input := s.Parameters
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	def = wire.Set(def, "inputSchema", input)
	if len(s.Output) > 0 {
		def = wire.Set(def, "outputSchema", s.Output)
	}
	if len(s.Annotations) > 0 {
		def = wire.Set(def, "annotations", s.Annotations)
	}
	return def
}

// warnComposites says, once per tool and configuration, how to leave the old format.
func warnComposites(log *slog.Logger, cfg *config.Config) {
	for _, c := range cfg.CompositeTools {
		log.Warn("composite tools are deprecated; this one runs as a script",
			"tool", c.Name, "pos", fmt.Sprintf("%s:%d:%d", c.Pos.File, c.Pos.Line, c.Pos.Column),
			"migrate", "vmcp migrate-composite "+c.Name+" -f "+c.Pos.File)
	}
}
