package proxy

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// pageSize is the number of entries in one page of a list.
const pageSize = 500

// A list is one of the catalog's lists, cut into pages whose bytes are made once.
type list struct {
	kind    string // the member of the result that holds the entries
	entries []*entry
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

func newList(kind string, entries []*entry, style pageStyle) *list {
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
		if l.entries[n-1].name == name {
			return n / pageSize, true
		}
	}
	return 0, false
}

func (l *list) prepare() {
	for from := 0; from == 0 || from < len(l.entries); from += pageSize {
		to := min(from+pageSize, len(l.entries))
		page := append([]byte(`{"`+l.kind), `":[`...)
		for i, e := range l.entries[from:to] {
			if i > 0 {
				page = append(page, ',')
			}
			page = append(page, e.def...)
		}
		page = append(page, ']')
		if to < len(l.entries) {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(l.kind + ":" + l.entries[to-1].name))
			page = append(append(page, `,"nextCursor":`...), wire.Quote(cursor)...)
		}
		l.legacy = append(l.legacy, append(page[:len(page):len(page)], '}'))
		l.modern = append(l.modern, l.style.close(page))
	}
}

// close ends a result for 2026-07-28: result type, caching hints, server info.
func (s pageStyle) close(open []byte) []byte {
	scope := "public"
	if s.private {
		scope = "private"
	}
	out := append(open[:len(open):len(open)], `,"resultType":"complete","ttlMs":`...)
	out = strconv.AppendInt(out, s.ttl.Milliseconds(), 10)
	out = append(append(append(out, `,"cacheScope":"`...), scope...), `","_meta":{"`+wire.MetaServerInfo+`":`...)
	return append(append(out, s.serverInfo...), `}}`...)
}

// equal reports whether two lists read the same.
func (l *list) equal(o *list) bool {
	if len(l.entries) != len(o.entries) {
		return false
	}
	for i, e := range l.entries {
		if string(e.def) != string(o.entries[i].def) {
			return false
		}
	}
	return true
}
