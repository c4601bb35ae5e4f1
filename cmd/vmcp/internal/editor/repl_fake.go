package editor

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Fake replaces every backend of a configuration by a server in this process that offers the
// tools that a lock has of the backend, and answers with examples of their output schemas. The
// prefixes, overrides and conflict resolution of the configuration apply to them.
func Fake(cfg *config.Config, f *lock.File) (done func(), err error) {
	var servers []*http.Server
	done = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	for i := range cfg.Backends {
		b := &fakeBackend{}
		for _, n := range f.Names() {
			if n.Kind == lock.Tool && n.Backend == cfg.Backends[i].Name {
				b.tools = append(b.tools, f.Entries[n].Definition)
			}
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			done()
			return nil, err
		}
		s := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
		go func() { _ = s.Serve(l) }() // ends with Close
		servers = append(servers, s)
		cfg.Backends[i] = config.Backend{Name: cfg.Backends[i].Name, URL: "http://" + l.Addr().String() + "/mcp", Transport: "streamable-http"}
	}
	return done, nil
}

// fakeBackend is an MCP server without sessions.
type fakeBackend struct{ tools []json.RawMessage }

func (b *fakeBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := jsonscan.Get(body, "id")
	if id == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := new(jsonscan.Object).Text("jsonrpc", "2.0").Raw("id", id)
	if result := b.result(jsonscan.GetString(body, "method"), jsonscan.Get(body, "params")); result != nil {
		answer.Raw("result", result)
	} else {
		answer.Raw("error", json.RawMessage(`{"code":-32601,"message":"no such method"}`))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer.JSON()) // the client has gone
}

// result answers a method; nil: it is not supported.
func (b *fakeBackend) result(method string, params json.RawMessage) json.RawMessage {
	switch method {
	case "initialize":
		return json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`)
	case "ping":
		return json.RawMessage(`{}`)
	case "tools/list":
		list, _ := json.Marshal(append([]json.RawMessage{}, b.tools...)) // the tools are JSON
		return new(jsonscan.Object).Raw("tools", list).JSON()
	case "tools/call":
		name := jsonscan.GetString(params, "name")
		i := slices.IndexFunc(b.tools, func(t json.RawMessage) bool { return jsonscan.GetString(t, "name") == name })
		if i < 0 {
			return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"no such tool"}]}`)
		}
		return exampleResult(b.tools[i])
	}
	return nil
}

// exampleResult is an example of a tool's result.
func exampleResult(definition json.RawMessage) json.RawMessage {
	output := jsonscan.Get(definition, "outputSchema")
	if output == nil {
		return json.RawMessage(`{"content":[{"type":"text","text":"an example"}]}`)
	}
	value := exampleOf(output)
	text, _ := json.Marshal(string(value)) // a string can always be encoded
	return json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":%s}`, text, value))
}

// maxExample bounds the depth of an example.
const maxExample = 8

// exampleOf is a value that a JSON Schema allows: its example, default or constant if it has one,
// else the simplest value of its type.
func exampleOf(schema json.RawMessage) json.RawMessage {
	if v := example(schema, schema, 0); v != nil {
		return v
	}
	return json.RawMessage("null")
}

// example is Example for a part of the schema root; nil at maxExample.
func example(root, s json.RawMessage, depth int) json.RawMessage {
	if depth > maxExample {
		return nil
	}
	for _, key := range []string{"const", "example", "default"} {
		if v := jsonscan.Get(s, key); v != nil {
			return v
		}
	}
	for _, key := range []string{"examples", "enum"} {
		if v := first(jsonscan.Get(s, key)); v != nil {
			return v
		}
	}
	if ref := jsonscan.GetString(s, "$ref"); ref != "" {
		return example(root, replResolve(root, ref), depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if v := first(jsonscan.Get(s, key)); v != nil {
			return example(root, v, depth+1)
		}
	}
	return simplest(root, s, depth)
}

func simplest(root, s json.RawMessage, depth int) json.RawMessage {
	switch kind := typeOf(s); kind {
	case "object":
		return exampleObject(root, s, depth)
	case "array":
		items := jsonscan.Get(s, "items")
		if items == nil || items[0] != '{' {
			return json.RawMessage("[]")
		}
		return json.RawMessage("[" + string(example(root, items, depth+1)) + "]") // may be empty
	case "integer", "number":
		for _, key := range []string{"minimum", "maximum"} {
			if v := jsonscan.Get(s, key); v != nil {
				return v
			}
		}
		return json.RawMessage("1")
	case "boolean":
		return json.RawMessage("true")
	case "string":
		return exampleText(s)
	}
	return json.RawMessage("null")
}

func exampleObject(root, s json.RawMessage, depth int) json.RawMessage {
	o := new(jsonscan.Object)
	jsonscan.Each(jsonscan.Get(s, "properties"), func(name, property []byte) bool {
		if v := example(root, property, depth+1); v != nil {
			o.Raw(string(name), v)
		}
		return true
	})
	return o.JSON()
}

// typeOf is the type of a schema; of several, the first that is not null.
func typeOf(s json.RawMessage) string {
	raw := jsonscan.Get(s, "type")
	if raw == nil && jsonscan.Get(s, "properties") != nil {
		return "object"
	}
	kind := ""
	if len(raw) > 0 && raw[0] == '[' {
		jsonscan.Elements(raw, func(v []byte) bool {
			kind = jsonscan.Text(v)
			return kind == "null"
		})
		return kind
	}
	return jsonscan.Text(raw)
}

// exampleText is a string of the schema's format, within its bounds of length.
func exampleText(s json.RawMessage) json.RawMessage {
	text, ok := map[string]string{
		"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "time": "00:00:00Z", "email": "someone@example.com",
		"uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000",
	}[jsonscan.GetString(s, "format")]
	if !ok {
		text = "example"
	}
	var bounds struct{ MinLength, MaxLength *int }
	if json.Unmarshal(s, &bounds) == nil {
		if bounds.MinLength != nil && len(text) < *bounds.MinLength {
			text += strings.Repeat("x", min(*bounds.MinLength, 10_000)-len(text))
		}
		if bounds.MaxLength != nil && len(text) > *bounds.MaxLength {
			text = text[:max(*bounds.MaxLength, 0)]
		}
	}
	raw, _ := json.Marshal(text) // a string can always be encoded
	return raw
}

// first is the first element of an array; nil when there is none.
func first(array json.RawMessage) (v json.RawMessage) {
	if len(array) == 0 || array[0] != '[' {
		return nil
	}
	jsonscan.Elements(array, func(e []byte) bool {
		v = e
		return false
	})
	return v
}

// replResolve returns the schema that a reference into root points to.
func replResolve(root json.RawMessage, ref string) json.RawMessage {
	at, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		if part != "" {
			root = jsonscan.Get(root, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		}
	}
	return root
}
