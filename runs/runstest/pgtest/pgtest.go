//go:build unix

// Package pgtest starts a PostgreSQL for tests: a server of its own in a temporary folder, as a user
// who is not root, reached by a socket in that folder.
package pgtest

import (
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Server is a PostgreSQL that ends with its test.
type Server struct {
	dir      string
	bin      string
	settings string
	who      *syscall.Credential // nil: who runs the test
}

// Start starts a server. Where PostgreSQL is not installed the test is skipped; with CI set it fails.
func Start(t testing.TB) *Server { return start(t, "-c fsync=off") }

// StartDurable starts a server that syncs what is committed, for measuring.
func StartDurable(t testing.TB) *Server { return start(t, "") }

func start(t testing.TB, settings string) *Server {
	t.Helper()
	s := &Server{bin: find(), settings: settings}
	if s.bin == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("PostgreSQL is not installed: apt-get install postgresql")
		}
		t.Skip("PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "vmcp-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir = dir
	s.become(t)
	s.run(t, "initdb", "-N", "-A", "trust", "-U", "vmcp", "-E", "UTF8", "--locale=C", "-D", s.data())
	s.Up(t)
	t.Cleanup(func() { s.Down(t) })
	return s
}

// find returns the folder of PostgreSQL's programs, or "".
func find() string {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian
	if len(folders) > 0 {
		return filepath.Dir(folders[len(folders)-1])
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb)
	}
	return ""
}

// become makes the folder that of another user where the test runs as root, whom the server refuses.
func (s *Server) become(t testing.TB) {
	if os.Getuid() != 0 {
		return
	}
	var u *user.User
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			u = found
			break
		}
	}
	if u == nil {
		t.Fatal("neither a user postgres nor nobody: PostgreSQL does not run as root")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(s.dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	s.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.who}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Up starts the server, and returns when it answers.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-w", "-s", "-l", filepath.Join(s.dir, "log"), "-o", "-k "+s.dir+" -h '' "+s.settings, "start")
}

// Down stops the server; connections end.
func (s *Server) Down(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-w", "-s", "-m", "fast", "stop")
}

// URL is where the server is reached.
func (s *Server) URL() string {
	return "postgres://vmcp@/postgres?" + url.Values{"host": {s.dir}}.Encode()
}
