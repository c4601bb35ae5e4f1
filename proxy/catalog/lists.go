package catalog

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// pageSize is the number of entries in one page of a list.
const pageSize = 500

// A list is one of the catalog's lists, cut into pages whose bytes are made once.
type list struct {
	kind    string // the member of the result that holds the entries
	entries []*Entry
	style   pageStyle

	once   sync.Once
	legacy [][]byte
	modern [][]byte
}

// pageStyle is what 2026-07-28 wants around the entries of a page.
type pageStyle struct {
	serverInfo json.RawMessage
	ttl        time.Duration // the smallest of the parts
	private    bool          // the most private scope of the parts
	merged     bool
}

// with adds a backend's caching hints (server/utilities/caching).
func (s pageStyle) with(m backends.ListMeta) pageStyle {
	if !s.merged || m.TTL < s.ttl {
		s.ttl = m.TTL
	}
	s.private = s.private || m.CacheScope == "private"
	s.merged = true
	return s
}

func newList(kind string, entries []*Entry, style pageStyle) *list {
	return &list{kind: kind, entries: entries, style: style}
}

// page returns the result for a cursor; ok is false when there is no such page.
func (l *list) page(cursor string, modern bool) (result []byte, ok bool) {
	l.once.Do(l.prepare)
	n, ok := l.find(cursor)
	if !ok {
		return nil, false
	}
	if modern {
		return l.modern[n], true
	}
	return l.legacy[n], true
}

// find maps a cursor to a page. A cursor names the entry before its page, so that one
// from before a change still finds its place when that entry is still at a page's end.
func (l *list) find(cursor string) (int, bool) {
	if cursor == "" {
		return 0, true
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	name, has := strings.CutPrefix(string(text), l.kind+":")
	if err != nil || !has {
		return 0, false
	}
	for n := pageSize; n < len(l.entries); n += pageSize {
		if l.entries[n-1].Name == name {
			return n / pageSize, true
		}
	}
	return 0, false
}

func (l *list) prepare() {
	for from := 0; from == 0 || from < len(l.entries); from += pageSize {
		to := min(from+pageSize, len(l.entries))
		l.legacy = append(l.legacy, l.pageOf(from, to, func(e *Entry) []byte { return e.legacy }).JSON())
		l.modern = append(l.modern, l.style.close(l.pageOf(from, to, func(e *Entry) []byte { return e.modern })).JSON())
	}
}

// pageOf is a page with one form of each definition, and no end.
func (l *list) pageOf(from, to int, form func(*Entry) []byte) *jsonscan.Object {
	definitions := make([][]byte, 0, to-from)
	for _, e := range l.entries[from:to] {
		definitions = append(definitions, form(e))
	}
	page := new(jsonscan.Object).Raw(l.kind, jsonscan.Array(definitions...))
	if to < len(l.entries) {
		page.Text("nextCursor", base64.RawURLEncoding.EncodeToString([]byte(l.kind+":"+l.entries[to-1].Name)))
	}
	return page
}

// close ends a result for 2026-07-28: result type, caching hints, server info.
func (s pageStyle) close(result *jsonscan.Object) *jsonscan.Object {
	scope := "public"
	if s.private {
		scope = "private"
	}
	meta := new(jsonscan.Object).Raw(wire.MetaServerInfo, s.serverInfo).JSON()
	return result.Text("resultType", "complete").Int("ttlMs", s.ttl.Milliseconds()).Text("cacheScope", scope).Raw("_meta", meta)
}

// Page is one page of the list that a method of MCP asks for; ok is false when its cursor
// names none.
func (c *Catalog) Page(method, cursor string, modern bool) (result []byte, ok bool) {
	switch method {
	case wire.ToolsList:
		return c.tools.page(cursor, modern)
	case wire.PromptsList:
		return c.prompts.page(cursor, modern)
	case wire.ResourcesList:
		return c.resources.page(cursor, modern)
	}
	return c.templates.page(cursor, modern)
}

// Changed lists the notifications that clients get when c follows old: for what reads
// differently, for what a backend says has changed though it reads the same, and for scripts
// that were edited.
func (c *Catalog) Changed(old *Catalog) (methods []string) {
	for _, l := range []struct {
		method string
		same   bool
	}{
		{wire.ToolsChanged, c.said[0] <= old.said[0] && c.scripts == old.scripts && c.tools.equal(old.tools)},
		{wire.PromptsChanged, c.said[1] <= old.said[1] && c.prompts.equal(old.prompts)},
		{wire.ResChanged, c.said[2] <= old.said[2] && c.resources.equal(old.resources) && c.templates.equal(old.templates)},
	} {
		if !l.same {
			methods = append(methods, l.method)
		}
	}
	return methods
}

// equal reports whether two lists read the same.
func (l *list) equal(o *list) bool {
	if len(l.entries) != len(o.entries) {
		return false
	}
	for i, e := range l.entries {
		if string(e.Definition) != string(o.entries[i].Definition) {
			return false
		}
	}
	return true
}
