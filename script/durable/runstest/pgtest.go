//go:build unix

package runstest

import (
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// This part of the package starts a PostgreSQL server for tests: in a temporary folder, as a user other than
// root, listening on a Unix socket in that folder.

// Server is a PostgreSQL server that is stopped when its test ends.
type Server struct {
	dir      string
	bin      string
	settings string
	who      *syscall.Credential // user of the server; nil: the user of the test
}

// Start starts a server. Tests are skipped in the quick form of the tests (see internal/testmode), and where PostgreSQL
// is not installed; with CI set, a missing PostgreSQL fails the test. Benchmarks run in both forms.
func Start(t testing.TB) *Server { return pgtestStart(t, "-c fsync=off") }

// StartDurable starts a server that syncs each commit, for measuring.
func StartDurable(t testing.TB) *Server { return pgtestStart(t, "") }

func pgtestStart(t testing.TB, settings string) *Server {
	t.Helper()
	if _, measures := t.(*testing.B); !measures {
		testmode.NeedThorough(t)
	}
	s := &Server{bin: find(), settings: settings}
	if s.bin == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("PostgreSQL is not installed: apt-get install postgresql")
		}
		t.Skip("PostgreSQL is not installed")
	}
	s.become(t)
	s.run(t, "initdb", "-N", "-A", "trust", "-U", "vmcp", "-E", "UTF8", "--locale=C", "-D", s.data())
	s.Up(t)
	t.Cleanup(func() { s.Down(t) })
	return s
}

// find returns the folder of the programs of PostgreSQL, or "".
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

// Standby starts a server that replicates this one asynchronously.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby := &Server{bin: s.bin, settings: s.settings}
	standby.become(t)
	standby.run(t, "pg_basebackup", "-R", "-c", "fast", "--no-sync", "-h", s.dir, "-U", "vmcp", "-D", standby.data())
	standby.Up(t)
	t.Cleanup(func() { standby.Down(t) })
	return standby
}

// Promote makes a standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-w", "-s", "promote")
}

// become makes the folder, and gives it to another user where the test runs as root, because the server refuses to run as root.
func (s *Server) become(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("", "vmcp-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir = dir
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
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		t.Fatalf("%s: %v\n%s\n%s", name, err, out, log)
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

// Signal sends a signal to the server and to the processes that serve its connections: after SIGSTOP connections are
// accepted by the kernel and never answered, until SIGCONT; SIGKILL is a crash, after which Up starts the server again.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{postmaster}
	children, err := os.ReadFile(filepath.Join("/proc", first, "task", first, "children"))
	if err != nil {
		t.Skipf("the children of a process are not known here: %v", err)
	}
	for _, pid := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(pid); err == nil {
			pids = append(pids, n)
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatalf("signal %v to %d: %v", sig, pid, err)
		}
	}
	if sig == syscall.SIGKILL {
		for _, pid := range pids {
			awaitEnd(pid)
		}
		os.Remove(filepath.Join(s.data(), "postmaster.pid")) // pg_ctl takes a zombie process for one that runs
		os.Remove(filepath.Join(s.dir, ".s.PGSQL.5432.lock"))
	}
}

// awaitEnd waits until a process that was killed has closed its files; it may stay a zombie.
func awaitEnd(pid int) {
	for {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		_, rest, _ := strings.Cut(string(text), ") ")
		if err != nil || strings.HasPrefix(rest, "Z") {
			return
		}
		runtime.Gosched()
	}
}

// URL is the connection URL of the server.
func (s *Server) URL() string {
	return "postgres://vmcp@/postgres?" + url.Values{"host": {s.dir}}.Encode()
}
