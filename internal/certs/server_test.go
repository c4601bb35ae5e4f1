package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

// issue writes a certificate that is signed by itself, and its key, as files.
func issue(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// Files of another name are served with the configuration that names them.
func TestCertificatesOfAnotherName(t *testing.T) {
	dir := t.TempDir()
	cert, key := issue(t, dir, "one")
	f, err := NewServer(config.TLS{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before := f.current()
	if _, err := f.Follow(config.TLS{Cert: cert, Key: filepath.Join(dir, "nowhere")}); err == nil {
		t.Error("a key that is not there is taken")
	}
	cert, key = issue(t, dir, "two")
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

// TestPinned: who has a server's own certificate reaches it by whatever name.
func TestPinned(t *testing.T) {
	cert, key := issue(t, t.TempDir(), "server")
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
