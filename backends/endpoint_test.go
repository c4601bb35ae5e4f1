package backends_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	mux.HandleFunc("/new", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("X-Key")+" "+r.Header.Get("X-Later")+" "+string(body))
	})
	post := func(e *endpoint.Endpoint) error {
		resp, err := e.Post(context.Background(), []byte("frame"), e.Header())
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
