package certs

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// Certificates of other files are used once the new configuration is applied.
func TestCertificatesOfAnotherName(t *testing.T) {
	dir := t.TempDir()
	cert, key := testkit.SelfSigned(t, dir, "one")
	f, err := NewServer(config.TLS{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before := f.current()
	if _, err := f.Follow(config.TLS{Cert: cert, Key: filepath.Join(dir, "nowhere")}); err == nil {
		t.Error("a key that is not there is taken")
	}
	cert, key = testkit.SelfSigned(t, dir, "two")
	serve, err := f.Follow(config.TLS{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if f.current() != before {
		t.Error("serves before the configuration is applied")
	}
	if serve(); f.current() == before {
		t.Error("the certificate of the configuration is not served")
	}
}

// TestPinned: with a server's certificate it can be dialled by any name.
func TestPinned(t *testing.T) {
	cert, key := testkit.SelfSigned(t, t.TempDir(), "server")
	for trust, want := range map[string]string{"Trusting": "", "Pinned": "server"} {
		f := map[string]func(string, string) (*tls.Config, error){"Trusting": Trusting, "Pinned": Pinned}[trust]
		if secure, err := f("--ca-file", cert); err != nil || secure.ServerName != want {
			t.Errorf("%s: %v", trust, err)
		}
		if _, err := f("--ca-file", key); err == nil || err.Error() != "--ca-file: "+key+": no certificates" {
			t.Errorf("%s a file without certificates: %v", trust, err)
		}
	}
}
