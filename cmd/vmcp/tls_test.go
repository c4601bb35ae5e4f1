package main

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
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/certs"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
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
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue writes a certificate and its key as PEM files.
func (a *authority) issue(t *testing.T, dir, name string, spiffe string) (cert, key string) {
	t.Helper()
	k := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if spiffe != "" {
		u, err := url.Parse(spiffe)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "EC PRIVATE KEY", private)
	return cert, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Client certificates say who asks; one that nobody vouches for, or none, does not come in.
// A new certificate of the server is served without a restart.
func TestClientCertificates(t *testing.T) {
	testmode.Parallel(t)
	dir, ca, stranger := t.TempDir(), newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, dir, "server", "")
	clients := filepath.Join(dir, "clients.pem")
	writePEM(t, clients, "CERTIFICATE", ca.cert.Raw)
	cfg := &config.Config{TLS: config.TLS{Cert: cert, Key: key, ClientCA: clients}, IncomingAuth: config.IncomingAuth{Type: "mtls"}}

	p := proxy.New(proxy.Options{})
	defer p.Close()
	if err := p.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	secure, err := certs.NewServer(cfg.TLS, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := &http.Server{Handler: p.Handler()}, make(chan error, 1)
	go serveOn(server, l, secure.Config(), ended)
	defer func() { server.Close(); <-ended }()

	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	ping := func(own ...tls.Certificate) (status int, serial *big.Int, err error) {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}, DisableKeepAlives: true}}
		const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		resp, err := c.Post("https://"+l.Addr().String()+"/mcp", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber, nil
	}
	load := func(a *authority, name, spiffe string) tls.Certificate {
		pair, err := tls.LoadX509KeyPair(a.issue(t, dir, name, spiffe))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	status, first, err := ping(load(ca, "agent", "spiffe://example.com/agent"))
	if status != 200 {
		t.Errorf("a SPIFFE ID: %d %v", status, err)
	}
	if status, _, err := ping(load(ca, "plain", "")); status != 401 {
		t.Errorf("a certificate without a SPIFFE ID: %d %v, want 401", status, err)
	}
	if status, _, err := ping(); status != 401 {
		t.Errorf("no certificate: %d %v, want 401", status, err)
	}
	if _, _, err := ping(load(stranger, "stranger", "spiffe://example.com/agent")); err == nil {
		t.Error("a certificate that nobody vouches for comes in")
	}
	ca.issue(t, dir, "server", "")
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, now, err := ping(); err == nil && now.Cmp(first) != 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not served")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// What net/http says goes the way of the log, and what any peer can cause is not in it.
func TestServerLog(t *testing.T) {
	var out strings.Builder
	to := serverLog(slog.New(slog.NewJSONHandler(&out, nil)))
	to.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	to.Print("http: Accept error: too many open files; retrying in 5ms")
	if got := out.String(); strings.Contains(got, "handshake") || !strings.Contains(got, `"level":"WARN","msg":"http: Accept error: too many open files; retrying in 5ms"}`) {
		t.Errorf("the log has %s", got)
	}
}
