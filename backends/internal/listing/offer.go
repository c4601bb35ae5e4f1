// Package listing reads what a server offers: its lists, page by page, with their caching hints.
// What it offers to one session is kept apart from what it offers to all (Own) where they differ.
package listing

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Offer is what a backend offers. It is immutable.
type Offer struct {
	Revision     string
	Instructions string
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage

	Tools, Prompts, Resources, Templates                 []Item
	ToolsMeta, PromptsMeta, ResourcesMeta, TemplatesMeta Meta

	// How often the backend announced a change of each list, whether the list differs or not.
	ToolsChanges, PromptsChanges, ResourcesChanges uint64
}

// Item is one entry of a list.
type Item struct {
	Name string          // of a resource its uri, of a template its uriTemplate
	Raw  json.RawMessage // the definition, byte for byte
}

// Meta is how long and for whom a list may be cached; zero when the backend did not say.
type Meta struct {
	TTL        time.Duration
	HasTTL     bool
	CacheScope string
	// Incomplete says that there may be more than is listed: the list was cut off, or the last
	// attempt to read it was refused.
	Incomplete bool
}

// Bits are some of the lists that a backend announces changes of, a bit for each.
type Bits = int32

// The lists of resources and of resource templates change together.
const (
	Tools Bits = 1 << iota
	Prompts
	Resources
	All = Tools | Prompts | Resources
)

// list is one of the lists of a backend.
type list struct {
	bit        Bits
	method     string
	capability string
	member     string // of the result
	key        string // of an entry: its name
	of         func(*Offer) (*[]Item, *Meta)
}

var lists = []list{
	{Tools, wire.ToolsList, "tools", "tools", "name", func(o *Offer) (*[]Item, *Meta) { return &o.Tools, &o.ToolsMeta }},
	{Prompts, wire.PromptsList, "prompts", "prompts", "name", func(o *Offer) (*[]Item, *Meta) { return &o.Prompts, &o.PromptsMeta }},
	{Resources, wire.ResourcesList, "resources", "resources", "uri", func(o *Offer) (*[]Item, *Meta) { return &o.Resources, &o.ResourcesMeta }},
	{Resources, wire.TemplatesList, "resources", "resourceTemplates", "uriTemplate", func(o *Offer) (*[]Item, *Meta) { return &o.Templates, &o.TemplatesMeta }},
}

// Outdated are the lists whose time to live is over, age after they were read.
func (o *Offer) Outdated(age time.Duration) (bits Bits) {
	for _, l := range lists {
		if _, meta := l.of(o); meta.HasTTL && age > meta.TTL {
			bits |= l.bit
		}
	}
	return bits
}

// Incomplete names the lists that may have more than is known, by method.
func (o *Offer) Incomplete() (methods []string) {
	for _, l := range lists {
		if _, meta := l.of(o); meta.Incomplete {
			methods = append(methods, l.method)
		}
	}
	return methods
}

// merge takes a page's caching hints: the shortest and most private of all pages holds.
func (m *Meta) merge(result []byte) {
	var ms int64
	if raw := jsonscan.Get(result, "ttlMs"); raw != nil && json.Unmarshal(raw, &ms) == nil && ms >= 0 {
		ttl := time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		if !m.HasTTL || ttl < m.TTL {
			m.TTL, m.HasTTL = ttl, true
		}
	}
	if scope := jsonscan.GetString(result, "cacheScope"); scope != "" && m.CacheScope != "private" {
		m.CacheScope = scope
	}
}
