//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangupWhileStarting: a SIGHUP before serve watches its configuration does not end
// the process, which is the test's own here.
func TestHangupWhileStarting(t *testing.T) {
	if code := run([]string{"serve", "--config", "nowhere.yaml"}, strings.NewReader(""), io.Discard, io.Discard); code != exitFound {
		t.Fatalf("exit code %d, want %d", code, exitFound)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-earlyHangups:
	case <-time.After(time.Minute):
		t.Error("the hangup was not taken")
	}
}

// TestInterruptedStart: an interrupt while the server starts, here since its database does not respond, is reported, and
// the exit code is no failure for a service manager.
func TestInterruptedStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	key := os.WriteFile(filepath.Join(dir, "key"), []byte(strings.Repeat("k", 42)+"A="), 0o600)
	if err := errors.Join(key, os.WriteFile(filepath.Join(dir, "vmcp.yaml"), fmt.Appendf(nil, "listen: 127.0.0.1:0\nsessionStorage:\n  provider: postgres\n  url: postgres://vmcp@%s/vmcp\n  keys: [{id: a, file: key}]\n", l.Addr()), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	var out, errs strings.Builder
	if code := runContext(ctx, []string{"serve", "--config", filepath.Join(dir, "vmcp.yaml"), "--discovery-file", "none"}, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
	if got, want := out.String()+errs.String(), "vmcp: stopped before anything was served\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestTakenPorts: the hint names the setting for the port that is taken.
func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const other = "listen: 127.0.0.1:0\nbackends: []\n"
	for _, tt := range []struct {
		name, file, want string
		args             []string
	}{
		{"listen", "listen: " + l.Addr().String() + "\nbackends: []\n", "choose another one with --listen", nil},
		{"admin.listen", other + "admin: {listen: \"" + l.Addr().String() + "\"}\n", "choose another address in admin.listen", nil},
		{"--pprof", other, "choose another address with --pprof", []string{"--pprof", l.Addr().String()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "vmcp.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var errs strings.Builder
			code := runContext(t.Context(), append([]string{"serve", "--config", file, "--discovery-file", "none"}, tt.args...), strings.NewReader(""), io.Discard, &errs)
			if got := errs.String(); code != exitFound || !strings.Contains(got, "another program uses this port") || !strings.Contains(got, "hint: "+tt.want) {
				t.Errorf("exit code %d, it says %q, want the hint %q", code, got, tt.want)
			}
		})
	}
}
