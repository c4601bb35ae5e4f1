//go:build suites

package cluster

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestExample: vmcp validate reports no problem in the configuration of examples/replicas, when the key exists.
func TestExample(t *testing.T) {
	t.Parallel()
	bin, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../examples/replicas/vmcp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"2026-11":   []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))),
		"vmcp.yaml": bytes.ReplaceAll(text, []byte("/etc/vmcp/keys"), []byte(dir)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, "validate", filepath.Join(dir, "vmcp.yaml"))
	cmd.Env = append(os.Environ(), "POD_IP=10.0.0.7", "VMCP_DATABASE_URL=postgres://vmcp:secret-of-it@postgres/vmcp")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("vmcp validate: %v\n%s", err, out)
	}
}

// TestExampleBalancer: HAProxy accepts the configuration of examples/replicas and starts while the names of replicas cannot be
// resolved: a stopped replica must not prevent its start.
func TestExampleBalancer(t *testing.T) {
	t.Parallel()
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed")
	}
	if out, err := exec.Command(haproxy, "-c", "-f", "../../examples/replicas/haproxy.cfg").CombinedOutput(); err != nil {
		t.Errorf("haproxy -c: %v\n%s", err, out)
	}
}
