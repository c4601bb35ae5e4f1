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

// lockedText is what a command has written so far.
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

// serveKube runs serve --kubernetes over an API server; end sends what SIGTERM does and returns the exit code.
func serveKube(t *testing.T, api *clustertest.API, args ...string) (url string, written *lockedText, end func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	written, code := &lockedText{}, make(chan int, 1)
	all := append([]string{"serve", "--kubernetes", "--kubeconfig", api.Kubeconfig(t), "--listen", addr, "--log-level", "debug"}, args...)
	go func() { code <- runContext(ctx, all, strings.NewReader(""), written, written) }()
	end = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { end() })
	return "http://" + addr, written, end
}

// page is the status and the text of a page; 0 while there is no port.
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

// TestServeKubernetes: the port is there before anything is read; then tools answer, also while the API server is
// away; no page and no line has a secret; at the end everything is served while /readyz says no.
func TestServeKubernetes(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	release := api.HoldLists()
	api.Apply(kubeObjects)
	url, written, end := serveKube(t, api, "--shutdown-delay", "300ms")
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

// TestServeKubernetesProcess: what a file may say beside objects, and what it may not.
func TestServeKubernetesProcess(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	for _, tt := range []struct{ name, file, want string }{
		{"of objects", "name: x\nbackends: [{name: b, url: http://127.0.0.1:1/mcp}]\nlimits: {memory: 1MB, runs: 3}\n", ":1:7: error: name: is not of the process"},
		{"of a limit", "limits: {memory: 1MB, runs: 3}\n", "limits.memory: is not of the process"},
		{"a store for several", "sessionStorage: {provider: sqlite, path: " + filepath.Join(t.TempDir(), "runs.db") + "}\n", "runs are kept for one server: name it with --server"},
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
