package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

const hostile = `</p><script>alert(1)</script><img src=x onerror=alert(1)> "' &lt; {{.}} ` + "\u202egnp.exe\u0007\u200b\xff"

// hostilePages are the pages of an endpoint in which all texts of others are hostile.
func hostilePages(tools int) *pages {
	rows := func() (rows []status.ToolRow) {
		for i := range tools {
			rows = append(rows, status.ToolRow{Name: fmt.Sprintf("tool_%d%s", i, hostile), Title: hostile, Description: hostile + "\n" + hostile, Backend: hostile, Hidden: i%2 == 1})
		}
		return rows
	}
	schema, _ := json.Marshal(map[string]any{"type": "object", "required": []string{hostile}, "properties": map[string]any{
		hostile: map[string]any{"type": "string", "description": hostile, "default": hostile, "pattern": hostile},
		"mode":  map[string]any{"enum": []any{hostile, 1, nil, map[string]any{"a": hostile}}},
		"deep":  map[string]any{"type": "object", "default": map[string]any{"x": hostile}},
	}})
	run := status.Run{
		ID: "r1" + hostile, Tool: hostile, State: "waiting", Error: hostile, StartedAt: time.Now(), Open: 1,
		Steps:     []status.Step{{Key: hostile, Kind: hostile, Name: hostile, Error: hostile, Arguments: schema, Result: schema}, {Key: "1.b0.0/2", Kind: "call", StartMs: 1e12, DurationMs: 1e9}},
		Questions: []status.Question{{Key: hostile, Method: "elicitation/create", Message: hostile, Schema: schema}, {Key: "2", Method: hostile}},
		Arguments: schema, Result: schema,
	}
	return newPage(pageOptions{
		Status: func() status.Status {
			return status.Status{
				Name: hostile, Version: hostile, Config: status.Config{Source: hostile, Hash: hostile, Error: hostile},
				Backends: []status.Backend{{Name: hostile, State: "down", Error: hostile, Revision: hostile, Prefix: hostile, Processes: []status.Process{{PID: 1}}}},
				Profiles: []status.Profile{{Name: hostile, URL: hostile}},
				Problems: diag.Problems{{Message: hostile, Hint: hostile, Backend: hostile, Entry: hostile, Code: hostile}},
			}
		},
		Tools: rows,
		Tool: func(name string) (status.Tool, bool) {
			return status.Tool{ToolRow: status.ToolRow{Name: name, Title: hostile, Description: hostile, Backend: hostile, Original: hostile}, InputSchema: schema, OutputSchema: schema, Annotations: schema, Call: hostile, Script: hostile, Source: hostile}, name != "none"
		},
		Runs: func(context.Context) ([]status.Run, error) { return []status.Run{run}, nil },
		Run:  func(_ context.Context, id string) (status.Run, bool, error) { return run, id != "none", nil },
		Logs: func(string) []backends.Line { return []backends.Line{{Stream: hostile, Text: hostile}} },
	})
}

// get returns a page.
func get(p *pages, path string) (int, string) {
	w := httptest.NewRecorder()
	p.Serve(w, httptest.NewRequest("GET", path, nil), pageSettings{TryTools: true, KeepValues: true, LoggedIn: true})
	return w.Code, w.Body.String()
}

var paths = []string{"/", "/tools", "/tools/" + url.PathEscape("a/b"+hostile), "/runs", "/runs/r1", "/backends/" + url.PathEscape(hostile), "/problems"}

// Texts of servers, scripts and clients are escaped on every page: they make no element and no attribute, and no
// invisible or bidirectional character.
func TestForeignTextIsText(t *testing.T) {
	p := hostilePages(3)
	bodies := map[string]string{}
	for _, path := range append(paths, "/nothing/"+url.PathEscape(hostile), "/tools/none", "/runs/none", "/backends/x"+url.PathEscape(hostile)) {
		_, bodies[path] = get(p, path)
	}
	for name, text := range map[string]string{"text": `{"content":[{"type":"text","text":%s}],"isError":true}`, "kind": `{"content":[{"type":%s,"data":"AAAA","mimeType":%[1]s}],"structuredContent":{"a":%[1]s}}`,
		"question": `{"resultType":"input_required","requestState":%s,"inputRequests":{%[1]s:{"method":"elicitation/create","params":{"message":%[1]s,"url":%[1]s,"requestedSchema":{"properties":{%[1]s:{"type":"string"}}}}}}}`} {
		quoted, _ := json.Marshal(hostile)
		w := httptest.NewRecorder()
		writeResult(w, json.RawMessage(fmt.Sprintf(text, quoted)))
		bodies["result: "+name] = w.Body.String()
	}
	w := httptest.NewRecorder()
	login(w, 401, hostile, hostile)
	writeError(w, 403, hostile, hostile)
	wrong(w, 403, hostile, hostile)
	bodies["login and failures"] = w.Body.String()
	for name, body := range bodies {
		if len(body) < 100 {
			t.Errorf("%s: %s", name, body)
		}
		for _, bad := range []string{"<script>", "<img", "onerror=alert(1)>"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(body, -1) {
			if regexp.MustCompile(`\s(on\w+|style)\s*=\s*["']?[a-z]`).MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`)) {
				t.Errorf("%s has the element %s", name, tag)
			}
		}
		text := regexp.MustCompile(`(?s)<textarea.*?</textarea>|<[^>]*>`).ReplaceAllString(body, "")
		if strings.ContainsAny(text, "\u202e\u0007\u200b") || strings.Contains(text, "\xff") {
			t.Errorf("%s shows a character that hides or turns others", name)
		}
	}
}

// Pages load only their own assets, and the content security policy is as strict as possible.
func TestPagesAreStrict(t *testing.T) {
	p := hostilePages(1)
	for _, path := range paths {
		w := httptest.NewRecorder()
		p.Serve(w, httptest.NewRequest("GET", path, nil), pageSettings{TryTools: true})
		h := w.Header()
		if w.Code != 200 || h.Get("Content-Security-Policy") != Policy || strings.Contains(Policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		for _, found := range regexp.MustCompile(`\s(src|href|action)="([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			if !strings.HasPrefix(found[2], "/") && !strings.HasPrefix(found[2], "#") || strings.HasPrefix(found[2], "//") {
				t.Errorf("%s leads to %s", path, found[2])
			}
		}
	}
	if n := bytes.Count(script, []byte("\n")); n > 300 {
		t.Errorf("the script has %d lines", n)
	}
	for _, asset := range []string{stylePath, scriptPath, iconPath} {
		w := httptest.NewRecorder()
		serveAsset(w, httptest.NewRequest("GET", asset, nil))
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() < 100 {
			t.Errorf("%s: %d %v", asset, w.Code, w.Header())
		}
	}
	w := httptest.NewRecorder()
	if serveAsset(w, httptest.NewRequest("GET", "/favicon.ico", nil)); w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" {
		t.Errorf("/favicon.ico: %d", w.Code)
	}
	if serveAsset(w, httptest.NewRequest("GET", "/assets/../page.go", nil)); strings.Contains(w.Body.String(), "package page") {
		t.Error("a file of ours is served")
	}
}

// The attributes by which the page's script finds elements.
func TestMarks(t *testing.T) {
	p := newPage(pageOptions{
		Status: func() status.Status {
			return status.Status{Backends: []status.Backend{{Name: "ci", State: "connecting"}}, Problems: diag.Problems{{Code: "dropped", Message: "m"}}}
		},
		Tools: func() []status.ToolRow { return []status.ToolRow{{Name: "ci/build", Backend: "ci"}} },
		Tool: func(string) (status.Tool, bool) {
			return status.Tool{ToolRow: status.ToolRow{Name: "ci/build"}, InputSchema: json.RawMessage(`{"properties":{"a":{"type":"string"},"b":{"type":"object"},"c":{"type":"integer"},"d":{"type":"boolean"},"e":{"enum":["x"]}},"required":["a"]}`)}, true
		},
		Runs: func(context.Context) ([]status.Run, error) {
			return []status.Run{{ID: "r1", Tool: "t", State: "done"}}, nil
		},
		Run: func(context.Context, string) (status.Run, bool, error) {
			return status.Run{ID: "r1", Steps: []status.Step{{Key: "0", Kind: "call", Name: "x"}}}, true, nil
		},
	})
	for path, want := range map[string][]string{
		"/":                 {`data-backend="ci" data-state="connecting"`, `data-run="r1"`},
		"/tools":            {`data-tool="ci/build"`, `href="/tools/ci%2Fbuild"`},
		"/tools/ci%2Fbuild": {`form data-call="ci/build"`, `data-url="/api/v1/tools/ci%2Fbuild/call"`, `name="a"`, `textarea id="f-1" name="b"`, `name="c"`, `type="checkbox" id="f-3" name="d"`, `select id="f-4" name="e"`, "data-result"},
		"/runs":             {`data-run="r1"`, `href="/runs/r1"`},
		"/runs/r1":          {`data-step="0"`, "<rect"},
		"/problems":         {`data-problem="dropped"`},
		"/backends/ci":      {`data-backend="ci"`, `data-tool="ci/build"`},
	} {
		code, body := get(p, path)
		for _, mark := range want {
			if code != 200 || !strings.Contains(body, mark) {
				t.Errorf("%s: %d, lacks %s", path, code, mark)
			}
		}
	}
}

// Large texts are truncated: a result of 10 MB, 500 tools with long descriptions, a schema with a thousand properties.
func TestLargePages(t *testing.T) {
	w := httptest.NewRecorder()
	writeResult(w, json.RawMessage(`{"content":[{"type":"text","text":"`+strings.Repeat("x", 10<<20)+`"}]}`))
	if n := w.Body.Len(); n > 3*maxShown || !strings.Contains(w.Body.String(), "(10485760 bytes)") {
		t.Errorf("a result of 10 MB is a page of %d bytes", n)
	}
	w = httptest.NewRecorder()
	writeResult(w, json.RawMessage(`{"content":[`+strings.Repeat(`{"type":"text","text":"y"},`, 10_000)+`{"type":"text","text":"z"}]}`))
	if n := strings.Count(w.Body.String(), "<pre"); n > maxContents+1 || !strings.Contains(w.Body.String(), "9951 parts more") {
		t.Errorf("%d parts are shown", n)
	}
	if _, body := get(hostilePages(500), "/tools"); strings.Count(body, "data-tool=") != 500 || len(body) > 2<<20 {
		t.Errorf("500 tools are a page of %d bytes", len(body))
	}
	var many bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&many, `"p%d":{"type":"string"},`, i)
	}
	if n := len(fieldsOf(json.RawMessage(`{"properties":{`+many.String()+`"last":{}}}`), "f")); n != maxFields {
		t.Errorf("%d fields", n)
	}
}

func TestFields(t *testing.T) {
	for _, tt := range []struct {
		schema, kind, value string
		always              bool
	}{
		{`{"type":"string","default":"a"}`, "string", "a", true},
		{`{"type":["string","null"]}`, "string", "", true},
		{`{"type":["string","integer"]}`, "json", "", true},
		{`{"type":"string","maxLength":5000}`, "text", "", true},
		{`{"type":"integer","default":12345678901234567890}`, "number", "12345678901234567890", true},
		{`{"type":"boolean"}`, "boolean", "", true},
		{`{"enum":["a",1]}`, "choice", "", false},
		{`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`, "choice", "", false},
		{`{"oneOf":[{"type":"string"},{"const":1}]}`, "json", "", true},
		{`{"type":"array","default":[1, 2]}`, "json", "[1, 2]", true},
		{`true`, "json", "", true},
		{`{"type":7,"enum":"no"}`, "json", "", true},
		{`{}`, "json", "", true},
	} {
		all := fieldsOf(json.RawMessage(`{"properties":{"p":`+tt.schema+`},"required":["p"]}`), "f")
		if len(all) != 1 || all[0].Kind != tt.kind || all[0].Value != tt.value || all[0].Always != tt.always {
			t.Errorf("%s: %+v", tt.schema, all)
		}
	}
	if all := fieldsOf(json.RawMessage(`[]`), "f"); all != nil {
		t.Errorf("a schema that is a list has the fields %+v", all)
	}
}
