package catalog

import (
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// How the endpoint introduces itself to clients: its name, what it can do, and the
// instructions of its backends.

// ourCapabilities is the same for clients of either era, whatever backends there are;
// tasks and extensions come on top.
const ourCapabilities = `{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`

// InitializeResult introduces the endpoint to a client of a revision with sessions; tasks
// says whether tasks are declared to it.
func (v *View) InitializeResult(revision string) (result []byte, tasks bool) {
	c, capabilities := v.c, json.RawMessage(ourCapabilities)
	if kinds := c.tasksFor(revision); kinds != nil {
		capabilities, tasks = jsonscan.Set(capabilities, "tasks", kinds), true
	}
	out := new(jsonscan.Object).Text("protocolVersion", revision).Raw("capabilities", capabilities).Raw("serverInfo", c.ServerInfo)
	return v.withInstructions(out).JSON(), tasks
}

// DiscoverResult introduces the endpoint to a client of 2026-07-28.
func (v *View) DiscoverResult() []byte {
	c := v.c
	versions, _ := json.Marshal(wire.Supported)
	capabilities := json.RawMessage(ourCapabilities)
	if c.extensions != nil {
		capabilities = jsonscan.Set(capabilities, "extensions", c.extensions)
	}
	out := new(jsonscan.Object).Raw("supportedVersions", versions).Raw("capabilities", capabilities)
	return pageStyle{serverInfo: c.ServerInfo, private: v.set != nil}.close(v.withInstructions(out)).JSON()
}

// withInstructions adds the instructions of the backends of which v shows anything.
func (v *View) withInstructions(result *jsonscan.Object) *jsonscan.Object {
	text := v.c.instructions
	if !v.Whole() {
		text = joinInstructions(slices.DeleteFunc(slices.Clone(v.c.parts), func(p instructionsOf) bool { return !v.usesOf(p.backend) }))
	}
	if text == "" {
		return result
	}
	return result.Text("instructions", text)
}

// addExtensions collects the protocol extensions of the backends: their messages pass
// through. Of several settings of one extension the first holds.
func (b *builder) addExtensions(backend string, offer *backends.Offer) {
	jsonscan.Each(jsonscan.Get(offer.Capabilities, "extensions"), func(name, settings []byte) bool {
		if len(settings) == 0 || settings[0] != '{' {
			b.problem(backend, string(name), "extension left out: its settings are %s, want an object", jsonscan.Kind(settings))
		} else if jsonscan.Get(b.c.extensions, string(name)) == nil {
			b.c.extensions = jsonscan.Set(b.c.extensions, string(name), settings)
		}
		return true
	})
}

// taskCapability is what holds for backends that nobody knows yet. It does no harm
// where none of them has tasks: clients ask for one where a tool supports it.
const taskCapability = `{"cancel":{},"requests":{"tools":{"call":{}}}}`

// addTasks collects the kinds of requests that backends run as tasks. Tasks are found
// again by their id, so that there is no list of them.
func (b *builder) addTasks(offer *backends.Offer) {
	tasks := jsonscan.Get(offer.Capabilities, "tasks")
	jsonscan.Each(jsonscan.Get(tasks, "requests"), func(group, operations []byte) bool {
		jsonscan.Each(operations, func(operation, _ []byte) bool {
			requests := jsonscan.Get(b.c.tasks, "requests")
			operations := jsonscan.Set(jsonscan.Get(requests, string(group)), string(operation), []byte("{}"))
			b.c.tasks = jsonscan.Set(b.c.tasks, "requests", jsonscan.Set(requests, string(group), operations))
			return true
		})
		return true
	})
	if b.c.tasks != nil && jsonscan.Get(tasks, "cancel") != nil {
		b.c.tasks = jsonscan.Set(b.c.tasks, "cancel", []byte("{}"))
	}
}

// tasksFor is the capability for a client of a revision with sessions; nil for none.
func (c *Catalog) tasksFor(revision string) json.RawMessage {
	switch {
	case revision != wire.Rev2511:
		return nil
	case c.tasks == nil && c.Starting():
		return json.RawMessage(taskCapability)
	}
	return c.tasks
}
