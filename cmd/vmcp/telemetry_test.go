//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve/otlptest"
	"github.com/vmcp-dev/vmcp/config/kube/cluster/clustertest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// After the server has ended, the collector has the trace of a call and the metrics. No output contains the collector's
// key, also when the collector repeats it.
func TestServeSendsTelemetry(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	const key = "canary-Zk93hQ71xT"
	refusing := otlptest.Collector{Answer: func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not with "+r.Header.Get("X-Key"), http.StatusUnauthorized)
	}}
	var c otlptest.Collector
	first, second := refusing.Start(t), c.Start(t)
	r := newReader(t)
	r.write("vmcp.env", "COLLECTOR_KEY="+key+"\n")
	file := func(at string) {
		r.write(defaultFile, fmt.Sprintf("name: tools\nbackends: [{name: files, command: workspace}]\ntelemetry: {endpoint: %q, tracingEnabled: true, metricsEnabled: true, samplingRate: \"1\", headers: {X-Key: \"${COLLECTOR_KEY}\"}}\n", at))
	}
	file(first)
	r.startServe(t)
	call := func() {
		if said, err := r.shell(t.Context(), "vmcp call list_files --url http://127.0.0.1:"+r.port+"/mcp").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	call()
	r.wait("the log says that the collector refuses", func() bool { return strings.Contains(r.logged(), "telemetry is not sent") })
	file(second) // another collector is used at once
	call()
	shown := r.logged()
	for _, command := range []string{"vmcp status", "vmcp status -o json", "vmcp logs", "vmcp describe list_files", "vmcp doctor --offline -o json", "vmcp validate", "curl -s http://127.0.0.1:" + r.port + "/readyz"} {
		said, _ := r.shell(t.Context(), command).CombinedOutput() // it may find problems: only the output matters
		if len(said) == 0 && command != "vmcp validate" && command != "vmcp logs" {
			t.Errorf("%s says nothing", command)
		}
		shown += string(said)
	}
	r.stop()
	if strings.Contains(shown+r.logged(), key) {
		t.Errorf("the key of the collector is shown:\n%s", shown)
	}
	if !slices.Contains(c.Names(), "tools/call") || !slices.Contains(c.Names(), "backend files") || c.Header("/v1/traces", "X-Key") != key {
		t.Errorf("spans %q; the log: %s", c.Names(), r.logged())
	}
	counted := 0.0
	for _, p := range c.Metric("vmcp_tool_calls_total").GetSum().GetDataPoints() {
		if a := otlptest.Attributes(p.Attributes); a["tool"] == "list_files" && a["outcome"] == "ok" {
			counted = p.GetAsDouble()
		}
	}
	if counted != 2 || c.Resource("/v1/metrics")["service.name"] != "tools" {
		t.Errorf("%v calls are counted, want 2, of %v", counted, c.Resource("/v1/metrics"))
	}
}

// A collector that hangs delays only the end of the process, for a bounded time.
func TestServeEndsBesideAHangingCollector(t *testing.T) {
	t.Parallel()
	c := otlptest.Collector{Answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	dir := t.TempDir()
	text := fmt.Sprintf("listen: 127.0.0.1:0\nbackends: []\ntelemetry: {endpoint: %q, metricsEnabled: true}\n", c.Start(t))
	if err := os.WriteFile(filepath.Join(dir, defaultFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("vmcp", "serve", "--log-format", "json")
	var said lockedText
	cmd.Dir, cmd.Stderr = dir, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test failed
	r := &reader{T: t}
	r.wait("it serves", func() bool { return strings.Contains(said.String(), "serving http") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || c.Requests() == 0 || strings.Count(said.String(), "telemetry is not sent") != 1 {
		t.Errorf("%v after %d requests: %s", err, c.Requests(), said.String())
	}
}

// With --kubernetes the process sends what the file's telemetry says, for all servers.
func TestKubernetesSendsTelemetry(t *testing.T) {
	t.Parallel()
	var c otlptest.Collector
	process := filepath.Join(t.TempDir(), "process.yaml")
	text := fmt.Sprintf("telemetry: {endpoint: %q, tracingEnabled: true, metricsEnabled: true, samplingRate: \"1\", enablePrometheusMetricsPath: false}\n", c.Start(t))
	if err := os.WriteFile(process, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api := clustertest.New(t)
	api.Apply(kubeObjects)
	url, written, end := serveKube(t, api, "--insecure-listen", "--config", process)
	become(t, url+"/readyz", 200, written)
	if status, said := callHello(url + "/ops/mcp"); status != 200 {
		t.Fatalf("%d %s", status, said)
	}
	become(t, url+"/metrics", 404, written)
	if code := end(); code != exitDone {
		t.Errorf("exit code %d: %s", code, written)
	}
	calls := c.Metric("vmcp_tool_calls_total").GetSum().GetDataPoints()
	of := map[string]bool{}
	for _, p := range calls {
		of[otlptest.Attributes(p.Attributes)["server"]] = true
	}
	if !of["ops"] || len(of) != 1 || c.Metric("vmcp_kube_objects") == nil || !slices.Contains(c.Names(), "run hello") || c.Resource("/v1/traces")["service.name"] != "vmcp" {
		t.Errorf("servers %v, spans %q, of %v\n%s", of, c.Names(), c.Resource("/v1/traces"), written)
	}
}
