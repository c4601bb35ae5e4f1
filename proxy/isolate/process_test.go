//go:build linux

package isolate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

const bad = "bad-worker"

// TestMain is also the program of workers, good and bad.
func TestMain(m *testing.M) {
	ServeIfWorker()
	if os.Args[0] == bad {
		beBad(os.Args[1])
		return
	}
	os.Exit(m.Run())
}

// beBad is a compromised worker.
func beBad(how string) {
	channel := &workerPipes{frames{in: bufio.NewReader(os.NewFile(0, "in")), out: os.NewFile(1, "out")}}
	if how == "another program" {
		fmt.Println("hello")
		return
	}
	_ = channel.Send([]byte(ready))
	_, _ = channel.Receive(100)
	program, _ := channel.Receive(1 << 20)
	switch how {
	case "exits":
		fmt.Fprintln(os.Stderr, "no more of this\nat all")
		os.Exit(3)
	case "exits well":
		os.Exit(0)
	case "dies":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "malformed":
		_ = channel.Send([]byte("what?"))
	case "long":
		_, _ = os.Stdout.Write([]byte{0xff, 0xff, 0xff, 0xff})
	case "half":
		_, _ = os.Stdout.Write([]byte{0, 0, 0, 100, 1, 2, 3})
		os.Exit(0)
	case "deaf":
		_ = unix.Close(0)
	case "mute":
		_ = unix.Close(1)
	case "hungry":
		var all [][]byte
		for {
			block := make([]byte, 16<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = byte(len(program))
			}
			all = append(all, block)
			_ = all
		}
	case "floods":
		for {
			_, _ = os.Stderr.Write(make([]byte, 1<<16))
		}
	}
	for {
		time.Sleep(time.Hour)
	}
}

// rerun runs one test in a separate process.
func rerun(t *testing.T, test, env string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+test+"$")
	c.Env = append(os.Environ(), env)
	return c
}

// leftovers counts what workers could leave in this process.
type leftovers struct{ children, files int }

func leftoversNow(t *testing.T) leftovers {
	t.Helper()
	var l leftovers
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		l.children += len(strings.Fields(string(text)))
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	l.files = len(open)
	return l
}

// within reports whether no more is left than before, when something of other tests may have been about to end.
func (l leftovers) within(before leftovers) bool {
	return l.children <= before.children && l.files <= before.files
}

const forever = `
def run(params):
    while True:
        pass
`

// endless are limits that no program reaches by computing.
var endless = script.Limits{Steps: 1 << 50, Memory: 1 << 40}

// TestABadWorkerIsAnErrorOfItsRun ends workers in every way, and checks what is left.
func TestABadWorkerIsAnErrorOfItsRun(t *testing.T) {
	p := scripttest.Compile(t, forever)
	before := leftoversNow(t)
	t.Run("worker", func(t *testing.T) { endBadWorkers(t, p) })
	testkit.Eventually(t, "children or files are left", func() bool { return leftoversNow(t).within(before) })
}

func endBadWorkers(t *testing.T, p *script.Program) {
	for how, want := range map[string]string{
		"another program": "the worker process of this run failed: start: ",
		"exits":           "it ended with status 3: no more of this",
		"exits well":      "it ended before its run did",
		"dies":            "it was ended by signal 9 (killed)",
		"malformed":       "it sent an invalid message: malformed",
		"long":            "it sent a frame of 4294967295 bytes where it may send",
		"half":            "it ended before its run did",
		"deaf":            "limit reached: time",
		"mute":            "limit reached: time",
		"silent":          "limit reached: time",
		"floods":          "limit reached: time",
		"hungry":          "it ran out of its address space of",
	} {
		t.Run(how, func(t *testing.T) {
			if how == "deaf" || how == "mute" || how == "floods" {
				testmode.NeedThorough(t)
			}
			testmode.Parallel(t)
			w := newWorkers(t)
			w.starter.args = []string{bad, how}
			bounds := script.Limits{Time: limits.Duration(30 * time.Second), Memory: 16 << 20}
			if strings.HasPrefix(want, "limit") {
				bounds.Time = limits.Duration(300 * time.Millisecond)
			}
			_, err := p.Run(t.Context(), script.RunOptions{Isolation: w, Limits: bounds})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run = %v, want an error with %q", err, want)
			}
			w.Close()
			if n := w.Running(); n != 0 {
				t.Errorf("%d workers are left", n)
			}
		})
	}
}

// TestAWorkerThatIsKilled kills a worker while it computes and while a tool is called for it.
func TestAWorkerThatIsKilled(t *testing.T) {
	w := newWorkers(t)
	opened := opening{w, make(chan int, 1)}
	called := make(chan struct{})
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"wait": func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		close(called)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}}
	for name, src := range map[string]string{
		"computing": `
def run(params):
    print("now")
    while True:
        pass
`, "waiting": `
def run(params):
    return retry(lambda: call_tool("wait"))
`,
	} {
		t.Run(name, func(t *testing.T) {
			p := scripttest.Compile(t, src)
			ended := make(chan error)
			printed := make(chan struct{})
			go func() {
				_, err := p.Run(t.Context(), script.RunOptions{
					Isolation: opened, Host: h, Print: func(string, string) { close(printed) },
					Limits: endless,
				})
				ended <- err
			}()
			select {
			case <-printed:
			case <-called:
			}
			_ = unix.Kill(<-opened.pids, unix.SIGKILL)
			err := <-ended
			var died *script.WorkerError
			if !errors.As(err, &died) || !strings.Contains(err.Error(), "signal 9 (killed)") {
				t.Errorf("Run = %v, want a *WorkerError that names the signal", err)
			}
		})
	}
	if res, err := scripttest.Compile(t, "def run(params): return 1").Run(t.Context(), script.RunOptions{Isolation: w}); err != nil || string(res.Structured) != "1" {
		t.Errorf("the next run: %v", err)
	}
}

// opening records which processes were opened for runs.
type opening struct {
	*Workers
	pids chan int
}

func (o opening) Open(ctx context.Context, l script.Limits) (script.Channel, error) {
	c, err := o.Workers.Open(ctx, l)
	if err == nil {
		o.pids <- c.(*process).cmd.Process.Pid
	}
	return c, err
}

// TestWhatAWorkerHas inspects a worker from outside.
func TestWhatAWorkerHas(t *testing.T) {
	inherited, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	t.Setenv("VMCP_TEST_SECRET", "secret")
	w := newWorkers(t)
	c, err := w.Open(t.Context(), script.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := c.(*process).cmd.Process.Pid
	proc := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	if env, err := os.ReadFile(proc("environ")); err != nil || len(env) > 0 {
		t.Errorf("its environment is %q, %v; want nothing", env, err)
	}
	if cwd, err := os.Readlink(proc("cwd")); err != nil || cwd != "/" {
		t.Errorf("its folder is %q, %v; want /", cwd, err)
	}
	if group, err := unix.Getpgid(pid); err != nil || group != pid {
		t.Errorf("its process group is %d, %v; want its own", group, err)
	}
	open, err := os.ReadDir(proc("fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		to, err := os.Readlink(proc("fd/" + e.Name()))
		fd, _ := strconv.Atoi(e.Name())
		switch {
		case err != nil:
		case fd <= 2 && strings.HasPrefix(to, "pipe:"):
		case fd > 2 && (to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]"):
		default:
			t.Errorf("it has %s open as %d", to, fd)
		}
	}
	status, err := os.ReadFile(proc("status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("its status has no %q", want)
		}
	}
	limits, err := os.ReadFile(proc("limits"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Max core file size": "0", "Max file size": "0", "Max open files": strconv.Itoa(openFiles),
		"Max address space": strconv.FormatInt(c.(*process).space, 10),
	} {
		var got []string
		for line := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				got = strings.Fields(rest)[:2]
			}
		}
		if !slices.Equal(got, []string{want, want}) {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
}

// TestWhatTheFilterLetsThrough makes system calls that a worker does not need.
func TestWhatTheFilterLetsThrough(t *testing.T) {
	if os.Getenv("VMCP_TEST_FILTER") == "" {
		c := rerun(t, "TestWhatTheFilterLetsThrough", "VMCP_TEST_FILTER=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := shutIn(); err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	if err := filterCalls(); err != nil {
		if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for name, call := range map[string]func() error{
		"open a file":      func() error { _, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0); return err },
		"open for writing": func() error { _, err := unix.Open("/tmp/x", unix.O_WRONLY|unix.O_CREAT, 0o600); return err },
		"socket":           func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
		"unix socket":      func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"exec":             func() error { return unix.Exec("/bin/true", []string{"true"}, nil) },
		"fork": func() error {
			_, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
			return errno
		},
		"clone3":            func() error { _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); return errno },
		"kill the parent":   func() error { return unix.Kill(os.Getppid(), 0) },
		"kill another":      func() error { return unix.Tgkill(1, 1, 0) },
		"trace":             func() error { return unix.PtraceAttach(os.Getppid()) },
		"raise a limit":     func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}) },
		"limits of another": func() error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) },
		"memory to execute": func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		},
		"mount":            func() error { return unix.Mount("a", "/mnt", "tmpfs", 0, "") },
		"link":             func() error { return unix.Link("/a", "/b") },
		"remove":           func() error { return unix.Unlink("/tmp/x") },
		"namespaces":       func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"another priority": func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 0) },
		"dumpable":         func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
	} {
		if err := call(); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	if pid != os.Getpid() {
		t.Error("it is another process")
	}
}

// TestManyRuns runs many at once, with one slot, and checks what is left.
func TestManyRuns(t *testing.T) {
	before := leftoversNow(t)
	w := newWorkers(t)
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
	p := scripttest.Compile(t, `
def run(params):
    return parallel(lambda n: call_tool("echo", {"n": n})["n"] + params["n"], [1, 2, 3])
`)
	pool := script.NewPool(1<<30, 1, nil)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			res, err := p.Run(t.Context(), script.RunOptions{Isolation: w, Host: h, Pool: pool, Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
			if want := fmt.Sprintf("[%d,%d,%d]", i+1, i+2, i+3); err != nil || string(res.Structured) != want {
				t.Errorf("run %d: %v, want %s", i, err, want)
			}
		})
	}
	all.Wait()
	if n := w.Running(); n > mostSpare {
		t.Errorf("%d workers are left, want the spare ones", n)
	}
	w.Close()
	testkit.Eventually(t, "children or files are left", func() bool { return leftoversNow(t).within(before) && w.Running() == 0 })
}

// TestTimeAndCancellation ends runs that compute and runs that wait, from outside.
func TestTimeAndCancellation(t *testing.T) {
	w := newWorkers(t)
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"hang": scripttest.Hangs}}
	for name, src := range map[string]string{
		"computes": forever,
		"waits":    "\ndef run(params):\n    call_tool(\"hang\")\n",
		"caught":   "\ndef run(params):\n    while True: try_call_tool(\"hang\")\n",
		"decodes":  "\ndef run(params):\n    s = json.encode(list(range(500000)))\n    while True: json.decode(s)\n",
		"sleeps":   "\ndef run(params):\n    sleep(\"1h\")\n",
		"branches": "\ndef run(params):\n    parallel(lambda n: call_tool(\"hang\"), range(20))\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := scripttest.Compile(t, src)
			o := script.RunOptions{Isolation: w, Host: h, Limits: endless}
			var limit *script.LimitError
			var err error
			// A slow machine may take that long until the script has begun, and knows no place.
			for within := 300 * time.Millisecond; name != "sleeps" && within < time.Minute && (limit == nil || limit.Pos.Line == 0); within *= 2 {
				o.Limits.Time, limit = limits.Duration(within), nil
				if _, err = p.Run(t.Context(), o); !errors.As(err, &limit) {
					break
				}
			}
			if name != "sleeps" && (limit == nil || limit.Limit != "time" || limit.Pos.Line < 3) { // a run that sleeps is not awake
				t.Errorf("Run = %v, want the limit time with its place", err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			o.Limits.Time = limits.Duration(time.Hour)
			time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
			_, err = p.Run(ctx, o)
			var cancelled *script.Cancelled
			if !errors.As(err, &cancelled) || !strings.Contains(err.Error(), "cancelled: enough") {
				t.Errorf("Run = %v, want that it was cancelled", err)
			}
		})
	}
}

// TestTooManyWorkers fills the bound on workers.
func TestTooManyWorkers(t *testing.T) {
	w := newWorkers(t)
	w.count = mostWorkers + mostSpare
	_, err := scripttest.Compile(t, forever).Run(t.Context(), script.RunOptions{Isolation: w})
	var busy *script.Busy
	if !errors.As(err, &busy) {
		t.Errorf("Run = %v, want that it is busy", err)
	}
	w.count = 0
}

// TestCloseWaitsForWorkersThatAreBeingStarted ends Workers while a run waits for its own.
func TestCloseWaitsForWorkersThatAreBeingStarted(t *testing.T) {
	w := newWorkers(t)
	w.starter.begun.Do(w.starter.begin)
	hold := make(chan struct{})
	w.starter.requests <- func() { <-hold }
	opened := make(chan error)
	go func() {
		c, err := w.Open(t.Context(), script.DefaultLimits())
		if err == nil {
			c.Close()
		}
		opened <- err
	}()
	testkit.Eventually(t, "no worker is being started", func() bool { return w.Running() == 1 })
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	testkit.Eventually(t, "Close has not begun", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.closed
	})
	close(hold)
	if err := <-opened; err != nil {
		t.Errorf("Open = %v", err)
	}
	<-closed
}

// TestANumberThatIsAnotherOnesNow bounds a worker that has ended, and whose process ID was reused.
func TestANumberThatIsAnotherOnesNow(t *testing.T) {
	w := newWorkers(t)
	other, err := w.starter.start(func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	addresses := func() (limit unix.Rlimit) {
		if err := unix.Prlimit(other.cmd.Process.Pid, unix.RLIMIT_AS, nil, &limit); err != nil {
			t.Fatal(err)
		}
		return limit
	}
	before := addresses()
	ended := &process{cmd: other.cmd, gone: make(chan struct{})}
	close(ended.gone)
	if err := ended.bound(1 << 20); err == nil {
		t.Error("it is bounded")
	}
	if now := addresses(); now != before {
		t.Errorf("the other process has an address space of %d bytes, want %d", now.Cur, before.Cur)
	}
}

// TestTheKernelEndsWorkersOfADeadParent is about PR_SET_PDEATHSIG.
func TestTheKernelEndsWorkersOfADeadParent(t *testing.T) {
	if os.Getenv("VMCP_TEST_PARENT") != "" {
		w, err := New()
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Open(t.Context(), script.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("worker %d\n", c.(*process).cmd.Process.Pid)
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	c := rerun(t, "TestTheKernelEndsWorkersOfADeadParent", "VMCP_TEST_PARENT=1")
	out, err := c.CombinedOutput()
	if err == nil {
		t.Fatalf("it lives: %s", out)
	}
	var pid int
	for line := range strings.Lines(string(out)) {
		_, _ = fmt.Sscanf(line, "worker %d", &pid)
	}
	if pid == 0 {
		t.Fatalf("no worker: %s", out)
	}
	testkit.Eventually(t, "the worker lives", func() bool { return unix.Kill(pid, 0) == syscall.ESRCH || isZombie(pid) })
}

// isZombie: in a container without an init, nobody waits for it.
func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}
