package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

const fingerprinted = `
name: shop
backends:
  - name: shop
    command: shop
    env: {TOKEN: "${FINGERPRINT_TOKEN}", LEVEL: debug}
scripts: [tools]
`

// fingerprintOf is the fingerprint of a configuration in a new folder with a script.
func fingerprintOf(t *testing.T, vmcp, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tools", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vmcp.yaml": vmcp, "tools/a.star": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "vmcp.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return proxy.Fingerprint(cfg)
}

// TestFingerprint: comments, the order of keys, the folder and the values of variables do not change the hash; the content of the
// file and its scripts does.
func TestFingerprint(t *testing.T) {
	const script = "def run(): return 1\n"
	t.Setenv("FINGERPRINT_TOKEN", "one-value")
	first := fingerprintOf(t, fingerprinted, script)
	if len(first) != len("sha256:")+64 || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("hash = %s", first)
	}
	if got := fingerprintOf(t, "# of a person\n"+strings.Replace(fingerprinted, `{TOKEN: "${FINGERPRINT_TOKEN}", LEVEL: debug}`, `{LEVEL: debug, TOKEN: "${FINGERPRINT_TOKEN}"} # both`, 1), script); got != first {
		t.Error("a comment and the order of keys change the hash")
	}
	t.Setenv("FINGERPRINT_TOKEN", "another-value")
	if got := fingerprintOf(t, fingerprinted, script); got != first {
		t.Error("the value of a variable changes the hash")
	}
	for _, change := range [][2]string{{"LEVEL: debug", "LEVEL: info"}, {"${FINGERPRINT_TOKEN}", "${FINGERPRINT_TOKEN:-none}"}, {"name: shop\nbackends", "name: shops\nbackends"}} {
		if got := fingerprintOf(t, strings.Replace(fingerprinted, change[0], change[1], 1), script); got == first {
			t.Errorf("%s for %s does not change the hash", change[1], change[0])
		}
	}
	if got := fingerprintOf(t, fingerprinted, "def run(): return 2\n"); got == first {
		t.Error("a script does not change the hash")
	}
}

// TestFingerprintOfGo: a configuration that was made in Go has a hash without its secrets.
func TestFingerprintOfGo(t *testing.T) {
	of := func(token, url string) string {
		cfg := &config.Config{Backends: []config.Backend{{Name: "a", URL: url, Headers: map[string]string{"Authorization": token}}}}
		cfg.Complete()
		return proxy.Fingerprint(cfg)
	}
	if of("Bearer first-token", "http://a.example") != of("Bearer second-token", "http://a.example") {
		t.Error("the value of a header changes the hash")
	}
	if of("Bearer first-token", "http://a.example") == of("Bearer first-token", "http://b.example") {
		t.Error("a URL does not change the hash")
	}
	replica := func(at string) string {
		cfg := &config.Config{}
		cfg.Listen, cfg.Admin.Listen, cfg.Cluster.Listen, cfg.Cluster.Advertise = at, at, at, at
		cfg.Complete()
		return proxy.Fingerprint(cfg)
	}
	if replica("10.0.0.7:4485") != replica("10.0.0.8:4485") {
		t.Error("where a replica is reached changes the hash")
	}
}
