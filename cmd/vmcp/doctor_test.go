package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// TestDoctorTellsURLsApart: each thing that can be wrong with a URL has its own message and hint.
func TestDoctorTellsURLsApart(t *testing.T) {
	t.Parallel()
	dir, ca := t.TempDir(), testkit.NewAuthority(t)
	ca.WriteCert(t, filepath.Join(dir, "ca.pem"))
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	secure := func(c x509.Certificate) string {
		h := httptest.NewUnstartedServer(http.NotFoundHandler())
		h.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, c)}}
		h.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.StartTLS()
		t.Cleanup(h.Close)
		return h.URL
	}
	answering := func(status int) string {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(h.Close)
		return h.URL
	}
	closed := answering(http.StatusOK)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	good := secure(x509.Certificate{IPAddresses: here})
	type check struct{ Name, Status, Message, Hint string }
	trust := ", tls: {ca: ca.pem}"
	for _, tt := range []struct {
		name, url, more string
		want            check // Message is a substring
	}{
		{"expired", secure(x509.Certificate{IPAddresses: here, NotAfter: time.Now().Add(-time.Hour)}), trust, check{"url", "fail", ": TLS: x509: certificate has expired or is not yet valid: ", "have its certificate renewed; or is the clock of this machine wrong?"}},
		{"host", secure(x509.Certificate{DNSNames: []string{"elsewhere.example"}}), trust, check{"url", "fail", ": TLS: x509: cannot validate certificate for 127.0.0.1", "write the name that its certificate is for into the url, or into tls.serverName of the backend"}},
		{"unknown", good, "", check{"url", "fail", ": TLS: x509: certificate signed by unknown authority", "name who signed its certificate in tls.ca of the backend"}},
		{"plain", strings.Replace(closed, "http:", "https:", 1), "", check{"url", "fail", ": TLS: ", "is it http:// instead of https://?"}},
		{"signed in", answering(http.StatusUnauthorized), "", check{"url", "fail", " requires authentication: 401 Unauthorized", "configure a credential: headers, or outgoingAuth"}},
		{"unreachable", gone.URL, "", check{"url", "fail", ": TCP: connection refused", "is the server started, and is the port right?"}},
		{"path", good, trust, check{"url", "warn", " answers: 404 Not Found", "check the path: it is /mcp at many servers"}},
		{"trouble", answering(http.StatusBadGateway), "", check{"url", "warn", " answers: 502 Bad Gateway", "this is an error of the server"}},
		{"well", closed, "", check{"url", "ok", " answers: 200 OK", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-")+".yaml")
			text := fmt.Sprintf("listen: 127.0.0.1:1\nbackends: [{name: b, url: %q%s}]\n", tt.url+"/mcp?token=canary-4711", tt.more)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, said bytes.Buffer
			code := run([]string{"doctor", "--config", file, "-o", "json"}, strings.NewReader(""), &out, &said)
			if want := map[bool]int{true: 1}[tt.want.Status == "fail"]; code != want || said.Len() > 0 {
				t.Errorf("exit code %d, want %d: %s", code, want, &said)
			}
			if strings.Contains(out.String(), "canary") {
				t.Errorf("a secret is shown:\n%s", &out)
			}
			var got struct{ Checks []check }
			d := json.NewDecoder(&out)
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil {
				t.Fatal(err)
			}
			checked := false
			for _, c := range got.Checks {
				if c.Name != "url" {
					if c.Status == "fail" {
						t.Errorf("another check fails: %v", c)
					}
					continue
				}
				checked = true
				if !strings.HasPrefix(c.Message, "backend b: 127.0.0.1:") || !strings.Contains(c.Message, tt.want.Message) {
					t.Errorf("the message is %q, want one with %q", c.Message, tt.want.Message)
				}
				c.Message = tt.want.Message
				if d := cmp.Diff(tt.want, c); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
			if !checked {
				t.Errorf("there is no check of the URL: %v", got.Checks)
			}
		})
	}
}
