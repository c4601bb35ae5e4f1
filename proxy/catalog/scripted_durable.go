package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// Durable says how the runs of a scripted tool are kept beyond their requests; the values are those of the
// configuration, auto resolved.
type Durable struct {
	When         string // auto, always or never
	OnDoubt      string // wait or fail
	OnDisconnect string // cancel, pause or continue; auto: pause for a request that can be repeated, else cancel
}

// durableOf is the effective setting of a tool; composite tools have none of their own.
func durableOf(cfg *config.Config, c *config.ScriptedTool) Durable {
	if c == nil {
		c = &config.ScriptedTool{}
	}
	d := Durable{cmp.Or(c.Durable, cfg.Runs.Durable, "auto"), cmp.Or(c.OnDoubt, cfg.Runs.OnDoubt, "auto"), cmp.Or(c.OnDisconnect, cfg.Runs.OnDisconnect, "auto")}
	stored := cfg.SessionStorage.Lasting() && d.When != "never"
	switch {
	case d.OnDoubt == "auto" && stored:
		d.OnDoubt = "wait"
	case d.OnDoubt == "auto": // nobody can resolve it
		d.OnDoubt = "fail"
	}
	if d.OnDisconnect == "auto" && stored {
		d.OnDisconnect = "pause"
	}
	return d
}

// OutputSchema is the schema of the tool's result; nil for any result.
func (t *ScriptedTool) OutputSchema() json.RawMessage {
	if t.output == nil {
		return nil
	}
	return jsonscan.Get(t.Definition, "outputSchema")
}

// Pinned is the program with which a run began.
type Pinned struct {
	Name, Main, Hash string
	Entry            string            // the function to call; "" is run
	Files            map[string]string // texts by name
	Limits           script.Limits
	Isolated         bool
	Output           json.RawMessage // OutputSchema
}

// Tool compiles the tool of a run from its pinned program; known is the current tool of that name, if there is one.
func (p Pinned) Tool(known *ScriptedTool) (*ScriptedTool, error) {
	t := &ScriptedTool{Name: p.Name, Limits: p.Limits, Isolated: p.Isolated}
	if known != nil && known.Program != nil && known.Program.Hash() == p.Hash {
		t.Program = known.Program
	} else {
		options := legacy.With(script.Options{Builtins: builtins.All(), Limits: p.Limits, Functions: []string{p.Entry}})
		options.Load = func(_, name string) (script.File, error) {
			text, ok := p.Files[name]
			if !ok {
				return script.File{}, errors.New("not part of the program")
			}
			return script.File{Name: name, Source: []byte(text)}, nil
		}
		var err error
		if t.Program, err = script.Compile(script.File{Name: p.Main, Source: []byte(p.Files[p.Main])}, options); err != nil {
			return nil, fmt.Errorf("compile the program with which the run began: %w", err)
		}
	}
	if len(p.Output) > 0 {
		var err error
		if t.output, err = schema.Compile(p.Output); err != nil {
			return nil, fmt.Errorf("compile the output schema with which the run began: %w", err)
		}
	}
	return t, nil
}

// scriptedGone is a scripted tool that is no longer configured but has unfinished runs.
func scriptedGone(name string) *ScriptedTool {
	return &ScriptedTool{Name: name, Definition: new(jsonscan.Object).Text("name", name).Raw("inputSchema", orAnyObject(nil)).JSON()}
}
