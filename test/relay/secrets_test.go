package relay

// These tests search for the secrets of a configuration in all outputs of the
// endpoint, with backends that repeat them in every form.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/test/raw"
)

const (
	token   = `t0ken/of"the+header==`
	key     = "k3y of&the=query"
	inChild = "p4ssword-of-the-child"
	marker  = "what the backend said"
)

// forms are the encodings in which a backend writes a secret.
func forms(s string) []string {
	quoted, _ := json.Marshal(s)
	return []string{s, url.QueryEscape(s), url.PathEscape(s), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s))}
}

// found lists the secrets in a text.
func found(text string) (hits []string) {
	for _, s := range []string{token, key, inChild} {
		for _, form := range forms(s) {
			if strings.Contains(text, form) {
				hits = append(hits, form)
			}
		}
	}
	return hits
}

// received are the credentials of a request in all forms.
func received(r *http.Request) string {
	text := marker + ": bad token " + r.Header.Get("Authorization") + " or key " + r.URL.Query().Get("api_key")
	for _, s := range []string{token, key} {
		text += " " + strings.Join(forms(s), " ")
	}
	return text + " " + strings.Repeat("x", 150) + token // over the place where a line is cut
}

// ways are the places where a backend repeats credentials.
var ways = map[string]func(x *backendtest.Exchange, received string){
	"400": status(400), "401": status(401), "403": status(403), "404": status(404), "413": status(413), "500": status(500), "503": status(503),
	"error message": func(x *backendtest.Exchange, received string) { x.Raw(failure(x, received, nil)) },
	"error data": func(x *backendtest.Exchange, received string) {
		x.Raw(failure(x, "no", map[string]any{"you": []string{received}, received: 1}))
	},
	"escaped error": func(x *backendtest.Exchange, received string) {
		x.Raw(strings.ReplaceAll(failure(x, received, received), "t0ken", `\u00740ken`))
	},
	"error in a 401": func(x *backendtest.Exchange, received string) {
		x.WriteHeader(401)
		io.WriteString(x, failure(x, received, received))
	},
	"error as a text": func(x *backendtest.Exchange, received string) {
		quoted, _ := json.Marshal(received)
		x.Raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, x.Message.ID, quoted))
	},
	"redirect": func(x *backendtest.Exchange, received string) {
		x.Header().Set("Location", "http://elsewhere.invalid/"+url.PathEscape(token)+"?key="+url.QueryEscape(received))
		x.WriteHeader(307)
	},
	"content type": func(x *backendtest.Exchange, received string) {
		x.Header().Set("Content-Type", "text/"+received)
		io.WriteString(x, received)
	},
	"malformed": func(x *backendtest.Exchange, received string) { x.Raw(`{"jsonrpc":"2.0","id":1,` + received) },
	"malformed event": func(x *backendtest.Exchange, received string) {
		x.Event("", received)
		x.Event("", `{"jsonrpc":`+received)
	},
	"no answer": func(x *backendtest.Exchange, received string) { x.Raw(`{"jsonrpc":"2.0","method":"` + marker + `"}`) },
}

func status(code int) func(*backendtest.Exchange, string) {
	return func(x *backendtest.Exchange, received string) { x.WriteHeader(code); io.WriteString(x, received) }
}

func failure(x *backendtest.Exchange, message string, data any) string {
	e, _ := json.Marshal(map[string]any{"code": -32000, "message": message, "data": data})
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, x.Message.ID, e)
}

// An endpoint is a proxy with all its outputs.
type endpoint struct {
	proxy *proxy.Proxy
	url   string
	spans *tracetest.InMemoryExporter
	wrote chan struct{} // cap 1: there is more in log

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

func (e *endpoint) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.wrote <- struct{}{}:
	default:
	}
	return e.log.Write(p)
}

func (e *endpoint) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

// observe runs a proxy with one backend, a script that returns the error of its tool and
// one that fails with it.
func observe(t *testing.T, b config.Backend) *endpoint {
	t.Helper()
	e := &endpoint{spans: tracetest.NewInMemoryExporter(), wrote: make(chan struct{}, 1)}
	handler := slog.NewJSONHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug})
	p := proxy.New(proxy.Options{Log: slog.New(handler), Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.spans))})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	err := p.Apply(&config.Config{Backends: []config.Backend{b}, ScriptedTools: []config.ScriptedTool{
		{Name: "looks", Description: "d", Script: "def run(params):\n    r = try_call_tool('call')\n    return {'error': r.error, 'kind': r.kind}\n"},
		{Name: "fails", Description: "d", Script: "def run(params):\n    return call_tool('call')\n"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.proxy, e.url = p, srv.URL
	return e
}

// outputs calls the tool in every way and returns all outputs.
func (e *endpoint) outputs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, revision := range []string{"2025-06-18", raw.Modern} {
		c := &raw.Client{URL: e.url + "/mcp", Revision: revision}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"call", "looks", "fails"} {
			result, err := c.Call(t.Context(), "tools/call", `{"name":"`+tool+`","_meta":{"vmcp.dev/trace":true}}`)
			out[tool+" "+revision] = fmt.Sprintf("%s %v", result, err)
		}
	}
	for _, page := range []string{"/readyz", "/readyz?tools", "/metrics"} {
		resp, err := http.Get(e.url + page)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		out[page] = string(body)
	}
	spans, err := json.Marshal(e.spans.GetSpans())
	if err != nil {
		t.Fatal(err)
	}
	out["spans"], out["log"] = string(spans), e.logged()
	return out
}

func check(t *testing.T, out map[string]string) {
	t.Helper()
	for name, text := range out {
		if hits := found(text); len(hits) > 0 {
			t.Errorf("%s has %q:\n%s", name, hits, text)
		}
	}
}

// speaks is a backend that repeats credentials in one of the ways.
func speaks(t *testing.T, method string, way func(*backendtest.Exchange, string), said *atomic.Int32) config.Backend {
	r := &backendtest.Raw{Tools: `{"name":"call","inputSchema":{"type":"object"}}`}
	r.First = func(x *backendtest.Exchange) bool {
		if x.Message.Method != method {
			return false
		}
		said.Add(1)
		way(x, received(x.Request))
		return true
	}
	return config.Backend{Name: "b", URL: r.Start(t) + "?api_key=" + url.QueryEscape(key), Headers: map[string]string{"Authorization": "Bearer " + token}}
}

func TestNoSecretInAnyOutput(t *testing.T) {
	for name, way := range ways {
		for _, method := range []string{"initialize", "tools/call"} {
			t.Run(name+" to "+method, func(t *testing.T) {
				t.Parallel()
				var said atomic.Int32
				e := observe(t, speaks(t, method, way, &said))
				out := e.outputs(t)
				if said.Load() == 0 {
					t.Fatal("the backend was not asked")
				}
				check(t, out)
				if _, err := fmt.Sscanf(name, "%d", new(int)); err == nil {
					for _, place := range []string{"call 2025-06-18", "looks 2025-06-18", "/readyz", "spans"} {
						if strings.Contains(out[place], marker) {
							t.Errorf("%s has the body of a failed answer:\n%s", place, out[place])
						}
					}
					if !strings.Contains(out["log"], marker) {
						t.Errorf("the debug log has no body:\n%s", out["log"])
					}
				}
			})
		}
	}
}

func TestResultsKeepTheirBytes(t *testing.T) {
	r := &backendtest.Raw{Tools: `{"name":"call","inputSchema":{"type":"object"}}`}
	r.Handle = func(x *backendtest.Exchange) {
		text, _ := json.Marshal(x.Request.Header.Get("Authorization"))
		x.JSON(`{"content":[{"type":"text","text":` + string(text) + `}]}`)
	}
	e := observe(t, config.Backend{Name: "b", URL: r.Start(t), Headers: map[string]string{"Authorization": "Bearer " + token}})
	c := &raw.Client{URL: e.url + "/mcp", Revision: "2025-06-18"}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal("Bearer " + token)
	if got, err := c.Call(t.Context(), "tools/call", `{"name":"call"}`); err != nil || string(got) != `{"content":[{"type":"text","text":`+string(quoted)+`}]}` {
		t.Errorf("the result of a tool was changed: %s, %v", got, err)
	}
}

// TestMain also runs a backend that writes its secret to standard
// error and standard output, as a line and as a long one that is cut, and ends.
func TestNoSecretOfAChild(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := observe(t, config.Backend{Name: "b", Command: program, Env: map[string]string{"CHILD_PASSWORD": inChild}}).outputs(t)
	check(t, out)
	if !strings.Contains(out["/readyz"], marker) || !strings.Contains(out["log"], "not an MCP message") {
		t.Errorf("the standard error of the child is not reported:\n%s\n%s", out["/readyz"], out["log"])
	}
}

// A call that began with an old secret ends after the secret was replaced.
func TestFormerSecretsStayHidden(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	r := &backendtest.Raw{Tools: `{"name":"call","inputSchema":{"type":"object"}}`, Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == "tools/call" {
			close(began)
			<-end
			x.Raw(failure(x, received(x.Request), nil))
		}
	}}
	b := config.Backend{Name: "b", URL: r.Start(t) + "?api_key=" + url.QueryEscape(key), Headers: map[string]string{"Authorization": "Bearer " + token}}
	e := observe(t, b)
	c := &raw.Client{URL: e.url + "/mcp", Revision: "2025-06-18"}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), "tools/call", `{"name":"call"}`)
		answer <- err
	}()
	<-began
	b.Headers = map[string]string{"Authorization": "Bearer another-one"}
	if err := e.proxy.Apply(&config.Config{Backends: []config.Backend{b}}); err != nil {
		t.Fatal(err)
	}
	close(end)
	if err := <-answer; err == nil || len(found(err.Error())) > 0 || !strings.Contains(err.Error(), "***") {
		t.Errorf("the call ended with %v, want an error without the former secret", err)
	}
}

// A message of a backend that belongs to no call is logged, and cut.
func TestNoSecretInWhatABackendLogs(t *testing.T) {
	r := &backendtest.Raw{Session: "s", Handle: func(x *backendtest.Exchange) {
		if x.Request.Method != http.MethodGet {
			x.WriteHeader(http.StatusNotFound)
			return
		}
		for before := 1003; before < 1018; before++ {
			data, _ := json.Marshal(strings.Repeat("x", before) + token + " " + marker)
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%s}}`, data))
		}
		x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"the last one"}}`)
		<-x.Request.Context().Done()
	}}
	e := observe(t, config.Backend{Name: "b", URL: r.Start(t), Headers: map[string]string{"Authorization": "Bearer " + token}})
	for !strings.Contains(e.logged(), "the last one") {
		<-e.wrote
	}
	if log := e.logged(); strings.Contains(log, token[:8]) || !strings.Contains(log, "message of a backend") {
		t.Errorf("the log:\n%s", log)
	}
}

// Messages of a backend to a client other than results have no secret: log messages and the texts
// of progress, during a call and outside of it. Their other parts are unchanged.
func TestNoSecretInWhatABackendSaysToClients(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, revision := range []string{"2025-11-25", raw.Modern} {
			t.Run(fmt.Sprintf("modern=%v to %s", modern, revision), func(t *testing.T) {
				r := &backendtest.Raw{Modern: modern, Tools: `{"name":"call","inputSchema":{"type":"object"}}`}
				r.Handle = func(x *backendtest.Exchange) {
					data, _ := json.Marshal(received(x.Request))
					x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"l","data":{"said":%s,"n":1.0}}}`, data))
					if token := x.Param("_meta", "progressToken"); token != "" {
						x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%s}}`, token, data))
					}
					x.EventResult(`{"content":[],"resultType":"complete"}`)
				}
				e := observe(t, config.Backend{Name: "b", URL: r.Start(t) + "?api_key=" + url.QueryEscape(key), Headers: map[string]string{"Authorization": "Bearer " + token}})
				c := &raw.Client{URL: e.url + "/mcp", Revision: revision}
				notified := map[string]string{}
				c.Notified = func(m raw.Message) { notified[m.Method] += string(m.Params) }
				if err := c.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				params := `{"name":"call","arguments":{},"_meta":{"progressToken":"p"}}`
				if revision == raw.Modern {
					c.Meta, params = `,"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"`, `{"name":"call","arguments":{}}`
				}
				if _, err := c.Call(t.Context(), "tools/call", params); err != nil {
					t.Fatal(err)
				}
				for _, method := range []string{"notifications/message", "notifications/progress"} {
					if text := notified[method]; len(found(text)) > 0 || !strings.Contains(text, marker) || !strings.Contains(text, "***") {
						t.Errorf("%s with %q: %s", method, found(text), text)
					}
				}
				if text := notified["notifications/message"]; !strings.Contains(text, `"level":"error"`) || !strings.Contains(text, `"n":1.0`) {
					t.Errorf("the message was changed beside its secrets: %s", text)
				}
			})
		}
	}
}
