package catalog

import (
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/policy"
)

// Resources of the endpoint's own, with introspection.resources: vmcp://state, vmcp://scripts and vmcp://scripts/NAME,
// the text of a scripted tool. To policies they are resources of "scripts". The text of a tool is there for who sees
// the tool, too; the other two show what their reader sees.

// An Own is what a resource of the endpoint's own shows.
type Own uint8

// The resources of the endpoint's own.
const (
	NotOwn    Own = iota // it is a backend's
	OwnState             // the backends and what they offer
	OwnList              // the scripted tools
	OwnScript            // the text of one
)

const (
	stateURI   = "vmcp://state"
	scriptsURI = "vmcp://scripts"
	// ScriptType is the media type of a script.
	ScriptType = "text/x-starlark"
	jsonType   = "application/json"
)

// addOwn adds the resources of the endpoint's own. They come first: no backend takes their place.
func (b *builder) addOwn() {
	if !b.cfg.Introspection.Resources {
		return
	}
	add := func(e *Entry, name, description, media string) {
		e.Kind, e.Original = policy.Resource, e.Name
		e.Definition = new(jsonscan.Object).Text("uri", e.Name).Text("name", name).Text("description", description).Text("mimeType", media).JSON()
		b.c.resourceByURI[e.Name] = e
	}
	add(&Entry{Name: stateURI, Own: OwnState}, "state", "The backends of this endpoint, their state and how much they offer.", jsonType)
	add(&Entry{Name: scriptsURI, Own: OwnList}, "scripts", "The scripted tools of this endpoint, with the resources that hold their texts.", jsonType)
	for _, e := range b.tools { // scripts, by now
		add(&Entry{Name: e.ScriptURI(), Own: OwnScript, of: e}, e.Name, fmt.Sprintf("The text of the scripted tool %s, in Starlark.", e.Name), ScriptType)
	}
}

// ScriptURI is the resource with the text of a scripted tool, where there is one.
func (e *Entry) ScriptURI() string { return scriptsURI + "/" + e.Name }

// Text is the text of the scripted tool that a resource shows.
func (e *Entry) Text() string { return e.of.Script.text }

// Scripts are the scripted tools that v shows.
func (v *View) Scripts() (scripts []*Entry) {
	for _, e := range v.c.tools.entries {
		if e.Script != nil && v.Shows(e) {
			scripts = append(scripts, e)
		}
	}
	return scripts
}

// ShowsBackend reports whether v shows a backend, one that is down included where no policy decides.
func (v *View) ShowsBackend(name string) bool {
	return v.MayShow(name) && (v.set == nil || v.usesOf(name))
}

// Offers counts what v shows of a backend.
func (v *View) Offers(backend string) (tools, prompts, resources int) {
	count := func(k listKind) (n int) {
		l, _ := v.list(k)
		for _, e := range l.entries {
			if e.backendName() == backend {
				n++
			}
		}
		return n
	}
	return count(listTools), count(listPrompts), count(listResources) + count(listTemplates)
}

// Contents is the result of resources/read of a resource of the endpoint's own.
func (v *View) Contents(e *Entry, text string, modern bool) []byte {
	media := jsonType
	if e.Own == OwnScript {
		media = ScriptType
	}
	one := new(jsonscan.Object).Text("uri", e.Name).Text("mimeType", media).Text("text", text).JSON()
	result := new(jsonscan.Object).Raw("contents", append(append([]byte{'['}, one...), ']'))
	if modern {
		result = pageStyle{serverInfo: v.c.ServerInfo, private: v.set != nil}.close(result)
	}
	return result.JSON()
}
