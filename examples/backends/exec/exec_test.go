//go:build unix

package exec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/examples/backends/exec"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolclient"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

type args = toolclient.Args

type result struct {
	ExitCode       int
	Stdout, Stderr string
	Truncated      bool
}

func startExec(t *testing.T, o exec.Options) *toolclient.Client {
	t.Helper()
	p, err := exec.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return toolclient.Start(t, p.Server())
}

// Arguments with special characters of a shell are passed unchanged.
func TestArgumentsAreNoShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startExec(t, exec.Options{Allow: []string{"printf", "cat"}, Root: dir})
	for _, arg := range []string{
		"; touch pwned", "$(touch pwned)", "`touch pwned`", "a && touch pwned", "| touch pwned", "> pwned", "*", "~", "$HOME",
		"--", "-n", "", " ", "a\nb", "'\"\\", "%s", "ü\u202e", strings.Repeat("x", 70_000),
	} {
		var r result
		c.OK("run", args{"command": "printf", "args": []string{"%s", arg}}, &r)
		if want := arg[:min(len(arg), 64<<10)]; r.Stdout != want || r.ExitCode != 0 || r.Truncated != (len(arg) > 64<<10) {
			t.Errorf("argument %.40q arrives as %.80q, exit %d, truncated %t", arg, r.Stdout, r.ExitCode, r.Truncated)
		}
	}
	var r result
	c.OK("run", args{"command": "cat", "stdin": "from\nhere"}, &r)
	if r.Stdout != "from\nhere" {
		t.Errorf("standard input arrives as %q", r.Stdout)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the folder there is now %v, %v", left, err)
	}
}

func TestOnlyTheListRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	evil := filepath.Join(dir, "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch pwned\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := startExec(t, exec.Options{Allow: []string{"true"}, Root: dir})
	for _, name := range []string{"false", evil, "./evil", "/bin/true", "../true", "true ", "TRUE", "true;false", "", "true\x00"} {
		if text := c.Refused("run", args{"command": name}, exec.NotAllowed); !strings.Contains(text, "want one of true") {
			t.Errorf("%q: %s", name, text)
		}
	}
	c.Refused("run", args{"command": "true", "args": []string{"a\x00b"}}, exec.BadArguments)
	c.Refused("run", args{"command": "true", "args": []string{strings.Repeat("x", 4<<20)}}, exec.NotStarted)
	c.Refused("run", args{"command": "true", "args": "one text"}, "bad_arguments")
}

func TestNamesAreCheckedAtTheStart(t *testing.T) {
	for _, o := range []exec.Options{
		{},
		{Allow: []string{"/bin/true"}},
		{Allow: []string{"../true"}},
		{Allow: []string{"no-such-program-anywhere"}},
		{Allow: []string{"true"}, Root: "/no/such/folder"},
	} {
		if _, err := exec.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// An endless program ends at its limit, and so does whatever it has started.
func TestTheGroupEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startExec(t, exec.Options{Allow: []string{"sh", "yes"}, Root: dir, Timeout: time.Second})
	text := c.Refused("run", args{"command": "yes", "timeoutSeconds": 0.1}, exec.TimedOut)
	if !strings.Contains(text, "100ms") {
		t.Error(text)
	}
	c.Refused("run", args{"command": "sh", "args": []string{"-c", "echo $$ >pid; echo oh >&2; sleep 1000 & wait"}, "timeoutSeconds": 3600}, exec.TimedOut)
	c.Refused("run", args{"command": "sh", "args": []string{"-c", "sleep 1000"}, "timeoutSeconds": 0.05}, exec.TimedOut)
	ended(t, filepath.Join(dir, "pid"))

	// What it leaves behind, too.
	var r result
	c = startExec(t, exec.Options{Allow: []string{"sh"}, Root: dir})
	c.OK("run", args{"command": "sh", "args": []string{"-c", "echo $$ >pid; sleep 1000 & echo done"}}, &r)
	if r.Stdout != "done\n" || r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	ended(t, filepath.Join(dir, "pid"))
}

// ended waits until a process group has no running process.
func ended(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	group, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the process group", func() bool {
		return syscall.Kill(-group, 0) == syscall.ESRCH || onlyZombies(group)
	})
}

// onlyZombies reports whether all processes of a group have ended; their parent may not have reaped them yet.
func onlyZombies(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" {
			return false
		}
	}
	return len(stats) > 0
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	c := startExec(t, exec.Options{Allow: []string{"sh"}, MaxOutput: 1000})
	var r result
	c.OK("run", args{"command": "sh", "args": []string{"-c", "head -c 3000000 /dev/zero; printf 'a\\377b' >&2; exit 3"}}, &r)
	if len(r.Stdout) != 1000 || !r.Truncated || r.Stderr != "a\uFFFDb" || r.ExitCode != 3 {
		t.Errorf("%d bytes, truncated %t, %q, exit %d", len(r.Stdout), r.Truncated, r.Stderr, r.ExitCode)
	}
	// No half of a character is left at the end.
	c.OK("run", args{"command": "sh", "args": []string{"-c", "printf x; yes ü | head -c 3000 | tr -d '\\n'; kill -9 $$"}}, &r)
	if strings.ContainsRune(r.Stdout, '\uFFFD') || len(r.Stdout) != 999 || r.ExitCode != 128+9 {
		t.Errorf("%d bytes %.20q..., exit %d", len(r.Stdout), r.Stdout, r.ExitCode)
	}
}

// A secret that the server was given for something else is not handed on.
func TestTheEnvironmentStays(t *testing.T) {
	t.Setenv("API_KEY", "hunter22")
	c := startExec(t, exec.Options{Allow: []string{"env"}})
	var r result
	c.OK("run", args{"command": "env"}, &r)
	if strings.Contains(r.Stdout, "hunter22") || !strings.Contains(r.Stdout, "PATH=") {
		t.Error(r.Stdout)
	}
}
