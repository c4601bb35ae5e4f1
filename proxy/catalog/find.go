package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A Ref is a name with the kind of entry that it is to name.
type Ref struct {
	kind kind
	name string
}

type kind uint8

const (
	kindTool kind = iota
	kindAnyTool
	kindPrompt
	kindResource
	kindTemplate
)

// Tool is a tool that a client names; hidden ones are not found. The page of an MCP App may use the backend's own name.
func Tool(name string) Ref { return Ref{kindTool, name} }

// AnyTool is a tool that a script names: by its exposed name or as backend.tool.
func AnyTool(name string) Ref { return Ref{kindAnyTool, name} }

// Prompt is a prompt.
func Prompt(name string) Ref { return Ref{kindPrompt, name} }

// Resource is the resource or template that serves a URI.
func Resource(uri string) Ref { return Ref{kindResource, uri} }

// Template is the template with that text, or what serves it as a URI.
func Template(text string) Ref { return Ref{kindTemplate, text} }

// Find returns the entry that r names; nil if there is none.
func (c *Catalog) Find(r Ref) *Entry {
	switch r.kind {
	case kindTool:
		return c.tool(r.name)
	case kindAnyTool:
		return c.anyTool(r.name)
	case kindPrompt:
		return c.promptByName[r.name]
	case kindResource:
		return c.resource(r.name)
	}
	if e := c.templateByText[r.name]; e != nil {
		return e
	}
	return c.resource(r.name)
}

func (c *Catalog) tool(name string) *Entry {
	if e := c.toolByName[name]; e != nil && !e.Hidden {
		return e
	}
	if apps := c.apps[name]; len(apps) == 1 {
		return apps[0]
	}
	return nil
}

func (c *Catalog) anyTool(name string) *Entry {
	if e := c.toolByName[name]; e != nil {
		return e
	}
	return c.toolByOrigin[name]
}

// Ambiguous is the error if several backends have a page's name for a tool; nil otherwise.
func (v *View) Ambiguous(name string) error {
	apps := v.c.apps[name]
	if len(apps) < 2 {
		return nil
	}
	if e := v.c.toolByName[name]; e != nil && v.Shows(e) {
		return nil
	}
	if apps = v.shown(apps); len(apps) < 2 {
		return nil
	}
	var names []string
	for _, e := range apps {
		names = append(names, e.Name)
	}
	return wire.Errorf(wire.InvalidParams, "tool %s is ambiguous: want one of %s", name, strings.Join(names, ", "))
}

// UnknownTool is the message that a tool does not exist, with the nearest name.
func (v *View) UnknownTool(name string) string {
	msg := fmt.Sprintf("no tool %q", name)
	names := slices.Collect(maps.Keys(v.c.toolByName))
	if !v.Whole() {
		names = slices.DeleteFunc(names, func(name string) bool { return !v.Shows(v.c.toolByName[name]) })
	}
	best := display.Nearest(name, names)
	if best != "" {
		msg += fmt.Sprintf("; did you mean %q?", best)
	}
	return msg
}

// MayHave returns the unavailable backend that may have what r names, with its state: one that is starting if there is
// one, else one that is down, else nil.
func (c *Catalog) MayHave(r Ref) (*backends.Backend, backends.State) {
	return c.mayHave(r, func(*backends.Backend) bool { return true })
}

// mayHave is MayHave among the backends for which among returns true.
func (c *Catalog) mayHave(r Ref, among func(*backends.Backend) bool) (*backends.Backend, backends.State) {
	var down *absent
	for _, a := range c.absent {
		switch {
		case !a.mayHave(r) || !among(a.backend):
		case a.state.Starting():
			return a.backend, a.state
		case down == nil:
			down = a
		}
	}
	if down == nil {
		return nil, backends.State{}
	}
	return down.backend, down.state
}

func (a *absent) mayHave(r Ref) bool {
	switch r.kind {
	case kindTool:
		return a.mayHaveTool(r.name)
	case kindAnyTool:
		return a.mayHaveAnyTool(r.name)
	case kindPrompt:
		return a.mayHavePrompt(r.name)
	}
	return a.mayHaveResources()
}

// ShadowedBy is the tool of a backend that cannot be called by its name since the scripted tool has it; nil if there is
// none.
func (c *Catalog) ShadowedBy(script *Entry) *Entry { return c.shadowed[script.Name] }
