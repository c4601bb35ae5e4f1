package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

// issue writes a certificate for this machine, and its key; spiffe is a URI in it, or "".
func issue(t *testing.T, ca *testkit.Authority, dir, name, spiffe string) (cert, key string) {
	t.Helper()
	template := x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if spiffe != "" {
		u, err := url.Parse(spiffe)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	return testkit.WritePair(t, dir, name, ca.Issue(t, template))
}

// Client certificates name the caller; a request with an untrusted one, or none, is refused.
// A new certificate of the server is used without a restart.
func TestClientCertificates(t *testing.T) {
	testmode.Parallel(t)
	dir, ca, stranger := t.TempDir(), testkit.NewAuthority(t), testkit.NewAuthority(t)
	cert, key := issue(t, ca, dir, "server", "")
	clients := filepath.Join(dir, "clients.pem")
	ca.WriteCert(t, clients)
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
	roots.AddCert(ca.Cert)
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
	load := func(a *testkit.Authority, name, spiffe string) tls.Certificate {
		pair, err := tls.LoadX509KeyPair(issue(t, a, dir, name, spiffe))
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
	issue(t, ca, dir, "server", "")
	for deadline := time.Now().Add(time.Minute); ; {
		if _, now, err := ping(); err == nil && now.Cmp(first) != 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not served")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Errors of net/http go to the log, except those that any peer can cause.
func TestServerLog(t *testing.T) {
	var out strings.Builder
	to := serverLog(slog.New(slog.NewJSONHandler(&out, nil)))
	to.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	to.Print("http: Accept error: too many open files; retrying in 5ms")
	if got := out.String(); strings.Contains(got, "handshake") || !strings.Contains(got, `"level":"WARN","msg":"http: Accept error: too many open files; retrying in 5ms"}`) {
		t.Errorf("the log has %s", got)
	}
}

// A connection without any request delays the end of a server only for a moment: net/http alone would wait
// five seconds for it. One whose request arrived before is answered.
func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	err := silentEnd(t)
	for try := 1; err != nil && try < 3; try++ { // a machine may stand still for seconds
		err = silentEnd(t)
	}
	if err != nil {
		t.Error(err)
	}
}

// silentEnd ends a server with two connections, one of them silent; the error says that this takes as long as with net/http.
func silentEnd(t *testing.T) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended, taken := newServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler)), make(chan error, 1), make(chan struct{}, 2)
	server.ConnState = func(c net.Conn, state http.ConnState) {
		server.count(c, state)
		if state == http.StateNew {
			taken <- struct{}{}
		}
	}
	go serveOn(server, l, nil, ended)
	var conns []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-taken
		conns = append(conns, c)
	}
	fmt.Fprint(conns[1], "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = l.Close()
	<-ended
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := server.drain(ctx); err != nil {
		return fmt.Errorf("%d connections are left: %w", server.open.Load(), err)
	}
	if answer, err := io.ReadAll(conns[1]); !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") {
		t.Errorf("the request has %q, %v", answer, err)
	}
	return nil
}

// A refused request whose body does not arrive is answered, and its connection closed.
func TestUnreadBodiesEnd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	go server.Serve(l)
	defer server.Close()
	if text := testkit.BodyNeverComes(t, l.Addr().String()); !strings.HasPrefix(text, "HTTP/1.1 404 ") {
		t.Errorf("a request whose body does not come: %q", text)
	}
}

// slowConn is a connection whose peer takes nothing while it is held.
type slowConn struct {
	net.Conn
	held chan struct{}
}

func (c slowConn) Write(b []byte) (int, error) {
	<-c.held
	return c.Conn.Write(b)
}

// The time for the rest of a request's body does not run for a body that was read: a client that takes its response late,
// or a process that stands still, does not lose the next request on the connection.
func TestALateResponseKeepsItsConnection(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"known length": "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"chunked":      "POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, "read: ", errors.Join(err, r.Context().Err()))
			}), slog.New(slog.DiscardHandler))
			ours, theirs := net.Pipe()
			held := make(chan struct{})
			l := &oneConn{conn: slowConn{theirs, held}, closed: make(chan struct{})}
			go server.Serve(l)
			defer server.Close()
			answers := bufio.NewReader(ours)
			for i := range 2 {
				if _, err := io.WriteString(ours, body); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					time.Sleep(unreadTime + unreadTime/4) // the response is not taken
					close(held)
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				text, err := io.ReadAll(resp.Body)
				if err != nil || string(text) != "read: <nil>" {
					t.Errorf("request %d: %q, %v", i, text, err)
				}
			}
		})
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn       net.Conn
	begin, end sync.Once
	closed     chan struct{}
}

func (l *oneConn) Accept() (c net.Conn, err error) {
	l.begin.Do(func() { c = l.conn })
	if c == nil {
		<-l.closed
		err = net.ErrClosed
	}
	return c, err
}

func (l *oneConn) Close() error {
	l.end.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
