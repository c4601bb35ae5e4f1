package catalog

import (
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// What the endpoint tells clients about itself: server info, capabilities, and the instructions of its backends.

// ourCapabilities are the same for clients of both eras, whatever backends there are; tasks and extensions are added.
const ourCapabilities = `{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`

// InitializeResult is the result of initialize for a client of a revision with sessions; tasks says whether it declares
// tasks.
func (v *View) InitializeResult(revision string) (result []byte, tasks bool) {
	c, capabilities := v.c, json.RawMessage(ourCapabilities)
	if kinds := c.tasksFor(revision); kinds != nil {
		capabilities, tasks = jsonscan.Set(capabilities, "tasks", kinds), true
	}
	out := new(jsonscan.Object).Text("protocolVersion", revision).Raw("capabilities", capabilities).Raw("serverInfo", c.ServerInfo)
	return v.withInstructions(out).JSON(), tasks
}

// DiscoverResult is the result of server/discover for a client of 2026-07-28.
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

// withInstructions adds the instructions of the backends of which v shows entries.
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

// addExtensions merges the protocol extensions of the backends, whose messages are passed on. If two backends declare
// one extension, the settings of the first are used.
func (b *builder) addExtensions(backend string, offer *backends.Offer) {
	jsonscan.Each(jsonscan.Get(offer.Capabilities, "extensions"), func(name, settings []byte) bool {
		if len(settings) == 0 || settings[0] != '{' {
			b.problem(backend, string(name), "extension dropped: its settings are %s, want an object", jsonscan.Kind(settings))
		} else if jsonscan.Get(b.c.extensions, string(name)) == nil {
			b.c.extensions = jsonscan.Set(b.c.extensions, string(name), settings)
		}
		return true
	})
}

// taskCapability is assumed while backends are not connected yet. It does no harm if none supports tasks: clients use
// them only for tools that support them.
const taskCapability = `{"cancel":{},"requests":{"tools":{"call":{}}}}`

// addTasks merges the kinds of requests that backends run as tasks. tasks/list is not offered.
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

// tasksFor is the tasks capability for a client of a revision with sessions; nil for none.
func (c *Catalog) tasksFor(revision string) json.RawMessage {
	switch {
	case revision != wire.Rev2511:
		return nil
	case c.tasks == nil && c.Starting():
		return json.RawMessage(taskCapability)
	}
	return c.tasks
}
