package conn

import (
	"encoding/json"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package encodes requests to a backend with the _meta of this hop, and the params of the
// proxy's own requests.

// metaPrincipal is the member of _meta with the caller's principal. One sent by a client
// is removed.
const metaPrincipal = "dev.vmcp/principal"

// EncodeRequest is a request to a backend.
type EncodeRequest struct {
	ID     int64
	Method string
	Params json.RawMessage

	// Modern backends get a description of the client with each request.
	Modern       bool
	Info         json.RawMessage
	Capabilities json.RawMessage // {} when empty
	LogLevel     string          // "": none

	Principal *Principal // nil: not sent to the backend
}

// Principal is the caller's identity.
type Principal struct{ Issuer, Subject string }

// perRequestMeta reports whether a key of _meta describes one hop: the caller's value is
// removed, and a modern backend gets this hop's.
func perRequestMeta(key string) bool {
	switch key {
	case wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel, metaPrincipal:
		return true
	}
	return false
}

// Frame encodes the request. token is the caller's progress token, nil for none; in the frame it is
// replaced by the id.
func (r *EncodeRequest) Frame() (frame []byte, token json.RawMessage) {
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

// appendParams appends the params with this hop's _meta members (meta, without braces)
// and the new progress token; all other bytes are unchanged.
func (r *EncodeRequest) appendParams(b, meta []byte) (out []byte, token json.RawMessage) {
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

// afterBrace returns the rest of obj after the opening brace and white space.
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

// appendMeta appends the caller's _meta: per-request keys replaced by ours, the progress
// token by the id.
func (r *EncodeRequest) appendMeta(b, theirs, ours []byte) (out []byte, token json.RawMessage) {
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

// meta returns this hop's members of _meta, without braces.
func (r *EncodeRequest) meta() []byte {
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

// encodeCancelled returns the notification that the request with an id is cancelled.
func encodeCancelled(id int64) []byte {
	return wire.Notification(wire.Cancelled, new(jsonscan.Object).Int("requestId", id).Text("reason", "the caller gave up").JSON())
}

// URI returns the params of a request about one resource.
func URI(uri string) json.RawMessage { return new(jsonscan.Object).Text("uri", uri).JSON() }

// Listen returns the params of subscriptions/listen: for the list changes that the backend
// declares, and for updates of uris; nil when there are none.
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
