package catalog

import (
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// The proxy's own resources, enabled by introspection.resources: vmcp://state, vmcp://scripts and vmcp://scripts/NAME,
// the source of a scripted tool. Policies see them as resources of the backend "scripts". The source of a tool is
// visible to those who see the tool; the other two list what their reader sees.

// An Own is the kind of one of the proxy's own resources.
type Own uint8

// The proxy's own resources.
const (
	NotOwn    Own = iota // a resource of a backend
	ownState             // the backends and what they offer
	OwnList              // the scripted tools
	OwnScript            // the source of one scripted tool
)

const (
	stateURI   = "vmcp://state"
	scriptsURI = "vmcp://scripts"
	// scriptType is the media type of a script.
	scriptType = "text/x-starlark"
	jsonType   = "application/json"
)

// addOwn adds the proxy's own resources. It runs before the backends' are added, which cannot take their URIs.
func (b *builder) addOwn() {
	if !b.cfg.Introspection.Resources {
		return
	}
	add := func(e *Entry, name, description, media string) {
		e.Kind, e.Original = policy.Resource, e.Name
		e.Definition = new(jsonscan.Object).Text("uri", e.Name).Text("name", name).Text("description", description).Text("mimeType", media).JSON()
		b.c.resourceByURI[e.Name] = e
	}
	add(&Entry{Name: stateURI, Own: ownState}, "state", "The backends of this endpoint, their state and how much they offer.", jsonType)
	add(&Entry{Name: scriptsURI, Own: OwnList}, "scripts", "The scripted tools of this endpoint, with the resources that hold their texts.", jsonType)
	for _, e := range b.tools { // only scripts so far
		add(&Entry{Name: e.ScriptURI(), Own: OwnScript, of: e}, e.Name, fmt.Sprintf("The text of the scripted tool %s, in Starlark.", e.Name), scriptType)
	}
}

// ScriptURI is the URI of the resource with the source of a scripted tool.
func (e *Entry) ScriptURI() string { return scriptsURI + "/" + e.Name }

// Text is the source of the scripted tool that e shows.
func (e *Entry) Text() string { return e.of.Script.Text }

// Scripts are the scripted tools that v shows.
func (v *View) Scripts() (scripts []*Entry) {
	for _, e := range v.c.tools.entries {
		if e.Script != nil && v.Shows(e) {
			scripts = append(scripts, e)
		}
	}
	return scripts
}

// ShowsBackend reports whether v shows a backend; if no policies decide, also one that is down.
func (v *View) ShowsBackend(name string) bool {
	return v.MayShow(name) && (v.set == nil || v.usesOf(name))
}

// Offers counts the entries of a backend that v shows.
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

// Contents is the result of resources/read for one of the proxy's own resources.
func (v *View) Contents(e *Entry, text string, modern bool) []byte {
	media := jsonType
	if e.Own == OwnScript {
		media = scriptType
	}
	one := new(jsonscan.Object).Text("uri", e.Name).Text("mimeType", media).Text("text", text).JSON()
	result := new(jsonscan.Object).Raw("contents", append(append([]byte{'['}, one...), ']'))
	if modern {
		result = pageStyle{serverInfo: v.c.ServerInfo, private: v.set != nil}.close(result)
	}
	return result.JSON()
}
