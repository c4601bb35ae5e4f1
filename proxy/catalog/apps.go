package catalog

import (
	"encoding/json"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// MCP Apps: a tool names the page that shows its results, a resource with a URI such as ui://get-time/app.html, and the
// page calls tools of its server by the server's own names. Different servers may choose the same URI or name. With
// several backends every ui://REST is therefore exposed as ui://BACKEND/REST: in lists, templates, tool definitions,
// reads, subscriptions and results; a page of one backend is never shown for a tool of another.

const (
	uiScheme = "ui://"
	// maxPage bounds a page, which is in memory while its URI is rewritten.
	maxPage = 16 << 20
)

// ExposedURI is the URI under which clients see a backend's URI.
func (c *Catalog) ExposedURI(backend, uri string) string {
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok && c.several {
		return uiScheme + backend + "/" + rest
	}
	return uri
}

// ownURI is the inverse of ExposedURI.
func (c *Catalog) ownURI(backend, uri string) string {
	if rest, ok := strings.CutPrefix(uri, uiScheme+backend+"/"); ok && c.several {
		return uiScheme + rest
	}
	return uri
}

// resourceURI is the member of a tool's _meta that names its page; the second is its older name.
const (
	resourceURI    = "resourceUri"
	oldResourceURI = "ui/resourceUri"
)

// exposeInterface is a tool's definition with the exposed URI of its page.
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

// ExposeMember is obj with the exposed URI in a member.
func (c *Catalog) ExposeMember(backend string, obj json.RawMessage, member string) json.RawMessage {
	own := jsonscan.GetString(obj, member)
	if exposed := c.ExposedURI(backend, own); exposed != own {
		return jsonscan.Set(obj, member, jsonscan.Quote(exposed))
	}
	return obj
}

// ExposeContents rewrites the URIs in a backend's response to resources/read of a page. The page is read into memory.
func (c *Catalog) ExposeContents(backend string, resp *backends.Response) error {
	if err := resp.ReadAll(maxPage); err != nil {
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

// addApp registers the backend's own name of e for calls by its pages.
func (b *builder) addApp(e *Entry) {
	meta := jsonscan.Get(e.Definition, "_meta")
	if !e.Hidden && (jsonscan.Get(meta, "ui") != nil || jsonscan.Get(meta, oldResourceURI) != nil) {
		b.c.apps[e.Original] = append(b.c.apps[e.Original], e)
	}
}
