package outgoing_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a certificate for name.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Connections to a backend trust the configured authority and show a certificate; new files
// hold for new connections, broken ones for none.
func TestTLSToBackends(t *testing.T) {
	testmode.Parallel(t)
	dir, theirs, ours, stranger := t.TempDir(), newAuthority(t), newAuthority(t), newAuthority(t)
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	show := func(by *authority) {
		c := by.issue(t, "vmcp")
		private, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, cert, "CERTIFICATE", c.Certificate[0])
		writePEM(t, key, "EC PRIVATE KEY", private)
	}
	show(ours)
	g := newGuarded(t, false, nil)
	secure := httptest.NewUnstartedServer(g)
	var conf atomic.Pointer[tls.Config]
	serveAs := func(server, clients *authority) {
		pool := x509.NewCertPool()
		pool.AddCert(clients.cert)
		conf.Store(&tls.Config{Certificates: []tls.Certificate{server.issue(t, "crm.internal")}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	}
	serveAs(theirs, ours)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return conf.Load(), nil }}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	url := "https://" + secure.Listener.Addr().String()

	for _, tt := range []struct {
		name, server string
		trusts       *authority
		err          string
	}{
		{"the right name and authority", "crm.internal", theirs, ""},
		{"another authority", "crm.internal", stranger, "certificate signed by unknown authority"},
		{"another name", "other.internal", theirs, "certificate is valid for crm.internal, not other.internal"},
		{"the name of the URL", "", theirs, "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writePEM(t, ca, "CERTIFICATE", tt.trusts.cert.Raw)
			v := serve(t, with(config.Backend{URL: url, TLS: config.BackendTLS{CA: ca, Cert: cert, Key: key, ServerName: tt.server}}, config.OutgoingStrategy{}))
			b := v.Status().Backends[0]
			if up := b.State == "ready"; up != (tt.err == "") || !strings.Contains(b.Error, tt.err) {
				t.Errorf("%+v, want %q", b, tt.err)
			}
		})
	}

	// The backend's certificate is renewed by another authority, and so is ours.
	writePEM(t, ca, "CERTIFICATE", theirs.cert.Raw)
	v := serve(t, with(config.Backend{URL: url, TLS: config.BackendTLS{CA: ca, Cert: cert, Key: key, ServerName: "crm.internal"}}, config.OutgoingStrategy{}))
	c := v.client(t, legacy, "")
	mustBe(t, c, "")
	serveAs(stranger, stranger)
	show(stranger)
	if err := os.WriteFile(ca, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	secure.CloseClientConnections()
	writePEM(t, ca, "CERTIFICATE", stranger.cert.Raw)
	eventually(t, "the new authority", func() bool { _, err := who(t, v.client(t, legacy, "")); return err == nil })
}
