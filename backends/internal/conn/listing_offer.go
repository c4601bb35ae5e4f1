package conn

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package reads the lists of a server page by page, with their caching hints. The lists of a
// private session that differ from the shared ones are kept separately (Own).

// Offer is the lists and the peer info of a backend. It is immutable.
type Offer struct {
	Revision     string
	Instructions string
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage

	Tools, Prompts, Resources, Templates                 []Item
	ToolsMeta, PromptsMeta, ResourcesMeta, TemplatesMeta Meta

	// Number of list changed notifications for each list.
	ToolsChanges, PromptsChanges, ResourcesChanges uint64
}

// Item is one entry of a list.
type Item struct {
	Name string          // of a resource its uri, of a template its uriTemplate
	Raw  json.RawMessage // the definition, byte for byte
}

// Meta is how long and for whom a list may be cached; zero when the backend sent no hints.
type Meta struct {
	TTL        time.Duration
	HasTTL     bool
	CacheScope string
	// Incomplete is set when the list was cut off, or the last attempt to read it failed.
	Incomplete bool
}

// Bits is a set of lists, with a bit for each kind of list changed notification.
type Bits = int32

// Resources stands for the lists of resources and of resource templates, which change together.
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

// Outdated returns the lists whose TTL has passed, age after they were read.
func (o *Offer) Outdated(age time.Duration) (bits Bits) {
	for _, l := range lists {
		if _, meta := l.of(o); meta.HasTTL && age > meta.TTL {
			bits |= l.bit
		}
	}
	return bits
}

// Incomplete returns the methods of the lists that are marked Incomplete.
func (o *Offer) Incomplete() (methods []string) {
	for _, l := range lists {
		if _, meta := l.of(o); meta.Incomplete {
			methods = append(methods, l.method)
		}
	}
	return methods
}

// merge merges the caching hints of a page: the shortest TTL and the most private scope of all pages apply.
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
