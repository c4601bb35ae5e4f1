package certs

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// TestAFileIsReadAgainAndABrokenOneIsNot: a new version of a CA is used within a second; while it is
// invalid, the previous version stays in use.
func TestAFileIsReadAgainAndABrokenOneIsNot(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write([]byte("no certificate"))
		c := &Backend{cfg: config.BackendTLS{CA: file}, log: slog.New(slog.DiscardHandler)}
		if _, _, err := c.current(); err == nil || !strings.Contains(err.Error(), file+": no certificates") {
			t.Errorf("a file without a certificate: %v", err)
		}
		for _, data := range [][]byte{ca, []byte("broken"), append(ca, '\n')} {
			write(data)
			time.Sleep(lookEvery)
			if roots, _, err := c.current(); roots == nil || err != nil {
				t.Errorf("the file has %d bytes: %v, %v", len(data), roots, err)
			}
		}
	})
}

func TestNothingConfiguredIsTheDefault(t *testing.T) {
	if c := ForBackend(config.BackendTLS{}, "host", nil).Config(); c != nil {
		t.Errorf("ForBackend = %v, want nil", c)
	}
	if c := ForBackend(config.BackendTLS{ServerName: "other"}, "host", nil).Config(); c.ServerName != "other" || c.InsecureSkipVerify {
		t.Errorf("ForBackend = %v, want the name other, verified by crypto/tls", c)
	}
}

// TestTextIsTrustedInstead: certificates in a configured text are replaced at once; with a text
// without certificates every server is refused.
func TestTextIsTrustedInstead(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	file, _ := testkit.SelfSigned(t, dir, "other")
	other, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := ForBackend(config.BackendTLS{CAText: good}, "example.com", slog.New(slog.DiscardHandler))
	for _, tt := range []struct{ text, want string }{
		{good, ""}, {string(other), "unknown authority"}, {"nothing", "no certificates in the configured text"}, {good, ""},
	} {
		if c.Trust(tt.text); !c.Trusts(tt.text) {
			t.Errorf("Trusts(%.20q) = false after Trust", tt.text)
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), c.Config())
		if err == nil {
			conn.Close()
		}
		if got := fmt.Sprint(err); err == nil != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("dial with %.20q: %s, want %q", tt.text, got, tt.want)
		}
	}
	if c = nil; !c.Trusts("") || c.Trusts(good) {
		t.Error("where nothing is configured, a text is trusted")
	}
}
