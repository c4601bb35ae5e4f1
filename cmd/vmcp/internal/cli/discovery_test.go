package cli_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// TestAnnounce: a server's file is found while it runs and removed when it ends; a file that
// another server has written since is kept, and one that is no discovery file is not overwritten.
func TestAnnounce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "sub", "server.json")
	here := cli.File{URL: "http://" + l.Addr().String() + "/mcp", PID: os.Getpid()}
	first, err := cli.Announce(file, here, log)
	if err != nil {
		t.Fatal(err)
	}
	if found, ok := cli.FindServer(file); !ok || found.URL != here.URL {
		t.Errorf("Find = %+v, %v", found, ok)
	}
	here.TokenFile = "token"
	second, err := cli.Announce(file, here, log)
	if err != nil {
		t.Fatal(err)
	}
	first()
	if found, ok := cli.FindServer(file); !ok || found.TokenFile != "token" {
		t.Errorf("after the end of the first server: %+v, %v", found, ok)
	}
	second()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
	if err := os.WriteFile(file, []byte(`{"mine":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Announce(file, here, log); err == nil || !strings.Contains(err.Error(), "not a discovery file: want url and pid; it is not overwritten") {
		t.Errorf("another file: %v", err)
	}
}

// TestAnnounceToUser: the user's file belongs to the first server as long as that runs, and never prevents
// another from serving.
func TestAnnounceToUser(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := slog.New(slog.DiscardHandler)
	first := cli.File{URL: "http://" + l.Addr().String() + "/mcp", PID: os.Getppid()}
	other := cli.File{URL: "http://127.0.0.1:1/mcp", PID: os.Getpid()}
	found := func() string {
		data, err := os.ReadFile(cli.UserFile())
		if err != nil {
			return "none"
		}
		return string(data)
	}
	forgetFirst := cli.AnnounceToUser(first, log)
	cli.AnnounceToUser(other, log)()
	if have := found(); !strings.Contains(have, first.URL) {
		t.Errorf("another server came, and the file says %s", have)
	}
	forgetFirst()
	if have := found(); have != "none" {
		t.Errorf("after the end of the server the file says %s", have)
	}
	cli.AnnounceToUser(first, log)
	l.Close() // the process was killed, and another one has its id
	forget := cli.AnnounceToUser(other, log)
	if have := found(); !strings.Contains(have, other.URL) {
		t.Errorf("after the server that was killed the file says %s", have)
	}
	forget()
	if err := os.WriteFile(cli.UserFile(), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli.AnnounceToUser(first, log)()
	if have := found(); have != "mine" {
		t.Errorf("the user's own file says %s", have)
	}
	t.Setenv("HOME", cli.UserFile()) // not a folder
	t.Setenv("USERPROFILE", cli.UserFile())
	cli.AnnounceToUser(first, log)()
}

func TestReachable(t *testing.T) {
	for host, want := range map[string]string{"": "127.0.0.1:1", "0.0.0.0": "127.0.0.1:1", "::": "127.0.0.1:1", "::1": "[::1]:1", "host": "host:1"} {
		if got := cli.Reachable(host, "1"); got != want {
			t.Errorf("Reachable(%q) = %s, want %s", host, got, want)
		}
	}
}
