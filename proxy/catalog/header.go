package catalog

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// CheckHeaders compares the Mcp-Param headers of a request with its arguments, so that a proxy that routed by the
// headers decided about the arguments that are executed.
func (e *Entry) CheckHeaders(arguments json.RawMessage, h http.Header) error {
	for i := range e.headers {
		p := &e.headers[i]
		want, has := p.Text(arguments)
		values := h.Values(p.Header)
		if !has && len(values) == 0 {
			continue
		}
		got, ok := "", false
		if len(values) == 1 {
			got, ok = wire.DecodeHeader(values[0])
		}
		if !has || !ok || got != want {
			return wire.Errorf(wire.HeaderMismatch, "header %s does not match argument %s", p.Header, strings.Join(p.Path, "."))
		}
	}
	return nil
}

// ForwardedHeaders computes the Mcp-Param headers for the backend from the arguments, and keeps the client's headers
// that no schema declares.
func (e *Entry) ForwardedHeaders(arguments json.RawMessage, h http.Header) http.Header {
	var out http.Header
	set := func(k, v string) {
		if out == nil {
			out = http.Header{}
		}
		out.Set(k, v)
	}
	for k, v := range h {
		if strings.HasPrefix(k, wire.HeaderParamPrefix) && len(v) > 0 {
			set(k, v[0])
		}
	}
	for i := range e.headers {
		if text, has := e.headers[i].Text(arguments); has {
			set(e.headers[i].Header, wire.EncodeHeader(text))
		}
	}
	return out
}
