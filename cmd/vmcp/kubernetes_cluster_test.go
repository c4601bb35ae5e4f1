package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config/kube/cluster/clustertest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestServeKubernetesAsReplicas: processes that serve the server of --server are replicas of each other; they stay so when its
// object is deleted and made again.
func TestServeKubernetesAsReplicas(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	api, pg, dir := clustertest.New(t), runstest.Start(t), t.TempDir()
	api.Apply(kubeObjects)
	process := func(name string) string {
		port, err := rig.Port()
		file := filepath.Join(dir, name)
		text := fmt.Sprintf("sessionStorage: {provider: postgres, url: %q, keys: [{id: a, file: key}]}\ncluster: {listen: \"127.0.0.1:%d\"}\n", pg.URL(), port)
		key := base64.StdEncoding.EncodeToString(make([]byte, 32))
		if err := errors.Join(err, os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var urls []string
	var logs []*lockedText
	for _, name := range []string{"a.yaml", "b.yaml"} {
		url, written, _ := serveKube(t, api, "--config", process(name), "--server", "ops")
		become(t, url+"/readyz", http.StatusOK, written)
		urls, logs = append(urls, url), append(logs, written)
	}
	both := func() {
		t.Helper()
		for i, url := range urls {
			if err := rig.Poll(t.Context(), "two replicas at "+url, func() (bool, error) {
				_, text := page(url + "/readyz")
				return strings.Contains(text, `"replicas": 2`), nil
			}); err != nil {
				t.Fatalf("%v\n%s", err, logs[i])
			}
			if status, text := callHello(url + "/ops/mcp"); status != http.StatusOK {
				t.Errorf("a call at %s: %d %s", url, status, text)
			}
		}
	}
	both()
	api.Delete("VirtualMCPServer", "ops")
	for i, url := range urls {
		become(t, url+"/ops/mcp", http.StatusNotFound, logs[i])
	}
	api.Apply(kubeObjects)
	for i, url := range urls {
		become(t, url+"/ops/mcp", http.StatusBadRequest, logs[i]) // it is served: a GET needs a session
	}
	both()
	// Another server over the same schema is refused: it would have the sessions and runs of the first.
	api.Apply(strings.ReplaceAll(kubeObjects, "name: ops", "name: other"))
	url, other, _ := serveKube(t, api, "--config", process("d.yaml"), "--server", "other")
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := rig.Poll(soon, "the refusal in the log", func() (bool, error) {
		return strings.Contains(other.String(), "has the runs of the server team/ops since "), nil
	}); err != nil {
		t.Fatalf("%v\n%s", err, other)
	}
	if status, text := callHello(url + "/other/mcp"); status != http.StatusServiceUnavailable {
		t.Errorf("a call of the other server: %d %s", status, text)
	}
	_, written, end := serveKube(t, api, "--config", process("c.yaml"))
	if code := end(); code == 0 || !strings.Contains(written.String(), "sessionStorage and cluster: stored runs belong to one server: set --server") {
		t.Errorf("a cluster of several servers: exit %d, %s", code, written)
	}
}
