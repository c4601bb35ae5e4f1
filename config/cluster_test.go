package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestClusterAddressesAreNoSecrets: variables in the addresses of replicas are expanded and not hidden in /readyz and the log.
func TestClusterAddressesAreNoSecrets(t *testing.T) {
	t.Setenv("POD_IP", "10.11.12.13")
	t.Setenv("VMCP_KEY", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=")
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	text := "sessionStorage: {provider: postgres, url: \"postgres://vmcp@db/vmcp\", keys: [{id: a, env: VMCP_KEY}]}\ncluster: {listen: \"${POD_IP}:4485\"}\nadmin: {listen: \"${POD_IP}:9090\"}\nlisten: \"${POD_IP}:${PORT:-4483}\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Cluster.Advertise; got != "10.11.12.13:4485" {
		t.Errorf("advertise is %q", got)
	}
	if got := cfg.Admin.Listen; got != "10.11.12.13:9090" {
		t.Errorf("admin.listen is %q", got)
	}
	if cfg.Listen != "10.11.12.13:4483" {
		t.Errorf("listen is %q", cfg.Listen)
	}
	if slices.Contains(cfg.Secrets(), "10.11.12.13") {
		t.Error("the address is hidden as a secret")
	}
}
