package proxy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// edit is what has to change in a backend's result for a client's revision: the result
// type and the caching hints that 2026-07-28 requires, and the reserved _meta keys,
// which a backend cannot speak for the proxy in.
type edit struct {
	modern     bool
	cacheable  bool // the result must carry ttlMs and cacheScope
	serverInfo json.RawMessage
}

func (p *Proxy) edit(x *exchange) edit {
	return edit{modern: x.client.modern(), cacheable: x.method == wire.ResourcesRead, serverInfo: p.catalog.Load().serverInfo}
}

// apply changes a result that is in memory.
func (e edit) apply(result json.RawMessage) json.RawMessage {
	reserved := contains(result, wire.MetaPrefix, "x")
	typed := contains(result, `"resultType"`, "T")
	if !reserved && typed == e.modern && !(e.modern && e.cacheable) {
		return result
	}
	return e.change().Apply(result)
}

// contains is bytes.Contains for a text that has a rare byte: results are full of the
// bytes that both texts begin with, which makes the search slow.
func contains(result []byte, text, rare string) bool {
	begin, rest := text[:strings.Index(text, rare)], []byte(text[strings.Index(text, rare):])
	for {
		i := bytes.Index(result, rest)
		if i < 0 {
			return false
		}
		if bytes.HasSuffix(result[:i], []byte(begin)) {
			return true
		}
		result = result[i+1:]
	}
}

// stream changes a result that is too large to be held.
func (e edit) stream(resp *backends.Response) {
	resp.Edit(e.change())
	if resp.AtMost > 0 {
		resp.AtMost += e.growth()
	}
}

// growth is how many bytes longer change makes a result at most.
func (e edit) growth() int64 {
	if !e.modern {
		return 0
	}
	return int64(len(`,"resultType":"complete","ttlMs":0,"cacheScope":"private"`) + len(e.serverInfo))
}

func (e edit) change() wire.Edit {
	seen := map[string]bool{}
	change := wire.Edit{
		Decide: func(key string) wire.Decision {
			seen[key] = true
			switch {
			case key == "_meta":
				return wire.Change
			case key == "resultType" && !e.modern:
				return wire.Drop
			}
			return wire.Keep
		},
		Change: func(_ string, meta []byte) []byte { return e.meta(meta) },
	}
	if e.modern {
		change.Close = func() []byte { return e.closing(seen) }
	}
	return change
}

// meta replaces the server's introduction by our own, or takes it off.
func (e edit) meta(meta []byte) []byte {
	introduced := wire.Get(meta, wire.MetaServerInfo) != nil
	clean := withoutReserved(meta)
	if len(clean) == len(meta) {
		return meta
	}
	if e.modern && introduced {
		return wire.Set(clean, wire.MetaServerInfo, e.serverInfo)
	}
	if len(clean) == 2 {
		return nil
	}
	return clean
}

func (e edit) closing(seen map[string]bool) []byte {
	var out []byte
	add := func(key, value string) {
		if seen[key] {
			return
		}
		if out != nil {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), key...), `":`...), value...)
	}
	add("resultType", `"complete"`)
	if e.cacheable {
		add("ttlMs", "0")
		add("cacheScope", `"private"`)
	}
	return out
}
