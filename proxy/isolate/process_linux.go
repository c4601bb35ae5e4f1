package isolate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The address space of a worker beyond what its run may be charged: memory in use is up to a quarter more than what is
// charged, the garbage collector needs some room, and the heap grows by 64 MB at a time.
const spareSpace = 256 << 20

// maxStderr bounds what is kept of a worker's standard error, and maxHandshake its first message, in bytes.
const (
	maxStderr    = 4 << 10
	maxHandshake = 4 << 10
)

// process is the parent's side of a worker process.
type process struct {
	frames
	answers io.Closer // what frames reads
	cmd     *exec.Cmd
	space   int64 // limit on the address space; 0 before there is one
	words   tail
	gone    chan struct{} // closed when the process has ended and was waited for
	ended   error         // set before gone closes

	once   sync.Once
	closed chan struct{} // by Close
}

// starter starts processes on one thread: the kernel kills a child when the thread that started it ends, and this one
// lives as long as the process. It is started with the first worker.
type starter struct {
	begun    sync.Once
	requests chan func()
	args     []string // nil: those of a worker; tests have others
}

// Available returns why there can be no workers on this system; nil: there can.
func Available() error { return nil }

func (s *starter) begin() {
	closeOnExec()
	s.requests = make(chan func())
	go s.serve()
}

func (s *starter) serve() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // of this thread, and of workers from their first instruction on
	for f := range s.requests {
		f()
	}
}

// close ends the thread; no more workers can be started.
func (s *starter) close() {
	s.begun.Do(func() {})
	if s.requests != nil {
		close(s.requests)
	}
}

// closeOnExec keeps inherited file descriptors of this process from its workers.
func closeOnExec() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		}
	}
}

// start starts a worker and waits until it is ready. gone is called once, when it has ended or could not be started.
func (s *starter) start(gone func()) (*process, error) {
	p, err := s.launch()
	if err != nil {
		gone()
		return nil, fmt.Errorf("start: %w", err)
	}
	go p.wait(gone)
	late := time.AfterFunc(startWithin, p.kill)
	defer late.Stop()
	handshake, err := p.Receive(maxHandshake)
	if err == nil && !strings.HasPrefix(string(handshake), ready) {
		err = errors.New("the program that was started is not a worker")
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	return p, nil
}

// launch starts the process.
func (s *starter) launch() (*process, error) {
	s.begun.Do(s.begin)
	args := s.args
	if args == nil {
		args = []string{workerName}
	}
	p := &process{gone: make(chan struct{}), closed: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: args, Env: []string{}, Dir: "/", Stderr: &p.words,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	answers, out, err := os.Pipe()
	if err != nil {
		requests.Close()
		return nil, err
	}
	defer out.Close()
	p.frames, p.answers = frames{in: bufio.NewReader(answers), out: requests}, answers
	p.cmd.Stdin, p.cmd.Stdout = in, out
	started := make(chan error)
	s.requests <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		requests.Close()
		answers.Close()
		return nil, err
	}
	return p, nil
}

// wait waits for the end of the process.
func (p *process) wait(gone func()) {
	p.ended = p.cmd.Wait()
	gone()
	close(p.gone)
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	if !p.hasEnded() { // else the process ID may have been reused
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
}

// bound sets the address space of the worker for a run that may be charged so many bytes.
func (p *process) bound(memory int64) error {
	if p.hasEnded() { // its process ID may have been reused
		return errors.New(p.why())
	}
	space, err := p.addressSpace()
	if err != nil {
		return err
	}
	p.space = space + memory + memory/4 + spareSpace
	limit := &unix.Rlimit{Cur: uint64(p.space), Max: uint64(p.space)}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_AS, limit, nil); err != nil {
		return fmt.Errorf("limit on its address space: %w", err)
	}
	return p.Send([]byte(strconv.FormatInt(memory+memory/4+spareSpace/4, 10)))
}

// addressSpace returns what the worker has reserved so far, in bytes.
func (p *process) addressSpace() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseInt(first, 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Receive returns the next frame. After the last one, the error says how the process ended.
func (p *process) Receive(most int64) ([]byte, error) {
	frame, err := p.receive(most)
	if err == nil || errors.As(err, new(*tooLong)) {
		return frame, err
	}
	select {
	case <-p.closed:
		return nil, errors.New("it was closed")
	default:
	}
	late := time.AfterFunc(startWithin, p.kill) // it has closed its pipe and keeps running
	defer late.Stop()
	<-p.gone
	return nil, errors.New(p.why())
}

// noAddresses matches what the Go runtime prints when the kernel refuses it more address space; the last alternative
// is that of a program with the race detector.
var noAddresses = regexp.MustCompile("out of memory|cannot allocate memory|failed to create new OS thread|too many address space collisions")

// why returns how the process ended.
func (p *process) why() string {
	words := p.words.String()
	var exit *exec.ExitError
	switch {
	case noAddresses.MatchString(words):
		return fmt.Sprintf("it ran out of its address space of %d MiB", p.space>>20)
	case p.ended == nil:
		return "it ended before its run did"
	case errors.As(p.ended, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return fmt.Sprintf("it was ended by signal %d (%v)", status.Signal(), status.Signal())
		}
		if line, _, _ := strings.Cut(words, "\n"); line != "" {
			return fmt.Sprintf("it ended with status %d: %s", exit.ExitCode(), line)
		}
		return fmt.Sprintf("it ended with status %d", exit.ExitCode())
	}
	return p.ended.Error()
}

// Close ends the worker, waits until it has ended, and closes its pipes.
func (p *process) Close() {
	p.once.Do(func() {
		close(p.closed)
		p.kill()
		<-p.gone
		p.out.(io.Closer).Close()
		p.answers.Close()
	})
}

// tail keeps the beginning of what is written to it.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(b[:min(len(b), maxStderr-t.text.Len())])
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
