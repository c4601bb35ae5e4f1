//go:build unix

package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// Pipes, folders and the like in place of a certificate block no client, and the
// previous certificate stays in use.
func TestOddCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := testkit.SelfSigned(t, dir, "server")
	for name, put := range map[string]func() error{
		"pipe":   func() error { return syscall.Mkfifo(key, 0o600) },
		"device": func() error { return os.Symlink("/dev/zero", key) },
		"huge":   func() error { return errors.Join(os.WriteFile(key, nil, 0o600), os.Truncate(key, 1<<40)) },
		"folder": func() error { return os.Mkdir(key, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.SelfSigned(t, dir, "server")
			var log bytes.Buffer
			f, err := NewServer(config.TLS{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			before := f.current()
			if err := errors.Join(os.Remove(key), put()); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(key)
			f.looked = time.Time{}
			now := make(chan *tls.Config, 1)
			go func() { now <- f.current() }()
			select {
			case got := <-now:
				if got != before || !strings.Contains(log.String(), "certificate not read, the previous one stays in use") {
					t.Errorf("serves another certificate: %t; the log: %s", got != before, &log)
				}
			case <-time.After(time.Minute):
				t.Fatal("a client waits for the file")
			}
		})
	}
}
