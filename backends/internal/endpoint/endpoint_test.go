package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// at returns the endpoint at a path of a server.
func at(t *testing.T, h http.Handler, path string) *endpoint.Endpoint {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u, err := endpoint.Parse(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	var headers atomic.Pointer[http.Header]
	headers.Store(&http.Header{"X-Key": {"secret"}})
	return endpoint.New(u, &headers, http.DefaultTransport.RoundTrip, func(resp *http.Response) { endpoint.Discard(resp.Body) })
}

// answer answers with a status, a media type and a body.
func answer(status int, content, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", content)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// message is a response of an MCP server.
var message = answer(200, "application/json", `{"id":1,"jsonrpc":"2.0","result":{}}`)

// TestRedirects: a frame is sent again, with all headers, to a redirect within the origin only,
// and the next frame directly to its target.
func TestRedirects(t *testing.T) {
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get("X-Key"))
	}))
	defer other.Close()
	var asked []string
	mux := http.NewServeMux()
	mux.Handle("/old", http.RedirectHandler("/new?a=1", http.StatusPermanentRedirect))
	mux.Handle("/away", http.RedirectHandler(other.URL+"/x?token=t", http.StatusTemporaryRedirect))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusTemporaryRedirect))
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })
	mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		defer message(w, r)
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("X-Key")+" "+r.Header.Get("X-Later")+" "+string(body))
	})
	post := func(e *endpoint.Endpoint) error {
		resp, err := e.Post(context.Background(), wire.ToolsList, []byte("frame"), e.Header())
		if err == nil {
			endpoint.Discard(resp.Body)
		}
		return err
	}
	e := at(t, mux, "/old")
	e.Set("X-Later", "1")
	if err := errors.Join(post(e), post(e)); err != nil || strings.Join(asked, ",") != "secret 1 frame,secret 1 frame" {
		t.Errorf("asked %q, %v", asked, err)
	}
	for path, want := range map[string]string{
		"/away":  "redirects to " + other.URL + "/x, which has another origin",
		"/round": "more than 5 redirects",
		"/none":  "answers HTTP 302 without a valid Location",
	} {
		var redirect *endpoint.RedirectError
		if err := post(at(t, mux, path)); !errors.As(err, &redirect) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if len(elsewhere) > 0 {
		t.Errorf("another origin was asked, with the key %q", elsewhere)
	}
}

// TestWhatARedirectChanges: for each status and kind of request, how often the request reaches the place that redirects and the
// target, and where the next one goes.
func TestWhatARedirectChanges(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
		want   string // places in the order of the requests, "|" between the first and a later one; "?" for an error that it may have been executed
	}{
		{wire.ToolsCall, 301, "old?|old?"}, {wire.ToolsCall, 302, "old?|old?"}, {wire.ToolsCall, 303, "old?|old?"},
		{wire.PromptsGet, 303, "old?|old?"}, {wire.ResourcesRead, 302, "old?|old?"},
		{wire.ToolsCall, 307, "old new|old new"}, {wire.ToolsCall, 308, "old new|new"},
		{wire.ToolsList, 301, "old new|old new"}, {wire.ToolsList, 302, "old new|old new"}, {wire.ToolsList, 303, "old new|old new"},
		{wire.ToolsList, 307, "old new|old new"}, {wire.ToolsList, 308, "old new|new"},
		{wire.Initialize, 301, "old new|new"}, {wire.Discover, 301, "old new|new"}, {wire.Initialize, 302, "old new|old new"}, {wire.Initialize, 303, "old new|old new"},
		{"", 302, "old new|old new"}, {"", 308, "old new|new"},
	} {
		var places []string
		mux := http.NewServeMux()
		mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) {
			places = append(places, "old")
			http.Redirect(w, r, "/new", tt.status)
		})
		mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); r.Method != "POST" || string(body) != "frame" {
				t.Errorf("%s behind %d: %s %q, want the request again", tt.method, tt.status, r.Method, body)
			}
			places = append(places, "new")
			message(w, r)
		})
		moves := 0
		e := at(t, mux, "/old")
		e.Moved = func(*url.URL) { moves++ }
		got := ""
		for i := range 2 {
			places = nil
			resp, err := e.Post(t.Context(), tt.method, []byte("frame"), e.Header())
			var redirect *endpoint.RedirectError
			switch {
			case err == nil:
				endpoint.Discard(resp.Body)
			case errors.As(err, &redirect) && redirect.Answered:
				places[len(places)-1] += "?"
			default:
				t.Errorf("%s behind %d: %v", tt.method, tt.status, err)
			}
			got += strings.Repeat("|", i) + strings.Join(places, " ")
		}
		if got != tt.want {
			t.Errorf("%s behind %d: %s, want %s", tt.method, tt.status, got, tt.want)
		}
		if kept := strings.HasSuffix(tt.want, "|new"); moves != map[bool]int{true: 1}[kept] {
			t.Errorf("%s behind %d: a redirect was kept %d times", tt.method, tt.status, moves)
		}
	}
}

// TestAMoveEnds: requests go to where a permanent redirect has led while MCP answers there. Then the configured place is asked
// again. A body arrives whole, whatever of it was read to see that.
func TestAMoveEnds(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	refusal := `{"jsonrpc":"2.0","error":{"code":-32001,"message":"no such session"},"id":null}`
	login := `{"error":"log in, there is no \"jsonrpc\": here","hint":"jsonrpc"}`
	long := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct {
		method string
		answer http.HandlerFunc
		body   string
		stays  bool
	}{
		"a result":              {wire.ToolsCall, answer(200, "application/json", ` { "jsonrpc" : "2.0","result":"`+long+`"}`), ` { "jsonrpc" : "2.0","result":"` + long + `"}`, true},
		"a refusal of MCP":      {wire.ToolsCall, answer(404, "application/json", refusal), refusal, true},
		"events":                {wire.ToolsCall, answer(200, "text/event-stream", "data: {}\n\n"), "data: {}\n\n", true},
		"a notification":        {"", answer(202, "", ""), "", true},
		"no content":            {"", answer(204, "", ""), "", true},
		"a request accepted":    {wire.ToolsCall, answer(202, "", ""), "", false},
		"no content of a call":  {wire.ToolsCall, answer(204, "", ""), "", false},
		"JSON":                  {wire.ToolsCall, answer(200, "application/json", login), login, false},
		"JSON, denied":          {wire.ToolsCall, answer(401, "application/json", login), login, false},
		"JSON, not found":       {wire.ToolsCall, answer(404, "application/json", `{"detail":"`+long+`"}`), `{"detail":"` + long + `"}`, false},
		"JSON, nothing":         {wire.ToolsCall, answer(200, "application/json", ""), "", false},
		"JSON, within a member": {wire.ToolsCall, answer(200, "application/json", `{"request":{"jsonrpc":"2.0"}}`), `{"request":{"jsonrpc":"2.0"}}`, false},
		"a page":                {wire.ToolsCall, answer(200, "text/html", "<p>"), "<p>", false},
		"gone":                  {wire.ToolsCall, answer(404, "text/plain", "no"), "no", false},
		"unavailable":           {wire.ToolsCall, answer(503, "application/json", "{}"), "{}", false},
		"broken":                {wire.ToolsCall, broken, "", false},
		"a temporary redirect":  {wire.Initialize, http.RedirectHandler("/login", http.StatusFound).ServeHTTP, "log in", false},
		"redirected for ever":   {wire.Initialize, http.RedirectHandler("/new", http.StatusTemporaryRedirect).ServeHTTP, "", false},
	} {
		var asked, moved int
		mux := http.NewServeMux()
		mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		})
		mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
			if moved++; moved == 1 {
				message(w, r)
				return
			}
			tt.answer(w, r)
		})
		mux.HandleFunc("/login", answer(200, "text/html", "log in"))
		e := at(t, mux, "/old")
		post := func() string {
			resp, err := e.Post(t.Context(), tt.method, nil, e.Header())
			if err != nil {
				return ""
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return string(body)
		}
		post()
		if body := post(); asked != 1 || body != tt.body {
			t.Errorf("%s: the second request arrived at the configured place %d times, and its response is %q", name, asked-1, body)
		}
		if post(); (asked == 1) != tt.stays {
			t.Errorf("%s: requests stay at the new place: %t, want %t", name, asked == 1, tt.stays)
		}
	}
}

// TestWhatAChainKeeps: what is permanent in a chain of redirects is kept up to the first one that is not, if MCP answers at the
// end of it.
func TestWhatAChainKeeps(t *testing.T) {
	denied := answer(401, "application/json", `{"error":"log in"}`)
	for _, tt := range []struct {
		method string
		chain  []int // redirects /0 to /1, /1 to /2, …
		end    http.HandlerFunc
		want   string // where the next request goes
	}{
		{wire.ToolsCall, []int{308}, message, "/1"}, {wire.ToolsCall, []int{308}, denied, "/0"},
		{wire.ToolsCall, []int{308, 308}, message, "/2"}, {wire.ToolsCall, []int{308, 307}, message, "/1"}, {wire.ToolsCall, []int{308, 307}, denied, "/0"},
		{wire.ToolsCall, []int{307, 308}, message, "/0"}, {wire.ToolsCall, []int{307, 308}, denied, "/0"}, {wire.ToolsCall, []int{308, 307, 308}, message, "/1"},
		{wire.ToolsList, []int{302, 308}, message, "/0"}, {wire.ToolsList, []int{303, 308}, message, "/0"},
		{wire.Initialize, []int{301, 308}, message, "/2"}, {wire.Initialize, []int{302, 308}, message, "/0"}, {wire.Initialize, []int{307, 301}, message, "/0"},
	} {
		var asked []string
		var told []string
		e := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			i := int(r.URL.Path[1] - '0')
			if i == len(tt.chain) {
				tt.end(w, r)
				return
			}
			http.Redirect(w, r, fmt.Sprintf("/%d", i+1), tt.chain[i])
		}), "/0")
		e.Moved = func(to *url.URL) { told = append(told, to.Path) }
		for range 2 {
			asked = nil
			resp, err := e.Post(t.Context(), tt.method, nil, e.Header())
			if err != nil {
				t.Fatalf("%s behind %v: %v", tt.method, tt.chain, err)
			}
			endpoint.Discard(resp.Body)
		}
		if asked[0] != tt.want || (tt.want != "/0") != slices.Equal(told, []string{tt.want}) {
			t.Errorf("%s behind %v: the next one goes to %s, want %s; told %q", tt.method, tt.chain, asked[0], tt.want, told)
		}
	}
}

func TestGetAndDelete(t *testing.T) {
	var got []string
	e := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		got = append(got, r.Method+" "+r.Header.Get("Accept")+" "+r.Header.Get("Last-Event-ID")+" "+r.Header.Get("X-Key"))
	}), "/mcp")
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) { return e.Get(t.Context(), "7") },
		func() (*http.Response, error) { return e.Delete(t.Context()) },
	} {
		resp, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		endpoint.Discard(resp.Body)
	}
	want := []string{"GET text/event-stream 7 secret", "DELETE application/json, text/event-stream  secret"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestURLs(t *testing.T) {
	for _, bad := range []string{"", "host", "ftp://host", "http://", "://"} {
		if _, err := endpoint.Parse(bad); err == nil {
			t.Errorf("Parse(%q) is a URL", bad)
		}
	}
	u, _ := url.Parse("https://user:pass@host/path?token=t#f")
	if got := endpoint.Shown(u); got != "https://host/path" {
		t.Errorf("Shown = %s", got)
	}
}

// TestResume: a stream is resumed after its last event, after the retry time of the backend; failures
// are retried, a refusal is not.
func TestResume(t *testing.T) {
	var asked []string
	statuses := []int{503, 200, 404}
	e := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(statuses[len(asked)-1])
	}), "/mcp")
	pos := endpoint.Start
	pos.Note(wire.Event{ID: "7", HasID: true, Retry: time.Nanosecond})
	if pos.Note(wire.Event{}); pos.Last != "7" || pos.Retry != 20*time.Millisecond {
		t.Errorf("the position is %+v", pos)
	}
	resp, err := e.Resume(t.Context(), &pos)
	if err != nil {
		t.Fatal(err)
	}
	endpoint.Discard(resp.Body)
	var status *endpoint.StatusError
	if _, err = e.Resume(t.Context(), &pos); !errors.As(err, &status) || status.Code != 404 || strings.Join(asked, ",") != "7,7,7" {
		t.Errorf("asked behind %q, at last %v", asked, err)
	}
}
