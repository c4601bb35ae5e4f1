package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// get requests a page like a client on this machine.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4483"+path, nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4483}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (document T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return document
}

// TestConfigurationInStatus: the generation counts applied configurations, the hash is that of the current one, and the
// error that of the last refused one.
func TestConfigurationInStatus(t *testing.T) {
	p := proxy.New(proxy.Options{})
	defer p.Close()
	var seen []status.Config
	for _, name := range []string{"one", "two", "two"} {
		cfg, err := config.Parse("vmcp.yaml", []byte("name: "+name))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		s := decode[status.Status](t, get(p, "/api/v1/status"))
		if s.Name != name || !s.Ready || s.Config.Source != "vmcp.yaml" || s.Config.AppliedAt.IsZero() || !s.Healthy() {
			t.Errorf("status = %+v", s)
		}
		seen = append(seen, s.Config)
	}
	if seen[0].Generation != 1 || seen[1].Generation != 2 || seen[2].Generation != 3 || seen[0].Hash == seen[1].Hash || seen[1].Hash != seen[2].Hash {
		t.Errorf("configurations = %+v", seen)
	}
	p.Refused(errors.New("vmcp.yaml:1:1: error: no"))
	s := decode[status.Status](t, get(p, "/api/v1/status"))
	if s.Config.Error != "vmcp.yaml:1:1: error: no" || s.Config.Generation != 3 || s.Config.Hash != seen[2].Hash || s.Healthy() {
		t.Errorf("after a refusal: %+v", s.Config)
	}
}

// TestAPIPaths: unknown paths are answered in JSON, and with admin.listen the clients' port does not serve the API.
func TestAPIPaths(t *testing.T) {
	p := proxy.New(proxy.Options{})
	defer p.Close()
	if err := p.Apply(&config.Config{}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/api/v1/tools/x": `no tool "x"`, "/api/v2": "no endpoint GET /api/v2"} {
		w := get(p, path)
		if w.Code != http.StatusNotFound || decode[status.Failure](t, w).Error != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(p, "/api/v1/tools"); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != `{"tools":[]}` {
		t.Errorf("tools: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4483/api/v1/status", nil)
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("from another machine: %d %s", w.Code, w.Body)
	}
	if err := p.Apply(&config.Config{Admin: config.Admin{Listen: "127.0.0.1:0"}}); err != nil {
		t.Fatal(err)
	}
	if w := get(p, "/api/v1/status"); w.Code != http.StatusNotFound {
		t.Errorf("on the clients' port: %d %s", w.Code, w.Body)
	}
	if w := get(p.AdminHandler(), "/api/v1/status"); w.Code != http.StatusOK {
		t.Errorf("on the port for operators: %d %s", w.Code, w.Body)
	}
}

// TestFollowersAreBounded: the requests with ?follow are bounded, and end when the endpoint drains.
func TestFollowersAreBounded(t *testing.T) {
	p := proxy.New(proxy.Options{})
	defer p.Close()
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "off", Command: "x", Disabled: true}}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	defer server.Close()
	var open []*http.Response
	for n := 0; ; n++ {
		resp, err := http.Get(server.URL + "/api/v1/backends/off/logs?follow=true")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && n == 32 {
			break
		}
		if resp.StatusCode != http.StatusOK || n > 32 {
			t.Fatalf("request %d: %s", n, resp.Status)
		}
		open = append(open, resp)
	}
	p.Drain()
	for _, resp := range open {
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Errorf("after Drain: %q, %v", rest, err)
		}
	}
	for query, want := range map[string]string{"tail=-1": "tail: want a number of lines, such as 100", "follow=x": "follow: want true or false"} {
		if w := get(p, "/api/v1/logs?"+query); w.Code != http.StatusBadRequest || decode[status.Failure](t, w).Error != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
