package catalog

import (
	"encoding/json"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// MCP Apps: a tool names the page that shows its results, a resource with a URI such as
// ui://get-time/app.html, and the page calls tools of its server by the server's own
// names. Servers choose both without knowing of each other. With several backends every
// ui://REST is therefore ui://BACKEND/REST, wherever it stands: in lists, templates,
// definitions of tools, reads, subscriptions and what comes back; one backend's page is
// never shown for another's tool.

const (
	uiScheme = "ui://"
	// maxPage bounds a page, which is held in memory while its URI is changed.
	maxPage = 16 << 20
)

// ExposedURI is a backend's URI as clients see it.
func (c *Catalog) ExposedURI(backend, uri string) string {
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok && c.several {
		return uiScheme + backend + "/" + rest
	}
	return uri
}

// ownURI is exposedURI undone.
func (c *Catalog) ownURI(backend, uri string) string {
	if rest, ok := strings.CutPrefix(uri, uiScheme+backend+"/"); ok && c.several {
		return uiScheme + rest
	}
	return uri
}

// resourceURI is where a tool's _meta names its page; the second is the older spelling.
const (
	resourceURI    = "resourceUri"
	oldResourceURI = "ui/resourceUri"
)

// exposeInterface is a tool's definition with the page as clients see it.
func (c *Catalog) exposeInterface(backend string, def json.RawMessage) json.RawMessage {
	meta := jsonscan.Get(def, "_meta")
	changed := meta
	if ui := jsonscan.Get(meta, "ui"); jsonscan.Get(ui, resourceURI) != nil {
		changed = jsonscan.Set(changed, "ui", c.ExposeMember(backend, ui, resourceURI))
	}
	if jsonscan.Get(meta, oldResourceURI) != nil {
		changed = c.ExposeMember(backend, changed, oldResourceURI)
	}
	if string(changed) == string(meta) {
		return def
	}
	return jsonscan.Set(def, "_meta", changed)
}

// ExposeMember is an object with the URI in one of its members as clients see it.
func (c *Catalog) ExposeMember(backend string, obj json.RawMessage, member string) json.RawMessage {
	own := jsonscan.GetString(obj, member)
	if exposed := c.ExposedURI(backend, own); exposed != own {
		return jsonscan.Set(obj, member, jsonscan.Quote(exposed))
	}
	return obj
}

// ExposeContents is what a backend answers to a read of a page, under the URI that the
// client asked for. The page is held in memory for it.
func (c *Catalog) ExposeContents(backend string, resp *backends.Response) error {
	if err := resp.Hold(maxPage); err != nil {
		return err
	}
	contents := []byte{'['}
	jsonscan.Elements(jsonscan.Get(resp.Result, "contents"), func(item []byte) bool {
		if len(contents) > 1 {
			contents = append(contents, ',')
		}
		contents = append(contents, c.ExposeMember(backend, item, "uri")...)
		return true
	})
	if jsonscan.Get(resp.Result, "contents") != nil {
		resp.Result = jsonscan.Set(resp.Result, "contents", append(contents, ']'))
	}
	return nil
}

// addApp notes the name that a page of e's backend has for e.
func (b *builder) addApp(e *Entry) {
	meta := jsonscan.Get(e.Definition, "_meta")
	if !e.Hidden && (jsonscan.Get(meta, "ui") != nil || jsonscan.Get(meta, oldResourceURI) != nil) {
		b.c.apps[e.Original] = append(b.c.apps[e.Original], e)
	}
}
