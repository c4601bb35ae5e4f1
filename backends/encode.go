package backends

import (
	"encoding/json"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// perRequestMeta are the _meta keys that describe one hop: the caller's own are never
// passed on, a modern backend gets this hop's.
func perRequestMeta(key string) bool {
	switch key {
	case wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel, principalMeta:
		return true
	}
	return false
}

// encode writes the request frame of c and notes the caller's progress token in it.
func (c *call) encode() []byte {
	meta := c.withPrincipal(c.meta())
	b := make([]byte, 0, len(c.params)+len(meta)+len(c.method)+96)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, c.id, 10)
	b = append(append(append(b, `,"method":"`...), c.method...), '"')
	if len(c.params) == 0 && len(meta) == 0 {
		return append(b, '}')
	}
	b = append(b, `,"params":`...)
	return append(c.appendParams(b, meta), '}')
}

// appendParams writes the params with this hop's _meta members (meta, without braces)
// and the re-minted progress token; all other bytes stay.
func (c *call) appendParams(b []byte, meta []byte) []byte {
	if len(c.params) == 0 {
		return append(append(append(b, `{"_meta":{`...), meta...), "}}"...)
	}
	start, end := jsonscan.Find(c.params, "_meta")
	if start >= 0 {
		b = append(b, c.params[:start]...)
		b = c.appendMeta(b, c.params[start:end], meta)
		return append(b, c.params[end:]...)
	}
	if len(meta) == 0 {
		return append(b, c.params...)
	}
	rest := afterBrace(c.params)
	b = append(append(append(b, `{"_meta":{`...), meta...), '}')
	if len(rest) > 0 && rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, rest...)
}

// afterBrace is what follows the opening brace and the space behind it.
func afterBrace(obj []byte) []byte {
	i := 0
	for i < len(obj) && obj[i] != '{' {
		i++
	}
	for i++; i < len(obj); i++ {
		if c := obj[i]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return obj[i:]
		}
	}
	return nil
}

// appendMeta writes the caller's _meta: per-request keys replaced by ours, its progress
// token by this call's id.
func (c *call) appendMeta(b []byte, theirs, ours []byte) []byte {
	b = append(append(b, '{'), ours...)
	first := len(ours) == 0
	jsonscan.Each(theirs, func(key, value []byte) bool {
		if perRequestMeta(string(key)) {
			return true
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(b, jsonscan.Quote(string(key))...), ':')
		if string(key) == "progressToken" {
			c.token = value
			b = strconv.AppendInt(b, c.id, 10)
			return true
		}
		b = append(b, value...)
		return true
	})
	return append(b, '}')
}

// meta is the members of _meta that a modern backend wants with each request, without
// braces; nil for a legacy one.
func (c *call) meta() []byte {
	if !c.modern {
		return nil
	}
	info, capabilities, level := c.conn.b.info, json.RawMessage("{}"), ""
	if of := c.caller; of != nil {
		level = of.LogLevel
		if len(of.Info) > 0 {
			info = of.Info
		}
		if len(of.Capabilities) > 0 {
			capabilities = of.Capabilities
		}
	}
	b := make([]byte, 0, len(info)+len(capabilities)+len(level)+192)
	b = append(b, `"`+wire.MetaProtocolVersion+`":"`+wire.Rev2607+`","`+wire.MetaClientInfo+`":`...)
	b = append(b, info...)
	b = append(append(b, `,"`+wire.MetaClientCapabilities+`":`...), capabilities...)
	if level != "" {
		b = append(append(b, `,"`+wire.MetaLogLevel+`":`...), jsonscan.Quote(level)...)
	}
	return b
}
