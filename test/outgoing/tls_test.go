package outgoing_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// named is a certificate for a name.
func named(t *testing.T, by *testkit.Authority, name string) tls.Certificate {
	return by.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}})
}

// Connections to a backend trust the configured authority and present a client certificate; changed files
// are used for new connections, broken ones for none.
func TestTLSToBackends(t *testing.T) {
	testmode.Parallel(t)
	dir, theirs, ours, stranger := t.TempDir(), testkit.NewAuthority(t), testkit.NewAuthority(t), testkit.NewAuthority(t)
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	show := func(by *testkit.Authority) {
		testkit.WritePair(t, dir, "tls", named(t, by, "vmcp"))
	}
	show(ours)
	g := newGuarded(t, false, nil)
	secure := httptest.NewUnstartedServer(g)
	var conf atomic.Pointer[tls.Config]
	serveAs := func(server, clients *testkit.Authority) {
		pool := x509.NewCertPool()
		pool.AddCert(clients.Cert)
		conf.Store(&tls.Config{Certificates: []tls.Certificate{named(t, server, "crm.internal")}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	}
	serveAs(theirs, ours)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return conf.Load(), nil }}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	url := "https://" + secure.Listener.Addr().String()

	for _, tt := range []struct {
		name, server string
		trusts       *testkit.Authority
		err          string
	}{
		{"the right name and authority", "crm.internal", theirs, ""},
		{"another authority", "crm.internal", stranger, "certificate signed by unknown authority"},
		{"another name", "other.internal", theirs, "certificate is valid for crm.internal, not other.internal"},
		{"the name of the URL", "", theirs, "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.trusts.WriteCert(t, ca)
			v := serve(t, with(config.Backend{URL: url, TLS: config.BackendTLS{CA: ca, Cert: cert, Key: key, ServerName: tt.server}}, config.OutgoingStrategy{}))
			b := v.Status().Backends[0]
			if up := b.State == "ready"; up != (tt.err == "") || !strings.Contains(b.Error, tt.err) {
				t.Errorf("%+v, want %q", b, tt.err)
			}
		})
	}

	// The backend's certificate is renewed by another authority, and so is the client certificate.
	theirs.WriteCert(t, ca)
	v := serve(t, with(config.Backend{URL: url, TLS: config.BackendTLS{CA: ca, Cert: cert, Key: key, ServerName: "crm.internal"}}, config.OutgoingStrategy{}))
	c := v.client(t, legacy, "")
	mustBe(t, c, "")
	serveAs(stranger, stranger)
	show(stranger)
	if err := os.WriteFile(ca, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	secure.CloseClientConnections()
	stranger.WriteCert(t, ca)
	testkit.Eventually(t, "the new authority", func() bool { _, err := who(t, v.client(t, legacy, "")); return err == nil })
}
