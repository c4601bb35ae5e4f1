package serve_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
)

// TestPublicAuthoritiesAreTrusted: if the system has none, and only then.
func TestPublicAuthoritiesAreTrusted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have their own")
	}
	if os.Getenv("TEST_OF_ROOTS") == "" {
		own := t.TempDir()
		if err := os.WriteFile(own+"/own.pem", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for folder, want := range map[string]string{t.TempDir(): "trusted", own: "not trusted"} {
			c := exec.Command(os.Args[0], "-test.run=^TestPublicAuthoritiesAreTrusted$", "-test.v")
			c.Env = append(os.Environ(), "TEST_OF_ROOTS="+want, "SSL_CERT_FILE=/nowhere", "SSL_CERT_DIR="+folder)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("want them %s: %v\n%s", want, err, out)
			}
		}
		return
	}
	serve.FallBack()
	for root := range bundle.Roots() {
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		got := "trusted"
		if _, err := c.Verify(x509.VerifyOptions{CurrentTime: c.NotBefore.AddDate(1, 0, 0)}); err != nil {
			got = "not trusted"
		}
		if want := os.Getenv("TEST_OF_ROOTS"); got != want {
			t.Fatalf("%s is %s, want %s", c.Subject, got, want)
		}
		return
	}
}
