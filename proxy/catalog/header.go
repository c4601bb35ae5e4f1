package catalog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// headerParam is one x-mcp-header declaration of an input schema: the argument at path
// must also travel in the header (2026-07-28, basic/transports, custom headers).
type headerParam struct {
	header string
	path   []string
}

// headerParams reads the declarations of a tool. An error makes the tool unusable:
// clients must drop it.
func headerParams(def json.RawMessage) ([]headerParam, error) {
	if !strings.Contains(string(def), "x-mcp-header") {
		return nil, nil
	}
	found, err := collectHeaderParams(nil, jsonscan.GetPath(def, "inputSchema", "properties"), nil)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range found {
		if key := strings.ToLower(p.header); seen[key] {
			return nil, fmt.Errorf("x-mcp-header %q is declared twice", p.header)
		} else {
			seen[key] = true
		}
	}
	return found, nil
}

func collectHeaderParams(found []headerParam, properties json.RawMessage, path []string) (_ []headerParam, err error) {
	jsonscan.Each(properties, func(key, schema []byte) bool {
		here := append(path[:len(path):len(path)], string(key))
		if v := jsonscan.Get(schema, "x-mcp-header"); v != nil {
			if err = checkHeaderParam(v, jsonscan.GetString(schema, "type"), here); err != nil {
				return false
			}
			found = append(found, headerParam{header: wire.HeaderParamPrefix + jsonscan.Text(v), path: here})
		}
		found, err = collectHeaderParams(found, jsonscan.Get(schema, "properties"), here)
		return err == nil
	})
	return found, err
}

func checkHeaderParam(value json.RawMessage, typ string, path []string) error {
	name := jsonscan.Text(value)
	where := strings.Join(path, ".")
	if typ != "string" && typ != "integer" && typ != "boolean" {
		return fmt.Errorf("inputSchema.properties.%s: x-mcp-header goes on a string, integer or boolean, not on %q", where, typ)
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return fmt.Errorf("inputSchema.properties.%s: x-mcp-header %s is no header name", where, value)
	}
	return nil
}

// CheckHeaders compares the Mcp-Param headers of a request with its arguments: whoever
// decided by the header must have decided by what will be executed.
func (e *Entry) CheckHeaders(arguments json.RawMessage, h http.Header) error {
	for _, p := range e.headers {
		want, has := headerText(jsonscan.GetPath(arguments, p.path...))
		values := h.Values(p.header)
		if !has && len(values) == 0 {
			continue
		}
		got, ok := "", false
		if len(values) == 1 {
			got, ok = wire.DecodeHeader(values[0])
		}
		if !has || !ok || got != want {
			return wire.Errorf(wire.HeaderMismatch, "header %s does not match argument %s", p.header, strings.Join(p.path, "."))
		}
	}
	return nil
}

// headerText is an argument as its header shows it; only strings, integers and booleans have one.
func headerText(v json.RawMessage) (string, bool) {
	switch {
	case len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n':
		return "", false
	case v[0] == '"':
		return jsonscan.Text(v), true
	}
	return string(v), true
}

// ForwardedHeaders derives the Mcp-Param headers for the backend from the arguments and
// keeps those of the client that no schema declares.
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
	for _, p := range e.headers {
		if text, has := headerText(jsonscan.GetPath(arguments, p.path...)); has {
			set(p.header, wire.EncodeHeader(text))
		}
	}
	return out
}
