package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// HeaderParam is one x-mcp-header declaration of an input schema: the argument at Path
// must be repeated in the header (2026-07-28, basic/transports, custom headers).
type HeaderParam struct {
	Header string
	Path   []string
}

// HeaderParams returns the declarations in the definition of a tool. A tool with an error is unusable:
// clients must drop it.
func HeaderParams(def json.RawMessage) ([]HeaderParam, error) {
	if !strings.Contains(string(def), "x-mcp-header") {
		return nil, nil
	}
	found, err := collectHeaderParams(nil, jsonscan.GetPath(def, "inputSchema", "properties"), nil)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range found {
		if key := strings.ToLower(p.Header); seen[key] {
			return nil, fmt.Errorf("x-mcp-header %q is declared twice", p.Header)
		} else {
			seen[key] = true
		}
	}
	return found, nil
}

func collectHeaderParams(found []HeaderParam, properties json.RawMessage, path []string) (_ []HeaderParam, err error) {
	jsonscan.Each(properties, func(key, schema []byte) bool {
		here := append(path[:len(path):len(path)], string(key))
		if v := jsonscan.Get(schema, "x-mcp-header"); v != nil {
			if err = checkHeaderParam(v, jsonscan.GetString(schema, "type"), here); err != nil {
				return false
			}
			found = append(found, HeaderParam{Header: HeaderParamPrefix + jsonscan.Text(v), Path: here})
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
		return fmt.Errorf("inputSchema.properties.%s: x-mcp-header is allowed on a string, integer or boolean, not on %q", where, typ)
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return fmt.Errorf("inputSchema.properties.%s: x-mcp-header %s is not a valid header name", where, value)
	}
	return nil
}

// Text returns the value of p's header from the arguments; only strings, integers and booleans have one.
func (p *HeaderParam) Text(arguments json.RawMessage) (text string, ok bool) {
	v := jsonscan.GetPath(arguments, p.Path...)
	switch {
	case len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n':
		return "", false
	case v[0] == '"':
		return jsonscan.Text(v), true
	}
	return string(v), true
}
