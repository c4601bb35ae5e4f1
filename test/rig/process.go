package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// BinaryEnv is the environment variable with the path of a vmcp binary to test, instead of building one.
const BinaryEnv = "VMCP_BINARY"

// Build returns the path of a vmcp binary built from this module, or the one that
// BinaryEnv names. All packages of a test run use one file, which is linked again only when
// it is out of date; dir is its folder if there is no folder for caches.
func Build(ctx context.Context, dir string) (string, error) {
	if bin := os.Getenv(BinaryEnv); bin != "" {
		return bin, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, unlock := shared(root, dir)
	defer unlock()
	bin, stamp, this := filepath.Join(dir, "vmcp"), filepath.Join(dir, "built-for"), testRun()
	if last, err := os.ReadFile(stamp); err == nil && string(last) == this && this != "" && exists(bin) {
		return bin, nil
	}
	if err := run(ctx, "", nil, "go", "build", "-ldflags=-s -w", "-o", bin, "github.com/vmcp-dev/vmcp/cmd/vmcp"); err != nil {
		return bin, err
	}
	return bin, os.WriteFile(stamp, []byte(this), 0o600)
}

// testRun identifies the go test process of this test, "" where there is none. The binary that
// the first package of a run has built is up to date for the others.
func testRun() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	name, rest, ok := strings.Cut(string(stat), " (go) ")
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 20 {
		return ""
	}
	return name + " " + fields[19] // when it was started
}

// WithBinary is Build for TestMain: it sets *path to the binary, calls run and
// returns run's exit code, or 1 when the binary cannot be built.
func WithBinary(path *string, run func() int) int {
	dir, err := os.MkdirTemp("", "vmcp-test")
	if err == nil {
		defer os.RemoveAll(dir)
		*path, err = Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// moduleRoot is the folder of go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return dir, nil
}

// noteSources opens the folders of the module, once while tests run. go test uses a cached
// result when the test's code and the files that its tests opened have not changed: without this
// it would not notice a changed binary.
var noteSources = sync.OnceFunc(func() {
	root, err := moduleRoot()
	if err != nil {
		return
	}
	for _, path := range unnoticed(root) {
		_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error { // which opens each folder
			if err == nil && e.IsDir() && (e.Name() == "node_modules" || e.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		})
	}
	note(filepath.Join(root, "go.mod"))
	note(filepath.Join(root, "go.sum"))
})

// unnoticed lists the entries of a folder that are not hidden, without go test recording that the folder was opened: the root of
// the module has no source of the program, but .git, whose modification time changes with every git command.
func unnoticed(folder string) (paths []string) {
	fd, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), folder)
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	return paths
}

// note opens a file or folder, so that go test records it as an input of the test.
func note(path string) {
	if f, err := os.Open(path); err == nil {
		f.Close()
	}
}

// shared returns a folder of the user's cache for this working copy, locked until unlock is
// called; otherwise, unlocked, if there is no user cache.
func shared(module, otherwise string) (dir string, unlock func()) {
	unlock = func() {}
	root, err := os.UserCacheDir()
	if err != nil {
		return otherwise, unlock
	}
	sum := sha256.Sum256([]byte(module))
	dir = filepath.Join(root, "vmcp-ci", "bin-"+hex.EncodeToString(sum[:6]))
	if os.MkdirAll(dir, 0o700) != nil {
		return otherwise, unlock
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return otherwise, unlock
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return otherwise, unlock
	}
	return dir, func() { lock.Close() }
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// reserved has the locks of the ports that Port has returned; they are never closed.
var reserved sync.Map

// Port returns a free TCP port of the loopback interface, below the range that the
// kernel uses for outgoing connections: a port from that range could be taken by
// a client before the server under test listens on it. Port reserves it for this process, until
// the process ends, against other callers of Port.
func Port() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Listen is Port for a server of this process: no other process can take the port before it listens.
func Listen() (net.Listener, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		if !reserve(port) {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free port between 20000 and 32000")
}

// ListenAgain listens on the address of a server of this process that has just ended, and waits until its port is
// free or ctx ends.
func ListenAgain(ctx context.Context, addr string) (l net.Listener, err error) {
	err = Poll(ctx, "a free port at "+addr, func() (bool, error) {
		l, err = net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return false, nil
		}
		return err == nil, err
	})
	return l, err
}

// reserve reports whether no other process has the port. A name of a socket in Linux's
// abstract namespace is a lock that is released with its process and leaves no file.
func reserve(port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", fmt.Sprintf("@vmcp-test-port-%d", port))
	if err == nil {
		reserved.Store(port, l)
	}
	return err == nil
}

// Process is a child process in a separate process group.
type Process struct {
	Cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts a program whose output goes to log.
func Start(log io.Writer, name string, args ...string) (*Process, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return StartCmd(cmd)
}

// StartCmd starts a prepared command; a goroutine waits for its end.
func StartCmd(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	p.err = p.Cmd.Wait()
	close(p.done)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends SIGTERM to the process, kills its group when it has not ended within half a minute,
// and returns the error of its exit.
func (p *Process) Stop() error {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s did not end within 30s of SIGTERM", filepath.Base(p.Cmd.Path))
	}
}

// Kill ends the process, and only it, with SIGKILL, and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.done
}

// AwaitHTTP polls url until it answers with any status, the process ends or ctx ends.
func (p *Process) AwaitHTTP(ctx context.Context, url string) error {
	return Poll(ctx, "an answer from "+url, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s ended: %v", filepath.Base(p.Cmd.Path), p.err)
		default:
		}
		res, err := http.Get(url)
		if err != nil {
			return false, nil
		}
		return true, res.Body.Close()
	})
}

// Poll calls ready until it returns true or an error, or ctx ends. It is for waiting
// for other processes, which cannot close a channel.
func Poll(ctx context.Context, what string, ready func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// Serve starts `vmcp serve` with a configuration file and waits until it answers,
// with or without its backends; env is added to its environment. It returns the address on which
// vmcp listens.
func Serve(ctx context.Context, log io.Writer, binary, config string, env ...string) (*Process, string, error) {
	return ServeWith(ctx, log, binary, []string{"--config", config}, env...)
}

// ServeWith is Serve with any flags but --listen.
func ServeWith(ctx context.Context, log io.Writer, binary string, flags []string, env ...string) (p *Process, addr string, err error) {
	noteSources()
	for range 3 {
		port, err := Port()
		if err != nil {
			return nil, "", err
		}
		addr = fmt.Sprintf("127.0.0.1:%d", port)
		p, err = serveAt(ctx, log, binary, addr, flags, env)
		if err == nil {
			return p, addr, nil
		}
		if !taken(addr) {
			return nil, "", err
		}
	}
	return nil, "", fmt.Errorf("%s: another process listens there, as on two ports before", addr)
}

func serveAt(ctx context.Context, log io.Writer, binary, addr string, flags, env []string) (*Process, error) {
	cmd := exec.Command(binary, append([]string{"serve", "--listen", addr}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	p, err := StartCmd(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.AwaitHTTP(ctx, "http://"+addr+"/healthz"); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// taken reports whether a process that does not use Port listens on an address.
func taken(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
	}
	return err != nil
}

// AwaitReady polls /readyz of a proxy until it answers 200.
func AwaitReady(ctx context.Context, addr string) error {
	return Poll(ctx, "ready backends at "+addr, func() (bool, error) {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}
