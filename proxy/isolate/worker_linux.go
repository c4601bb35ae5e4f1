package isolate

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ServeIfWorker makes this process a worker, and does not return, if it was started as one. It has to be the first
// call of main.
func ServeIfWorker() {
	if len(os.Args) != 1 || os.Args[0] != workerName {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// openFiles bounds the open files of a worker: its pipes, and those of the runtime's poller.
const openFiles = 16

// serve sandboxes this process and computes runs.
func serve() error {
	runtime.GOMAXPROCS(1) // branches take turns
	if err := closeOthers(); err != nil {
		return err
	}
	channel, err := pipes()
	if err != nil {
		return err
	}
	if err := shutIn(); err != nil {
		return err
	}
	state := "seccomp"
	if err := filterCalls(); err != nil {
		state = fmt.Sprintf("no seccomp: %v", err)
	}
	if err := channel.Send([]byte(ready + " " + state)); err != nil {
		return err
	}
	text, err := channel.Receive(100)
	if err != nil {
		return nil // closed before it had a run
	}
	memory, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(memory)
	return serveRuns(channel)
}

// workerPipes are standard input and output as a script.Channel.
type workerPipes struct{ frames }

func (p *workerPipes) Receive(most int64) ([]byte, error) { return p.receive(most) }
func (p *workerPipes) Close()                             {}

// pipes makes standard input and output non-blocking, so that a branch that can compute does not wait for one that
// reads.
func pipes() (*workerPipes, error) {
	for fd := range 2 {
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	}
	return &workerPipes{frames{in: bufio.NewReader(os.NewFile(0, "in")), out: os.NewFile(1, "out")}}, nil
}

// closeOthers closes all open files besides the pipes: what was inherited despite closeOnExec, and the files of cgroup
// limits, which the runtime has read.
func closeOthers() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if fd, bad := strconv.Atoi(e.Name()); err == nil && bad == nil && fd > 2 && !strings.HasPrefix(to, "anon_inode:[event") {
			_ = syscall.Close(fd)
		}
	}
	return nil
}

// shutIn sets limits and removes privileges of the process.
func shutIn() error {
	for _, l := range []struct {
		name  string
		what  int
		limit uint64
	}{
		{"core file", unix.RLIMIT_CORE, 0},
		{"files", unix.RLIMIT_FSIZE, 0},
		{"open files", unix.RLIMIT_NOFILE, openFiles},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"queues of messages", unix.RLIMIT_MSGQUEUE, 0},
	} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			return fmt.Errorf("limit on %s: %w", l.name, err)
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return nil
}

// niceness is the nice value of workers, so that the proxy has priority.
const niceness = 5
