// Package relay tests a proxy in this process: results are relayed byte by byte, backend
// sessions belong to one client, and secrets are in no output.
package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// asBackend is the environment variable that makes this test binary a stdio backend of the era in it.
const asBackend = "VMCP_FIDELITY_BACKEND"

// notBefore2607 is a result that only backends and clients of 2026-07-28 may have.
const notBefore2607 = "structured content that is no object"

// results that a decoder would change: with unknown fields, zero
// values, numbers that no float64 has, order, escapes and spaces.
var results = []struct{ name, method, params, result string }{
	{"vendor fields", "tools/call", `{"name":"t","arguments":{"case":0}}`,
		`{"content":[{"type":"text","text":"x","vendorPart":{"a":[null,{}]}}],"x-vendor":true,"vendor.example/list":[1,[],{}]}`},
	{"isError false", "tools/call", `{"name":"t","arguments":{"case":1}}`, `{"content":[],"isError":false}`},
	{"empty strings and zeros", "tools/call", `{"name":"t","arguments":{"case":2}}`,
		`{"content":[{"type":"resource","resource":{"uri":"a://b","text":"","mimeType":""},"annotations":{"priority":0,"audience":[]}}]}`},
	{"numbers", "tools/call", `{"name":"t","arguments":{"case":3}}`,
		`{"content":[],"structuredContent":{"big":9007199254740993,"huge":123456789012345678901234567890,"one":1.0,"exp":1E400,"minus":-0,"small":0.10}}`},
	{"an unknown content type", "tools/call", `{"name":"t","arguments":{"case":4}}`,
		`{"content":[{"type":"hologram","frames":[1,2]},{"no":"type"}]}`},
	{"key order", "tools/call", `{"name":"t","arguments":{"case":5}}`,
		`{"structuredContent":{"z":1,"a":2,"m":{"y":1,"b":2}},"isError":true,"content":[{"text":"x","type":"text"}]}`},
	{"escapes", "tools/call", `{"name":"t","arguments":{"case":6}}`,
		`{"content":[{"type":"text","text":"\u0041\u00e9\ud83d\ude00 é 😀 \/ / \u003cb\u003e <b> & \u2028 \u0000"}]}`},
	{"spaces", "tools/call", `{"name":"t","arguments":{"case":7}}`,
		`{ "content" :  [ ] ,	"a":1   ,  "b" : { } }`},
	{"the same key twice", "tools/call", `{"name":"t","arguments":{"case":8}}`,
		`{"content":[],"structuredContent":{"a":1,"a":2}}`},
	{notBefore2607, "tools/call", `{"name":"t","arguments":{"case":9}}`,
		`{"content":[],"structuredContent":[1.0,null]}`},
	{"meta", "tools/call", `{"name":"t","arguments":{"case":10}}`,
		`{"content":[],"_meta":{"vendor.example/cost":1.50,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`},
	{"more than one buffer", "tools/call", `{"name":"t","arguments":{"case":11}}`,
		`{"content":[{"type":"text","text":"` + strings.Repeat(`\u00e9 é `, 100_000) + `"}],"last":1.0}`},
	{"prompts/get", "prompts/get", `{"name":"p"}`,
		`{"messages":[{"role":"user","content":{"type":"text","text":"","v":1.0}}],"x":9007199254740993}`},
	{"resources/read", "resources/read", `{"uri":"raw://r"}`,
		`{"contents":[{"uri":"raw://r","text":"","vendor":{"n":9007199254740993}}],"x":1.0}`},
	{"completion/complete", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
		`{"completion":{"values":["b","a"],"total":1.0,"vendor":{}},"x":[]}`},
}

// definitions that a typed model would change or refuse.
var definitions = map[string][]string{
	"tools": {
		`{"name":"t","inputSchema":{}}`,
		`{"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}},"name":"root-ref","description":""}`,
		`{"name":"root-types","inputSchema":{"type":["object","null"]},"outputSchema":{"anyOf":[{"type":"object"}]}}`,
		`{"vendor":{"z":1,"a":1.0},"name":"vendor","inputSchema":{"type":"object","x-unit":9007199254740993},"annotations":{"readOnlyHint":false,"x":null},"execution":{"taskSupport":"optional"}}`,
		`{ "name" : "spaces",  "inputSchema" :{"type":"object"} , "title":"\u0041\u00e9" }`,
	},
	"prompts":           {`{"name":"p","vendor":1.0,"arguments":[{"name":"a","required":false,"x":[]}]}`},
	"resources":         {`{"uri":"raw://r","name":"","size":9007199254740993,"vendor":{}}`},
	"resourceTemplates": {`{"uriTemplate":"raw://t/{id}","name":"","vendor":1.0}`},
}

// repaired are the definitions above that are invalid in a revision, in the forms that its
// clients get: clients with sessions, and clients of 2026-07-28.
var repaired = map[string][2]string{
	definitions["tools"][0]: {`{"name":"t","inputSchema":{"type":"object"}}`, `{"name":"t","inputSchema":{"type":"object"}}`},
	definitions["tools"][1]: {
		`{"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}},"type":"object"},"name":"root-ref","description":""}`,
		`{"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}},"type":"object"},"name":"root-ref","description":""}`,
	},
	definitions["tools"][2]: {
		`{"name":"root-types","inputSchema":{"type":"object"},"outputSchema":{"anyOf":[{"type":"object"}],"type":"object"}}`,
		`{"name":"root-types","inputSchema":{"type":"object"},"outputSchema":{"anyOf":[{"type":"object"}]}}`,
	},
}

// definition is the form of one of the definitions for a client.
func definition(def string, modern bool) string {
	forms, ok := repaired[def]
	switch {
	case !ok:
		return def
	case modern:
		return forms[1]
	}
	return forms[0]
}

var lists = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
}

// required are the members that 2026-07-28 requires in a result. A modern backend
// sends them; to a modern client in front of an older backend the proxy adds them.
var required = map[string]string{
	"tools/call":          `"resultType":"complete"`,
	"prompts/get":         `"resultType":"complete"`,
	"completion/complete": `"resultType":"complete"`,
	"resources/read":      `"resultType":"complete","ttlMs":0,"cacheScope":"private"`,
}

// exact returns the next of the results above for every call.
func exact(modern bool) *raw.Server {
	s := &raw.Server{Modern: modern, Capabilities: `{"tools":{},"prompts":{},"resources":{},"completions":{}}`}
	s.Handle = func(c *raw.Call) (string, error) {
		if key := lists[c.Method]; key != "" {
			return s.List(key, definitions[key]...), nil
		}
		result, ok := resultOf(c.Method, c.Params)
		switch {
		case !ok:
			return "", raw.ErrDefault
		case modern:
			return "{" + required[c.Method] + "," + result[1:], nil
		}
		return result, nil
	}
	return s
}

func resultOf(method string, params json.RawMessage) (string, bool) {
	var p struct{ Arguments struct{ Case int } }
	if json.Unmarshal(params, &p) != nil {
		return "", false
	}
	if method == "tools/call" {
		return results[p.Arguments.Case].result, true
	}
	for _, r := range results {
		if r.method == method {
			return r.result, true
		}
	}
	return "", false
}

// caller is a client of either transport.
type caller func(method, params string) (json.RawMessage, error)

func TestResultsAreByteIdentical(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"http", "stdio"} {
			p := newProxy(t, era, transport)
			for _, revision := range revisions() {
				t.Run(fmt.Sprintf("%s backend over %s, %s client", era, transport, revision), func(t *testing.T) {
					checkAll(t, httpClient(t, p, revision), era == "modern", revision == raw.Modern)
				})
				t.Run(fmt.Sprintf("%s backend over %s, %s client on stdio", era, transport, revision), func(t *testing.T) {
					checkAll(t, stdioClient(t, p, revision), era == "modern", revision == raw.Modern)
				})
			}
		}
	}
}

// revisions are the revisions of the clients: the quick form uses the last of the legacy era and the modern one.
func revisions() []string {
	if testmode.Thorough() {
		return []string{"2025-03-26", "2025-06-18", "2025-11-25", raw.Modern}
	}
	return []string{"2025-11-25", raw.Modern}
}

func checkAll(t *testing.T, call caller, modernBackend, modernClient bool) {
	for _, tt := range results {
		got, err := call(tt.method, tt.params)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if modernBackend == modernClient {
			want := tt.result
			if modernBackend {
				want = "{" + required[tt.method] + "," + tt.result[1:]
			}
			compare(t, tt.name, string(got), want)
			continue
		}
		// Members that the specification requires for a modern client, or that a modern
		// backend had to add, are optional; all others are unchanged.
		dropped := []string{"resultType", "ttlMs", "cacheScope"}
		if tt.name == notBefore2607 && !modernClient {
			dropped = append(dropped, "structuredContent")
			if strings.Contains(string(got), "structuredContent") {
				t.Errorf("%s: got %s", tt.name, got)
			}
		}
		compare(t, tt.name, without(t, string(got), dropped...), without(t, tt.result, dropped...))
	}
	for method, key := range lists {
		checkList(t, call, method, key, modernClient)
	}
}

func checkList(t *testing.T, call caller, method, key string, modern bool) {
	t.Helper()
	got, err := call(method, `{}`)
	if err != nil {
		t.Errorf("%s: %v", method, err)
		return
	}
	var list map[string]json.RawMessage
	var items []json.RawMessage
	if err := errors.Join(json.Unmarshal(got, &list), json.Unmarshal(list[key], &items)); err != nil {
		t.Errorf("%s: %v: %s", method, err, got)
		return
	}
	if len(items) != len(definitions[key]) {
		t.Errorf("%s: %d entries, want %d: %s", method, len(items), len(definitions[key]), got)
		return
	}
	for i, want := range definitions[key] {
		compare(t, fmt.Sprintf("%s[%d]", method, i), string(items[i]), definition(want, modern))
	}
}

// compare reports the first difference only: some of the results are megabytes.
func compare(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	t.Errorf("%s: differs at byte %d\n got ...%.160s\nwant ...%.160s", what, i, got[from:], want[from:])
}

// without returns the members of an object one by one, except the named ones, each
// with the bytes of its value.
func without(t *testing.T, object string, names ...string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%v: %.200s", err, object)
	}
	var members []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatalf("%v: %.200s", err, object)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%v: %.200s", err, object)
		}
		if !slices.Contains(names, key.(string)) {
			members = append(members, fmt.Sprintf("%q:%s", key, value))
		}
	}
	return strings.Join(members, ",")
}

// newProxy returns a proxy in front of one backend, whose entries are listed.
func newProxy(t *testing.T, era, transport string) *proxy.Proxy {
	t.Helper()
	b := config.Backend{Name: "raw"}
	if transport == "http" {
		server := httptest.NewServer(exact(era == "modern"))
		t.Cleanup(server.Close)
		b.URL = server.URL
	} else {
		b.Command, b.Env = self(t), map[string]string{asBackend: era}
	}
	p := proxy.New(proxy.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Apply(&config.Config{Name: "fidelity", Backends: []config.Backend{b}}); err != nil {
		t.Fatal(err)
	}
	awaitTools(t, p)
	return p
}

// awaitTools waits until the backend is connected.
func awaitTools(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	list := httpClient(t, p, raw.Modern)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := rig.Poll(ctx, "the backend's tools", func() (bool, error) {
		got, err := list("tools/list", `{}`)
		return strings.Contains(string(got), `"root-ref"`), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func httpClient(t *testing.T, p *proxy.Proxy, revision string) caller {
	t.Helper()
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	c := &raw.Client{URL: server.URL + "/mcp", Revision: revision}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(method, params string) (json.RawMessage, error) { return c.Call(t.Context(), method, params) }
}

func stdioClient(t *testing.T, p *proxy.Proxy, revision string) caller {
	t.Helper()
	fromClient, toProxy := io.Pipe()
	fromProxy, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.ServeStdio(ctx, fromClient, toClient) }()
	t.Cleanup(func() {
		toProxy.Close()
		<-served
		cancel()
	})
	c := raw.NewStdioClient(revision, fromProxy, toProxy)
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	return c.Call
}
