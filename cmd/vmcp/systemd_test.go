//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSystemd: a real process notifies a service manager's socket, and a backend's process does not inherit the variable.
func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	addr := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	c, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vmcp.yaml", "listen: 127.0.0.1:0\nbackends:\n  - {name: b, command: sh, args: [\"-c\", \"env >"+dir+"/env; cat\"]}\n")
	program, err := exec.LookPath("vmcp")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+addr.Name, "WATCHDOG_USEC=200000", "LISTEN_FDS=0", "LISTEN_PID=1", "LISTEN_FDNAMES=x")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test failed
	until := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if regexp.MustCompile("^(?s:" + want + ")").Match(buf[:n]) {
				return
			}
		}
	}
	until(`READY=1\nSTATUS=\d of 1 backends ready, \d+ tools, configuration 1`)
	until(`WATCHDOG=1$`)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(`RELOADING=1\nMONOTONIC_USEC=\d+$`)
	until(`READY=1\nSTATUS=.*configuration 2`)
	write("vmcp.yaml", "listn: 1\n")
	until(`RELOADING=1\n`)
	until(`READY=1\nSTATUS=.*configuration 2`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(`STOPPING=1\n`)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_"} {
		if strings.Contains(string(env), name) {
			t.Errorf("the backend's program has %s in its environment", name)
		}
	}
}
