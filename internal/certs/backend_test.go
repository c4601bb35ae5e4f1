package certs

import (
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

// TestAFileIsReadAgainAndABrokenOneIsNot: a new version of a CA is used within a second; while it
// is broken, the version before stays in use.
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
		c := &backend{cfg: config.BackendTLS{CA: file}, log: slog.New(slog.DiscardHandler)}
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
	if c := ForBackend(config.BackendTLS{}, "host", nil); c != nil {
		t.Errorf("ForBackend = %v, want nil", c)
	}
	if c := ForBackend(config.BackendTLS{ServerName: "other"}, "host", nil); c.ServerName != "other" || c.InsecureSkipVerify {
		t.Errorf("ForBackend = %v, want the name other, verified by crypto/tls", c)
	}
}
