package runs

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package converts what backends send to the protocol revision of the client. What needs no change is passed on
// as the same bytes.

// A Result describes the changes to a backend's result for a client's revision: the resultType and the caching hints
// that 2026-07-28 requires, members that only that revision has, and the reserved _meta keys, which only the proxy may
// set.
type Result struct {
	Modern     bool
	Cacheable  bool // the result must have ttlMs and cacheScope
	ServerInfo json.RawMessage
	note       func(value []byte) // is called with isError and resultType of a streamed result
}

// Apply changes a result in memory.
func (e Result) Apply(result json.RawMessage) json.RawMessage {
	reserved := jsonscan.Contains(result, wire.MetaPrefix, "x")
	typed := jsonscan.Contains(result, `"resultType"`, "T")
	if !reserved && typed == e.Modern && !(e.Modern && e.Cacheable) {
		return result
	}
	return e.change().Apply(result)
}

// Stream changes a result while it is streamed; note is called with the values of isError and resultType as they pass.
func (e Result) Stream(resp *backends.Response, note func(value []byte)) {
	e.note = note
	resp.Edit(e.change())
	if resp.AtMost > 0 {
		resp.AtMost += e.growth()
	}
}

// growth is the largest number of bytes by which change lengthens a result.
func (e Result) growth() int64 {
	if !e.Modern {
		return 0
	}
	return int64(len(`,"resultType":"complete","ttlMs":0,"cacheScope":"private"`) + len(e.ServerInfo))
}

func (e Result) change() jsonscan.Edit {
	seen := map[string]bool{}
	change := jsonscan.Edit{
		Decide: func(key string) jsonscan.Decision {
			seen[key] = true
			switch {
			case key == "_meta":
				return jsonscan.Change
			case key == "resultType" && !e.Modern:
				return jsonscan.Drop
			case e.note != nil && (key == "isError" || key == "resultType"):
				return jsonscan.Change
			case key == "structuredContent" && !e.Modern:
				return jsonscan.Change
			}
			return jsonscan.Keep
		},
		Change: func(key string, value []byte) []byte {
			switch key {
			case "_meta":
				return e.meta(value)
			case "isError", "resultType":
				e.note(value)
				return value
			}
			return objectOnly(value)
		},
	}
	if e.Modern {
		change.Close = func() []byte { return e.closing(seen) }
	}
	return change
}

// objectOnly drops structured content that is not an object: clients before 2026-07-28 would refuse the whole result,
// and have the text content.
func objectOnly(structured []byte) []byte {
	if len(structured) > 0 && structured[0] == '{' {
		return structured
	}
	return nil
}

// meta replaces the serverInfo of the backend by ours, or removes it.
func (e Result) meta(meta []byte) []byte {
	introduced := jsonscan.Get(meta, wire.MetaServerInfo) != nil
	clean := WithoutReserved(meta)
	if len(clean) == len(meta) {
		return meta
	}
	if e.Modern && introduced {
		return jsonscan.Set(clean, wire.MetaServerInfo, e.ServerInfo)
	}
	if len(clean) == 2 {
		return nil
	}
	return clean
}

func (e Result) closing(seen map[string]bool) []byte {
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
	if e.Cacheable {
		add("ttlMs", "0")
		add("cacheScope", `"private"`)
	}
	return out
}

// CleanMeta removes the reserved keys from the _meta of a message that a backend sends.
func CleanMeta(params json.RawMessage) json.RawMessage {
	if !jsonscan.Contains(params, wire.MetaPrefix, "x") {
		return params
	}
	meta := WithoutReserved(jsonscan.Get(params, "_meta"))
	if len(meta) > len("{}") {
		return jsonscan.Set(params, "_meta", meta)
	}
	return jsonscan.Delete(params, func(key string) bool { return key == "_meta" })
}

// WithoutReserved removes the protocol's own keys from a _meta object: no peer may set them for another.
func WithoutReserved(meta json.RawMessage) json.RawMessage {
	return jsonscan.Delete(meta, IsReserved[string])
}

// IsReserved reports whether a key of a _meta object belongs to the protocol.
func IsReserved[K []byte | string](key K) bool {
	return len(key) > len(wire.MetaPrefix) && string(key[:len(wire.MetaPrefix)]) == wire.MetaPrefix
}
