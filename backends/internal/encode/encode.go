// Package encode writes what goes to a backend: requests with the _meta of this hop, and the
// params of the proxy's own.
package encode

import (
	"encoding/json"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// metaPrincipal is the member of _meta that names who calls. A client's own is never
// passed on.
const metaPrincipal = "dev.vmcp/principal"

// Request is a request as it goes to a backend.
type Request struct {
	ID     int64
	Method string
	Params json.RawMessage

	// Modern backends get a description of the client with each request.
	Modern       bool
	Info         json.RawMessage
	Capabilities json.RawMessage // {} when empty
	LogLevel     string          // "": none

	Principal *Principal // nil: the backend does not get to know who calls
}

// Principal is who calls.
type Principal struct{ Issuer, Subject string }

// perRequestMeta are the _meta keys that describe one hop: the caller's own are never
// passed on, a modern backend gets this hop's.
func perRequestMeta(key string) bool {
	switch key {
	case wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel, metaPrincipal:
		return true
	}
	return false
}

// Frame writes the request. token is the caller's progress token, nil when it gave none: the id
// takes its place.
func (r *Request) Frame() (frame []byte, token json.RawMessage) {
	meta := r.meta()
	b := make([]byte, 0, len(r.Params)+len(meta)+len(r.Method)+96)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, r.ID, 10)
	b = append(append(append(b, `,"method":"`...), r.Method...), '"')
	if len(r.Params) == 0 && len(meta) == 0 {
		return append(b, '}'), nil
	}
	b = append(b, `,"params":`...)
	b, token = r.appendParams(b, meta)
	return append(b, '}'), token
}

// appendParams writes the params with this hop's _meta members (meta, without braces)
// and the re-minted progress token; all other bytes stay.
func (r *Request) appendParams(b, meta []byte) (out []byte, token json.RawMessage) {
	if len(r.Params) == 0 {
		return append(append(append(b, `{"_meta":{`...), meta...), "}}"...), nil
	}
	start, end := jsonscan.Find(r.Params, "_meta")
	if start >= 0 {
		b = append(b, r.Params[:start]...)
		b, token = r.appendMeta(b, r.Params[start:end], meta)
		return append(b, r.Params[end:]...), token
	}
	if len(meta) == 0 {
		return append(b, r.Params...), nil
	}
	rest := afterBrace(r.Params)
	b = append(append(append(b, `{"_meta":{`...), meta...), '}')
	if len(rest) > 0 && rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, rest...), nil
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
// token by this request's id.
func (r *Request) appendMeta(b, theirs, ours []byte) (out []byte, token json.RawMessage) {
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
			token = value
			b = strconv.AppendInt(b, r.ID, 10)
			return true
		}
		b = append(b, value...)
		return true
	})
	return append(b, '}'), token
}

// meta is this hop's members of _meta, without braces.
func (r *Request) meta() []byte {
	var b []byte
	if r.Modern {
		capabilities := r.Capabilities
		if len(capabilities) == 0 {
			capabilities = json.RawMessage("{}")
		}
		b = make([]byte, 0, len(r.Info)+len(capabilities)+len(r.LogLevel)+192)
		b = append(b, `"`+wire.MetaProtocolVersion+`":"`+wire.Rev2607+`","`+wire.MetaClientInfo+`":`...)
		b = append(b, r.Info...)
		b = append(append(b, `,"`+wire.MetaClientCapabilities+`":`...), capabilities...)
		if r.LogLevel != "" {
			b = append(append(b, `,"`+wire.MetaLogLevel+`":`...), jsonscan.Quote(r.LogLevel)...)
		}
	}
	if p := r.Principal; p != nil {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, `"`+metaPrincipal+`":{"issuer":`...)
		b = append(append(b, jsonscan.Quote(p.Issuer)...), `,"subject":`...)
		b = append(append(b, jsonscan.Quote(p.Subject)...), '}')
	}
	return b
}

// Cancelled is the notification that a caller gave up on the request with an id.
func Cancelled(id int64) []byte {
	return wire.Notification(wire.Cancelled, new(jsonscan.Object).Int("requestId", id).Text("reason", "the caller gave up").JSON())
}

// URI is the params of a request about one resource.
func URI(uri string) json.RawMessage { return new(jsonscan.Object).Text("uri", uri).JSON() }

// Listen is the params of subscriptions/listen: for every change that the backend says it
// announces, and for updates of uris; nil when that is nothing.
func Listen(capabilities json.RawMessage, uris []string) json.RawMessage {
	filter := map[string]any{}
	for _, l := range wire.Lists {
		if string(jsonscan.GetPath(capabilities, l.Capability, "listChanged")) == "true" {
			filter[l.Filter] = true
		}
	}
	if len(uris) > 0 {
		filter["resourceSubscriptions"] = uris
	}
	if len(filter) == 0 {
		return nil
	}
	params, _ := json.Marshal(map[string]any{"notifications": filter})
	return params
}
