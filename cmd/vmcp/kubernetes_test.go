package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config/kube/cluster/clustertest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
	"github.com/vmcp-dev/vmcp/test/rig"
)

const kubeObjects = `apiVersion: vmcp.dev/v1alpha1
kind: VirtualMCPServer
metadata: {name: ops}
spec:
  groupRef: {name: ops}
  incomingAuth: {type: anonymous}
  config:
    scriptedTools:
      - {name: hello, description: Says hello., parameters: {type: object}, script: "def run(params):\n    return 'hello'\n"}
---
apiVersion: vmcp.dev/v1alpha1
kind: MCPServerEntry
metadata: {name: away}
spec:
  groupRef: {name: ops}
  remoteUrl: http://127.0.0.1:1/mcp
  transport: streamable-http
  headerForward:
    addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: token, key: header}}]
---
apiVersion: v1
kind: Secret
metadata: {name: token}
data: {header: QmVhcmVyIHMzY3IzdC0ke0hPTUV9LXZhbHVlCg==}
`

// lockedText is the output of a running command.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveKube runs serve --kubernetes with an API server; end stops it as SIGTERM does and returns the exit code.
func serveKube(t *testing.T, api *clustertest.API, args ...string) (url string, written *lockedText, end func() int) {
	t.Helper()
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithCancel(context.Background())
	written, code := &lockedText{}, make(chan int, 1)
	all := append([]string{"serve", "--kubernetes", "--kubeconfig", api.Kubeconfig(t), "--listen", addr, "--log-level", "debug"}, args...)
	go func() { code <- runContext(ctx, all, strings.NewReader(""), written, written) }()
	end = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { end() })
	return "http://" + addr, written, end
}

// page requests a page; status 0 while the port is closed.
func page(url string) (int, string) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// become waits until a page has a status.
func become(t *testing.T, url string, want int, written fmt.Stringer) (text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status := 0
	err := rig.Poll(ctx, url, func() (bool, error) {
		status, text = page(url)
		return status == want, nil
	})
	if err != nil {
		t.Fatalf("%v: it is %d %s, want %d\n%s", err, status, text, want, written)
	}
	return text
}

func callHello(url string) (int, string) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "hello"} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// TestServeKubernetes: the port is open before anything is read; then tools can be called, also while the API server is
// away; no page and no line has a secret; at the end requests are still served while /readyz says 503.
func TestServeKubernetes(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	release := api.HoldLists()
	api.Apply(kubeObjects)
	url, written, end := serveKube(t, api, "--shutdown-delay", "5s") // time for a call
	become(t, url+"/healthz", 200, written)
	if status, text := page(url + "/readyz"); status != 503 || !strings.Contains(text, `"ready": false`) {
		t.Errorf("before anything is read: %d %s", status, text)
	}
	if status, text := callHello(url + "/ops/mcp"); status != 503 {
		t.Errorf("a call before anything is read: %d %s", status, text)
	}
	release()
	ready := become(t, url+"/readyz", 200, written)
	if !strings.Contains(ready, `"namespace": "team"`) || !strings.Contains(ready, `"synced": true`) {
		t.Errorf("readyz %s", ready)
	}
	for _, path := range []string{"/ops/mcp", "/mcp"} {
		if status, text := callHello(url + path); status != 200 || !strings.Contains(text, "hello") {
			t.Errorf("a call of %s: %d %s", path, status, text)
		}
	}
	_, metrics := page(url + "/metrics")
	if !strings.Contains(metrics, `vmcp_kube_objects{kind="VirtualMCPServer",state="accepted"} 1`) {
		t.Errorf("metrics %s", metrics)
	}
	api.Away()
	if status, text := callHello(url + "/mcp"); status != 200 {
		t.Errorf("a call while the API server is away: %d %s", status, text)
	}
	if status, text := page(url + "/readyz"); status != 200 {
		t.Errorf("readyz while the API server is away: %d %s", status, text)
	}
	api.Back(t)

	ended := make(chan int, 1)
	go func() { ended <- end() }()
	become(t, url+"/readyz", 503, written)
	if status, text := callHello(url + "/mcp"); status != 200 {
		t.Errorf("a call after the signal: %d %s", status, text)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	for name, text := range map[string]string{"the log": written.String(), "readyz": ready, "metrics": metrics} {
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, "QmVhcmVy") {
			t.Errorf("%s shows a secret: %s", name, text)
		}
	}
}

// TestServeKubernetesProcess: which fields a file may have beside objects.
func TestServeKubernetesProcess(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	for _, tt := range []struct{ name, file, want string }{
		{"of objects", "name: x\nbackends: [{name: b, url: http://127.0.0.1:1/mcp}]\nlimits: {memory: 1MB, runs: 3}\n", ":1:7: error: name: does not belong to the process"},
		{"of a limit", "limits: {memory: 1MB, runs: 3}\n", "limits.memory: does not belong to the process"},
		{"a store for several", "sessionStorage: {provider: sqlite, path: " + filepath.Join(t.TempDir(), "runs.db") + "}\n", "stored runs belong to one server: set --server"},
	} {
		file := filepath.Join(t.TempDir(), "vmcp.yaml")
		if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, written, end := serveKube(t, api, "--config", file)
		if code := end(); code == 0 || !strings.Contains(written.String(), tt.want) {
			t.Errorf("%s: exit %d, %s; want %s", tt.name, code, written, tt.want)
		}
	}
	for _, args := range [][]string{{"serve", "--namespace", "n"}, {"serve", "--kubernetes", "--stdio"}, {"serve", "--kubernetes", "--listen", "nowhere"}} {
		var out bytes.Buffer
		if code := runContext(t.Context(), args, strings.NewReader(""), &out, &out); code != exitUsage {
			t.Errorf("%q: exit %d, %s", args, code, &out)
		}
	}
}

// TestServeKubernetesWithoutItsStore: while the store of runs cannot be opened, the process reports that it is not ready, and serves
// nothing; once it can be opened, it serves without a restart.
func TestServeKubernetesWithoutItsStore(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	api, path, file := clustertest.New(t), filepath.Join(t.TempDir(), "runs.db"), filepath.Join(t.TempDir(), "vmcp.yaml")
	api.Apply(kubeObjects)
	other, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path}) // another process has it
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.WriteFile(file, []byte("sessionStorage: {provider: sqlite, path: "+path+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, written, _ := serveKube(t, api, "--config", file, "--server", "ops")
	if err := rig.Poll(t.Context(), "a second attempt", func() (bool, error) {
		return strings.Count(written.String(), "another process serves the runs of this file") >= 2, nil
	}); err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if status, text := page(url + "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"ops": null`) {
		t.Errorf("/readyz without the store: %d %s", status, text)
	}
	other.Close()
	become(t, url+"/readyz", http.StatusOK, written)
	if status, text := callHello(url + "/ops/mcp"); status != http.StatusOK {
		t.Errorf("a call once the store is there: %d %s", status, text)
	}
}

// operators requests a path of the port for operators with its token, with the Accept header of a browser for HTML.
func operators(t *testing.T, method, url, accept, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Authorization", "Bearer right-token")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServeKubernetesForOperators: a single server has its page and its API on the port for operators, each of several its
// API below its name; the clients' port has neither, and without a port for operators it has them for this machine. The
// service manager is notified of the state of the servers.
func TestServeKubernetesForOperators(t *testing.T) {
	socket := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	notes, err := net.ListenUnixgram("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Close()
	t.Setenv("NOTIFY_SOCKET", socket.Name)
	api := clustertest.New(t)
	api.Apply(kubeObjects)
	dir := t.TempDir()
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	admin := fmt.Sprintf("http://127.0.0.1:%d", port)
	for name, text := range map[string]string{"token": "right-token\n", "vmcp.yaml": fmt.Sprintf("admin: {listen: \"127.0.0.1:%d\", tokenFile: token}\n", port)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url, written, end := serveKube(t, api, "--config", filepath.Join(dir, "vmcp.yaml"))
	become(t, url+"/readyz", 200, written)
	awaitNote(t, notes, "READY=1\n", "STATUS=1 of 1 servers served, 0 of 1 backends ready, 1 tools")

	shown := ""
	for _, tt := range []struct {
		method, path, accept, body string
		want                       int
		has                        string
	}{
		{"GET", "/", "text/html", "", 200, `data-backend="away"`},
		{"GET", "/tools/hello", "text/html", "", 200, "Says hello."},
		{"GET", "/api/v1/status", "", "", 200, `"name":"away"`},
		{"GET", "/ops/api/v1/status", "", "", 200, `"name":"away"`},
		{"POST", "/api/v1/tools/hello/call", "", `{"arguments":{}}`, 200, "hello"},
		{"GET", "/nobody/api/v1/status", "", "", 404, ""},
		{"GET", "/ops/mcp", "", "", 404, ""},
	} {
		status, text := operators(t, tt.method, admin+tt.path, tt.accept, tt.body)
		if shown += text; status != tt.want || !strings.Contains(strings.ReplaceAll(text, `": `, `":`), tt.has) {
			t.Errorf("%s %s = %d %s, want %d with %s", tt.method, tt.path, status, text, tt.want, tt.has)
		}
	}
	for _, at := range []string{admin + "/api/v1/status", admin + "/", admin + "/ops/api/v1/status"} {
		if status, text := page(at); status != 401 {
			t.Errorf("without the token: GET %s = %d %s", at, status, text)
		}
	}
	for _, path := range []string{"/api/v1/status", "/ops/api/v1/status", "/tools"} {
		if status, text := operators(t, "GET", url+path, "", ""); status != 404 {
			t.Errorf("on the clients' port: GET %s = %d %s", path, status, text)
		}
	}

	api.Apply(strings.ReplaceAll(kubeObjects[:strings.Index(kubeObjects, "---")], "name: ops", "name: dev"))
	become(t, url+"/dev/mcp", 400, written) // it is served: a GET needs a session
	if status, text := operators(t, "GET", admin+"/dev/api/v1/tools", "", ""); status != 200 || !strings.Contains(text, "hello") {
		t.Errorf("the API of one of two: %d %s", status, text)
	}
	if status, text := operators(t, "GET", admin+"/api/v1/status", "", ""); status != 404 {
		t.Errorf("the API of no server: %d %s", status, text)
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	awaitNote(t, notes, "STOPPING=1\n", "")
	for _, text := range []string{written.String(), shown} {
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, "right-token") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if !strings.Contains(written.String(), "vmcp: the page for operators, metrics and details at "+admin+"/\n") {
		t.Errorf("it does not say where the page is: %s", written)
	}
}

// awaitNote reads notifications to the service manager until one begins with begins, and one has has.
func awaitNote(t *testing.T, c *net.UnixConn, begins, has string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf, begun, had := make([]byte, 4096), false, false
	for !begun || !had {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("waiting for %q and %q: %v", begins, has, err)
		}
		begun, had = begun || strings.HasPrefix(string(buf[:n]), begins), had || strings.Contains(string(buf[:n]), has)
	}
}
