package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The two eras of MCP: with sessions, and without.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// waitTime is the duration of a call of the tool wait.
const waitTime = 10 * time.Millisecond

// manyTools is the number of tools of the backend many.
const manyTools = 1000

// backend is an MCP server with prepared responses. The first part of a request's path is the
// revision of MCP, the second the list of tools.
type backend struct {
	results map[string]answer // by tool
	lists   map[string]answer // by the second part of the path
}

// answer is one result in the form of each era.
type answer struct{ legacy, modern string }

func complete(result string) answer {
	return answer{result, `{"resultType":"complete",` + result[1:]}
}

func listed(tools ...string) answer {
	result := `{"tools":[` + strings.Join(tools, ",") + `]}`
	return answer{result, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + result[1:]}
}

func newBackend() *backend {
	b := &backend{results: map[string]answer{"wait": complete(textResult(100))}}
	tools := []string{toolDef("wait", 0)}
	for _, size := range sizes {
		for _, form := range []string{"json", "sse"} {
			name := answerTool(form, size)
			b.results[name] = complete(textResult(size))
			tools = append(tools, toolDef(name, 0))
		}
	}
	for _, size := range []int{1_000_000, 10_000_000} {
		name := "rows_" + strconv.Itoa(size)
		b.results[name] = complete(rowsResult(size))
		tools = append(tools, toolDef(name, 0))
	}
	many := make([]string, manyTools)
	for i := range many {
		many[i] = toolDef(fmt.Sprintf("tool_%04d", i), 400)
	}
	b.lists = map[string]answer{"few": listed(tools...), "many": listed(many...), "tiny": listed(tools[0])}
	return b
}

// answerTool is the name of the tool with a result of about size bytes.
func answerTool(form string, size int) string { return form + "_" + strconv.Itoa(size) }

func toolDef(name string, description int) string {
	return fmt.Sprintf(`{"name":%q,"description":"Answers. %s","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`,
		name, strings.Repeat("word ", description/5))
}

// textResult is a tool result of size bytes with text content.
func textResult(size int) string {
	const head, tail, line = `{"content":[{"type":"text","text":"`, `"}],"isError":false}`, `a line with \"quotes\"\n`
	n := max(size-len(head)-len(tail), 0)
	text := strings.Repeat(line, n/len(line))
	return head + text + strings.Repeat("x", n-len(text)) + tail
}

// rowsResult is a structured result of about size bytes.
func rowsResult(size int) string {
	var b strings.Builder
	b.WriteString(`{"content":[],"structuredContent":{"rows":[`)
	for i := 0; b.Len() < size-100; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","price":%d.5,"tags":["a","b"],"active":true}`, i, i, i%1000)
	}
	b.WriteString(`]}}`)
	return b.String()
}

// frame has the fields of a request that the backend reads.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// ServeHTTP implements Streamable HTTP without the GET stream.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	revision, list, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	list, _, _ = strings.Cut(list, "/")
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	var f frame
	if err == nil {
		err = json.Unmarshal(body, &f)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case f.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		b.answer(w, f, revision == modern, list)
	}
}

func (b *backend) answer(w http.ResponseWriter, f frame, isModern bool, list string) {
	result := b.result(f, isModern, list)
	switch {
	case result == "":
		write(w, `{"jsonrpc":"2.0","id":`, string(f.ID), `,"error":{"code":-32601,"message":"no such method"}`, "}")
	case strings.HasPrefix(f.Params.Name, "sse_"):
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range [...]string{"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":", string(f.ID), `,"result":`, result, "}\n\n"} {
			io.WriteString(w, s)
		}
	default:
		if f.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		write(w, `{"jsonrpc":"2.0","id":`, string(f.ID), `,"result":`, result, "}")
	}
}

// result is the result of a request, or "" for a method that the revision does not have.
func (b *backend) result(f frame, isModern bool, list string) string {
	var a answer
	switch f.Method {
	case "tools/call":
		if f.Params.Name == "wait" {
			time.Sleep(waitTime)
		}
		a = b.results[f.Params.Name]
	case "tools/list":
		a = b.lists[list]
	case "initialize":
		a.legacy = `{"protocolVersion":"` + legacy + `","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`
	case "ping":
		a.legacy = `{}`
	case "server/discover":
		a.modern = `{"resultType":"complete","supportedVersions":["` + modern + `"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	}
	if isModern {
		return a.modern
	}
	return a.legacy
}

// write sends a JSON body of known length.
func write(w http.ResponseWriter, parts ...string) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	for _, p := range parts {
		io.WriteString(w, p)
	}
}
