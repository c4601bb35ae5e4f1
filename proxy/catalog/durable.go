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

// Durable says how the runs of a scripted tool outlive their requests; the words are those of the
// configuration.
type Durable struct {
	When         string // auto, always or never
	OnDoubt      string // wait or fail
	OnDisconnect string // pause or continue
}

// durableOf is what holds for a tool, and for one of the legacy format without words of its own.
func durableOf(cfg *config.Config, c *config.ScriptedTool) Durable {
	d := Durable{cmp.Or(cfg.Runs.Durable, "auto"), cmp.Or(cfg.Runs.OnDoubt, "wait"), cmp.Or(cfg.Runs.OnDisconnect, "pause")}
	if c == nil {
		return d
	}
	return Durable{cmp.Or(c.Durable, d.When), cmp.Or(c.OnDoubt, d.OnDoubt), cmp.Or(c.OnDisconnect, d.OnDisconnect)}
}

// OutputSchema is the schema of what the tool returns; nil for anything.
func (t *ScriptedTool) OutputSchema() json.RawMessage {
	if t.output == nil {
		return nil
	}
	return jsonscan.Get(t.definition, "outputSchema")
}

// Pinned is what a run began with.
type Pinned struct {
	Name, Main, Hash string
	Entry            string            // the function that it calls; "" is run
	Files            map[string]string // texts by name
	Limits           script.Limits
	Isolated         bool
	Output           json.RawMessage // OutputSchema
}

// Tool is the tool of a run, whatever is configured now: known is the one of its name, if there is one.
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
			return nil, fmt.Errorf("the program that the run began with: %w", err)
		}
	}
	if len(p.Output) > 0 {
		var err error
		if t.output, err = schema.Compile(p.Output); err != nil {
			return nil, fmt.Errorf("the output schema that the run began with: %w", err)
		}
	}
	return t, nil
}

// Gone is the entry of a scripted tool that is configured no more and has runs that go on.
func Gone(name string) *Entry {
	def := new(jsonscan.Object).Text("name", name).Raw("inputSchema", orAnyObject(nil)).JSON()
	return &Entry{Name: name, Original: name, Definition: def, Hidden: true, Script: &ScriptedTool{Name: name, definition: def}}
}
