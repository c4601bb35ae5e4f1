package serve_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/proxy"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// world is Servers with known names, of which those in served have a configuration with a tool.
func world(t *testing.T, process *config.Config, only string, known []string, served ...string) *serve.Servers {
	t.Helper()
	process.Complete()
	shared := proxy.NewProcess(nil)
	s := serve.NewServers(serve.ServersOptions{
		Log: slog.New(slog.DiscardHandler), Process: process, Only: only, Version: "test",
		Health: func() cluster.Health {
			return cluster.Health{Kind: "kubernetes", Namespace: "team", Synced: len(known) > 0, Complete: len(known) > 0, Waiting: "the kind Ship is not there"}
		},
		Stats: func() cluster.Stats {
			return cluster.Stats{Accepted: true, Synced: time.Unix(7, 0), Writes: map[string]int{"ok": 3}, Objects: []cluster.Count{{Kind: "Ship", Accepted: 1, Rejected: 2}}}
		},
		Make: func(name string, metrics prometheus.Registerer) *proxy.Proxy {
			return proxy.New(proxy.Options{Server: name, Process: shared, Metrics: metrics})
		},
	})
	t.Cleanup(s.Close)
	s.Known(known)
	for _, name := range served {
		cfg := &config.Config{Name: name, ScriptedTools: []config.ScriptedTool{{Name: "tool_of_" + name, Description: "Says who it is.", Script: "def run(params):\n    return \"" + name + "\"\n"}},
			Profiles: []config.Profile{{Name: "all"}, {Name: "none", Tools: []string{"no"}}}}
		if err := s.Apply(name, cfg); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// serversAsk sends a request from this machine, and returns status and body.
func serversAsk(h http.Handler, method, path, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, "http://127.0.0.1:4483"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/list")
	r.RemoteAddr = "127.0.0.1:50000"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestPaths: the path of each server, and the responses at other paths.
func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		name, only, path string
		known, served    []string
		status           int
		want             string
	}{
		{"the only one at its path", "", "/ops/mcp", []string{"ops"}, []string{"ops"}, 200, "tool_of_ops"},
		{"the only one at /mcp", "", "/mcp", []string{"ops"}, []string{"ops"}, 200, "tool_of_ops"},
		{"one of two", "", "/dev/mcp", []string{"dev", "ops"}, []string{"ops", "dev"}, 200, "tool_of_dev"},
		{"/mcp of two", "", "/mcp", []string{"dev", "ops"}, []string{"ops", "dev"}, 404, "nothing is served at /mcp; there are /dev/mcp, /ops/mcp"},
		{"/mcp of the one that is wanted", "ops", "/mcp", []string{"ops"}, []string{"ops"}, 200, "tool_of_ops"},
		{"/mcp of one that is wanted and not there", "other", "/mcp", []string{"ops"}, []string{"ops"}, 404, "nothing is served at /mcp"},
		{"known and not served", "", "/dev/mcp", []string{"dev", "ops"}, []string{"ops"}, 503, "dev is not served, see its status"},
		{"the only one is not served", "", "/mcp", []string{"dev"}, nil, 503, "dev is not served, see its status"},
		{"unknown", "", "/other/mcp", []string{"ops"}, []string{"ops"}, 404, "nothing is served at /other/mcp; there are /ops/mcp"},
		{"nothing read yet", "", "/ops/mcp", nil, nil, 503, "have not been read yet"},
		{"a profile", "", "/ops/mcp/all", []string{"dev", "ops"}, []string{"ops", "dev"}, 200, "tool_of_ops"},
		{"a profile of the only one", "", "/mcp/all", []string{"ops"}, []string{"ops"}, 200, "tool_of_ops"},
		{"a profile without the tool", "", "/ops/mcp/none", []string{"ops"}, []string{"ops"}, 200, `"tools":[]`},
		{"no profile", "", "/ops/mcp/any", []string{"ops"}, []string{"ops"}, 404, "the profiles are all, none"},
		{"below /mcp", "", "/ops/mcp/other", []string{"ops"}, []string{"ops"}, 404, ""},
		{"elsewhere below a server", "", "/ops/metrics", []string{"ops"}, []string{"ops"}, 404, ""},
		{"alive", "", "/healthz", nil, nil, 200, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := world(t, config.Default(), tt.only, tt.known, tt.served...)
			status, body := serversAsk(s, "POST", tt.path, list)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("POST %s = %d %s\nwant %d %s", tt.path, status, body, tt.status, tt.want)
			}
		})
	}
}

// TestLife: a server is withdrawn, applied again, and deleted; the others are not affected.
func TestLife(t *testing.T) {
	s := world(t, config.Default(), "", []string{"dev", "ops"}, "dev", "ops")
	expect := func(path string, want int) {
		t.Helper()
		if status, body := serversAsk(s, "POST", path, list); status != want {
			t.Errorf("POST %s = %d %s, want %d", path, status, body, want)
		}
	}
	if err := s.Apply("dev", nil); err != nil {
		t.Fatal(err)
	}
	expect("/dev/mcp", 503)
	expect("/ops/mcp", 200)
	if err := s.Apply("dev", &config.Config{}); err != nil {
		t.Fatal(err)
	}
	expect("/dev/mcp", 200)
	s.Known([]string{"ops"})
	expect("/dev/mcp", 404)
	expect("/mcp", 200)
	if err := s.Apply("dev", &config.Config{}); err != nil {
		t.Errorf("a configuration of a server that has gone: %v", err)
	}
}

// TestReadiness: 503 with the reason until everything was read, and again once the process is about to end.
func TestReadiness(t *testing.T) {
	if status, body := serversAsk(world(t, config.Default(), "", nil), "GET", "/readyz", "", "Host", "10.0.0.7:4483"); status != 503 || !strings.Contains(body, "the kind Ship is not there") {
		t.Errorf("before the first state: %d %s", status, body)
	}
	process := config.Default()
	process.Admin.Listen = "127.0.0.1:1"
	s := world(t, process, "", []string{"dev", "ops"}, "ops")
	if status, body := serversAsk(s, "GET", "/readyz", ""); status != 200 || strings.Contains(body, "ops") {
		t.Errorf("for everybody: %d %s", status, body)
	}
	status, body := serversAsk(s.AdminHandler(), "GET", "/readyz", "")
	var p struct {
		Ready   bool
		Source  cluster.Health
		Servers map[string]*proxy.Status
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != 200 || !p.Ready || p.Source.Namespace != "team" || p.Servers["ops"] == nil || len(p.Servers) != 2 {
		t.Errorf("for operators: %d %s (%v)", status, body, err)
	}
	if _, body := serversAsk(s.AdminHandler(), "GET", "/readyz?server=ops&tools", ""); !strings.Contains(body, "tool_of_ops") || strings.Contains(body, `"dev"`) {
		t.Errorf("of one server: %s", body)
	}
	s.Stopping()
	if status, body := serversAsk(s, "GET", "/readyz", ""); status != 503 || !strings.Contains(body, `"draining": true`) {
		t.Errorf("at the end: %d %s", status, body)
	}
	if status, _ := serversAsk(s, "POST", "/ops/mcp", list); status != 200 {
		t.Errorf("a call while draining: %d", status)
	}
}

// TestMetrics: metrics of servers have their names as a label, those of the process appear once.
func TestMetrics(t *testing.T) {
	s := world(t, config.Default(), "", []string{"dev", "ops"}, "ops", "dev")
	serversAsk(s, "POST", "/ops/mcp", list)
	_, body := serversAsk(s.AdminHandler(), "GET", "/metrics", "")
	for _, want := range []string{
		`vmcp_tools_listed{server="dev"} 1`, `vmcp_requests_total{method="tools/list",outcome="ok",server="ops"} 1`,
		`vmcp_kube_objects{kind="Ship",state="rejected"} 2`, `vmcp_kube_last_sync_timestamp_seconds 7`, `vmcp_kube_status_writes_total{outcome="ok"} 3`, `vmcp_config_last_reload_successful 1`,
		`vmcp_config_last_reload_successful{server="dev"} 1`, `vmcp_config_generation{server="ops"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	if n := strings.Count(body, "\ngo_goroutines "); n != 1 {
		t.Errorf("go_goroutines is there %d times", n)
	}
	if _, body := serversAsk(s, "GET", "/metrics?server=dev", ""); strings.Contains(body, `server="ops"`) {
		t.Error("?server=dev shows ops")
	}
}

// TestWhoMayLook: details are for this machine, or with the token on the port for operators; pages of other origins do
// not get the names of servers.
func TestWhoMayLook(t *testing.T) {
	process := config.Default()
	process.Admin = config.Admin{Listen: "127.0.0.1:1", TokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(process.Admin.TokenFile, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := world(t, process, "", []string{"ops"}, "ops")
	for _, tt := range []struct {
		h      http.Handler
		path   string
		header []string
		want   int
	}{
		{s, "/metrics", nil, 404},
		{s.AdminHandler(), "/metrics", nil, 401},
		{s.AdminHandler(), "/metrics", []string{"Authorization", "Bearer wrong"}, 401},
		{s.AdminHandler(), "/metrics", []string{"Authorization", "Bearer right"}, 200},
		{s.AdminHandler(), "/ops/mcp", []string{"Authorization", "Bearer right"}, 404},
		{s.AdminHandler(), "/healthz", nil, 200},
		{s, "/", []string{"Origin", "https://evil.example.com"}, 403},
		{s, "/mcp", []string{"Origin", "https://evil.example.com"}, 403},
		{s, "/ops/mcp", []string{"Origin", "https://evil.example.com"}, 403},
		{s, "/", nil, 200},
	} {
		if status, body := serversAsk(tt.h, "GET", tt.path, "", tt.header...); status != tt.want {
			t.Errorf("GET %s with %q = %d %s, want %d", tt.path, tt.header, status, body, tt.want)
		}
	}
}

// TestBackends: the error of a backend is the same text after every attempt.
func TestBackends(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close() // a reset
		}
	}()
	s := world(t, config.Default(), "", []string{"ops"})
	if err := s.Apply("ops", &config.Config{Backends: []config.Backend{{Name: "b", URL: "http://" + l.Addr().String() + "/mcp"}}}); err != nil {
		t.Fatal(err)
	}
	for s.Backends("ops")["b"] == "" {
		<-s.Changed()
	}
	if got := s.Backends("ops")["b"]; strings.Contains(got, "->") || !strings.Contains(got, "tcp "+l.Addr().String()) {
		t.Errorf("the text is another one with each attempt: %s", got)
	}
	l.Close()
	<-ended
}

// TestOfTheProcess: process-wide fields of the file are set in the configuration of every server.
func TestOfTheProcess(t *testing.T) {
	process := config.Default()
	process.Limits.Runs, process.Hosts = 7, []string{"mcp.example.com"}
	process.Audit = config.Audit{Enabled: true, LogFile: filepath.Join(t.TempDir(), "audit")}
	s := world(t, process, "", []string{"ops"})
	cfg := &config.Config{Hosts: []string{"elsewhere"}}
	if err := s.Apply("ops", cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Limits.Runs != 7 || cfg.Hosts[0] != "mcp.example.com" || !cfg.Audit.Enabled {
		t.Errorf("the configuration is %+v", cfg)
	}
	s.Close()
	lines, err := os.ReadFile(process.Audit.LogFile)
	if err != nil || !strings.Contains(string(lines), `"server":"ops"`) {
		t.Errorf("the audit is %s, %v", lines, err)
	}
}

// slowStore takes some time to close, as a store with runs does.
type slowStore struct {
	durablepkg.Store
	open *atomic.Bool
}

func (s slowStore) Close() error {
	<-time.After(100 * time.Millisecond)
	s.open.Store(false)
	return s.Store.Close()
}

// TestServedAgain: a server whose name is known again opens its store after the one before has closed it, also if another one
// between them was never served.
func TestServedAgain(t *testing.T) {
	var open atomic.Bool
	process := &config.Config{SessionStorage: config.SessionStorage{Provider: config.StorageSQLite, Path: "runs.db"}}
	process.Complete()
	s := serve.NewServers(serve.ServersOptions{Log: slog.New(slog.DiscardHandler), Process: process, Only: "ops", Make: func(name string, metrics prometheus.Registerer) *proxy.Proxy {
		return proxy.New(proxy.Options{Server: name, Process: proxy.NewProcess(nil), Metrics: metrics, OpenStore: func(c *config.Config) (durablepkg.Store, *durablepkg.Ring, error) {
			if open.Swap(true) {
				return nil, nil, errors.New("the store is open already")
			}
			return slowStore{durablepkg.NewMemory(sqlstore.InMemory(c), nil), &open}, nil, nil
		}})
	}})
	defer s.Close()
	for range 2 {
		s.Known([]string{"ops"})
		if err := s.Apply("ops", &config.Config{Name: "ops"}); err != nil {
			t.Fatal(err)
		}
		s.Known(nil)
		s.Known([]string{"ops"})
		s.Known(nil)
	}
}
