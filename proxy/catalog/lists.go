package catalog

import (
	"bytes"
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

// A list is one of the catalog's lists, in pages that are encoded once.
type list struct {
	kind    string // the member of the result that has the entries
	entries []*Entry
	style   pageStyle

	once   sync.Once
	legacy [][]byte
	modern [][]byte

	// For a list of a view: what its cursors belong to, and the cache of pages that are encoded on demand.
	class string
	kept  *keptPages
}

// listKind identifies one of the lists.
type listKind int

const (
	listTools listKind = iota
	listPrompts
	listResources
	listTemplates
	kindsOfLists
)

func (c *Catalog) lists() [kindsOfLists]*list {
	return [...]*list{c.tools, c.prompts, c.resources, c.templates}
}

// listOf is the list that a method of MCP returns.
func listOf(method string) listKind {
	switch method {
	case wire.ToolsList:
		return listTools
	case wire.PromptsList:
		return listPrompts
	case wire.ResourcesList:
		return listResources
	}
	return listTemplates
}

// listsOf are the lists that a list_changed notification is about.
func listsOf(changed string) []listKind {
	switch changed {
	case wire.ToolsChanged:
		return []listKind{listTools}
	case wire.PromptsChanged:
		return []listKind{listPrompts}
	}
	return []listKind{listResources, listTemplates}
}

// pageStyle is what 2026-07-28 adds around the entries of a page.
type pageStyle struct {
	serverInfo json.RawMessage
	ttl        time.Duration // the smallest of the merged values
	private    bool          // whether one of the merged scopes is private
	merged     bool
}

// with merges a backend's caching hints (server/utilities/caching).
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

// page returns the result for a cursor; ok is false if there is no such page.
func (l *list) page(cursor string, modern bool) (result []byte, ok bool) {
	n, ok := l.find(cursor)
	if !ok {
		return nil, false
	}
	if l.kept != nil {
		return l.kept.page(l, n, modern), true
	}
	l.once.Do(l.prepare)
	if modern {
		return l.modern[n], true
	}
	return l.legacy[n], true
}

// find maps a cursor to the index of a page. A cursor names the last entry before its page, so that it still works
// after a change if that entry still ends a page. It needs no seal: it names an entry that the client has seen, and a
// forged one finds a page of the client's own view, or none.
func (l *list) find(cursor string) (int, bool) {
	if cursor == "" {
		return 0, true
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	name, has := strings.CutPrefix(string(text), l.kind+l.class+":")
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
	for n := 0; n == 0 || n*pageSize < len(l.entries); n++ {
		l.legacy = append(l.legacy, l.pageOf(n, false))
		l.modern = append(l.modern, l.pageOf(n, true))
	}
}

// pageOf encodes a page.
func (l *list) pageOf(n int, modern bool) []byte {
	to := min((n+1)*pageSize, len(l.entries))
	definitions := make([][]byte, 0, pageSize+2)
	for _, e := range l.entries[n*pageSize : to] {
		form := e.legacy
		if modern {
			form = e.modern
		}
		definitions = append(definitions, form)
	}
	end := new(jsonscan.Object)
	if to < len(l.entries) {
		end.Text("nextCursor", base64.RawURLEncoding.EncodeToString([]byte(l.kind+l.class+":"+l.entries[to-1].Name)))
	}
	if modern {
		end = l.style.close(end)
	}
	return joined(`{"`+l.kind+`":[`, definitions, end.JSON())
}

// joined is the text of an object: its beginning, a list, and the members of end. Nothing is copied twice: pages are
// large.
func joined(begin string, list [][]byte, end []byte) []byte {
	tail := append([]byte{']'}, end[1:]...)
	if len(end) > len("{}") {
		tail = append([]byte("],"), end[1:]...)
	}
	if len(list) == 0 {
		return append([]byte(begin), tail...)
	}
	last := len(list) - 1
	list[0] = append([]byte(begin), list[0]...)
	list[last] = append(list[last][:len(list[last]):len(list[last])], tail...)
	return bytes.Join(list, []byte(","))
}

// close adds what 2026-07-28 requires: result type, caching hints, server info.
func (s pageStyle) close(result *jsonscan.Object) *jsonscan.Object {
	scope := "public"
	if s.private {
		scope = "private"
	}
	meta := new(jsonscan.Object).Raw(wire.MetaServerInfo, s.serverInfo).JSON()
	return result.Text("resultType", "complete").Int("ttlMs", s.ttl.Milliseconds()).Text("cacheScope", scope).Raw("_meta", meta)
}

// Changed lists the list_changed notifications that clients get when c replaces old: for lists that differ, for those
// that a backend has announced as changed though they are equal, and for scripts that were edited.
func (c *Catalog) Changed(old *Catalog) (methods []string) {
	for _, l := range []struct {
		method string
		same   bool
	}{
		{wire.ToolsChanged, c.changeCounts[0] <= old.changeCounts[0] && c.scripts == old.scripts && c.tools.equal(old.tools)},
		{wire.PromptsChanged, c.changeCounts[1] <= old.changeCounts[1] && c.prompts.equal(old.prompts)},
		{wire.ResChanged, c.changeCounts[2] <= old.changeCounts[2] && c.resources.equal(old.resources) && c.templates.equal(old.templates)},
	} {
		if !l.same {
			methods = append(methods, l.method)
		}
	}
	return methods
}

// equal reports whether two lists have the same content.
func (l *list) equal(o *list) bool {
	if len(l.entries) != len(o.entries) {
		return false
	}
	for i, e := range l.entries {
		if string(e.Definition) != string(o.entries[i].Definition) || e.of != nil && o.entries[i].of != nil && e.Text() != o.entries[i].Text() {
			return false
		}
	}
	return true
}
