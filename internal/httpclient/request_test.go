package httpclient

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestTakes: requests that http.Transport refuses, retries or writes differently are left to it.
func TestTakes(t *testing.T) {
	l := New(&url.URL{Scheme: "http", Host: "a.example:8080"}, standard())
	for _, tt := range []struct {
		name   string
		change func(r *http.Request)
		want   bool
	}{
		{"a POST", func(*http.Request) {}, true},
		{"a DELETE", func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodDelete, nil, 0 }, true},
		{"an empty body", func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }, true},
		{"another method", func(r *http.Request) { r.Method = http.MethodPut }, false},
		{"TLS", func(r *http.Request) { r.URL.Scheme = "https" }, false},
		{"another port", func(r *http.Request) { r.URL.Host = "a.example" }, false},
		{"another Host", func(r *http.Request) { r.Host = "b.example" }, true},
		{"a Host that is written otherwise", func(r *http.Request) { r.Host = "bücher.example" }, false},
		{"a line feed in the Host", func(r *http.Request) { r.Host = "a\nB: c" }, false},
		{"unknown length", func(r *http.Request) { r.ContentLength = -1 }, false},
		{"a body that is a stream", func(r *http.Request) { r.GetBody = nil }, false},
		{"a closed connection", func(r *http.Request) { r.Close = true }, false},
		{"Expect", func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		{"Connection", func(r *http.Request) { r.Header.Set("Connection", "upgrade") }, false},
		{"Idempotency-Key", func(r *http.Request) { r.Header.Set("Idempotency-Key", "1") }, false},
		{"no token", func(r *http.Request) { r.Header["a b"] = []string{"c"} }, false},
		{"no name", func(r *http.Request) { r.Header[""] = []string{"c"} }, false},
		{"a line feed", func(r *http.Request) { r.Header["A"] = []string{"b\nC: d"} }, false},
		{"a line feed in the query", func(r *http.Request) { r.URL.RawQuery = "a\n" }, false},
		{"an opaque URL", func(r *http.Request) { r.URL.Opaque = "//b" }, false},
		{"no headers", func(r *http.Request) { r.Header = nil }, false},
		{"no URL", func(r *http.Request) { r.URL = nil }, false},
	} {
		r, err := http.NewRequest(http.MethodPost, "http://a.example:8080/mcp", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		tt.change(r)
		if got := l.Takes(r); got != (tt.want && onUnix) {
			t.Errorf("%s is taken: %t", tt.name, got)
		}
	}
	for _, host := range []string{"bücher.example", "a b", "[fe80::1%25eth0]:80", "", ":80", "a/b"} {
		if l := New(&url.URL{Scheme: "http", Host: host}, standard()); l.host != "" {
			t.Errorf("requests to the host %q are made here", host)
		}
	}
}

// FuzzRequest: a request is written as http.Request.Write writes it.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/mcp", "a=b&c", "", "X-Key", "secret", "body")
	f.Add("GET", "/a b/%2f/ü", "", "b.example:99", "User-Agent", "", "")
	f.Add("DELETE", "", "?", "[::1]", "accept", " text/event-stream\t", "")
	f.Add("POST", "*", "", "B:c:d", "Content-Length", "7", "")
	f.Add("POST", "//host/x", "", "[a", "Host", "other", "x")
	f.Add("POST", "/mcp", "a\tb", ".", "A", "b\tc", "x")
	f.Fuzz(func(t *testing.T, method, path, query, host, name, value, body string) {
		u := &url.URL{Scheme: "http", Host: "a.example:8080", Path: path, RawQuery: query}
		make := func() *http.Request {
			r, err := http.NewRequest(method, u.String(), strings.NewReader(body))
			if err != nil {
				t.Skipf("no request: %v", err)
			}
			r.URL, r.Host = u, host
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"a", "b"}, name: {value, "z"}}
			return r
		}
		if !New(u, standard()).Takes(make()) {
			return
		}
		var want bytes.Buffer
		if err := make().Write(&want); err != nil {
			t.Fatalf("http.Request.Write: %v", err)
		}
		if got, err := appendRequest(nil, make()); err != nil || string(got) != want.String() {
			t.Errorf("the request is written as\n%q, %v\nwant\n%q", got, err, want.String())
		}
	})
}

// TestAppendRequestReadsTheBody: its error is the request's.
func TestAppendRequestReadsTheBody(t *testing.T) {
	r, _ := http.NewRequest(http.MethodPost, "http://a.example/mcp", strings.NewReader("body"))
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("bo"), broken{}))
	if _, err := appendRequest(nil, r); err != errGone {
		t.Errorf("the error is %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errGone }
