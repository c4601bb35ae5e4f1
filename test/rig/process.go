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

// BinaryEnv names a vmcp binary to test instead of building one.
const BinaryEnv = "VMCP_BINARY"

// Build returns the path of a vmcp binary built from this module, or the one that
// BinaryEnv names. All packages of a test run use one file, which is linked again only when
// it is out of date; dir is where it goes if there is no folder for caches.
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

// testRun names the process of go test that this test runs for, "" where there is none. What
// the first of its packages has built is up to date for the others.
func testRun() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	name, rest, ok := strings.Cut(string(stat), " (go) ")
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 20 {
		return ""
	}
	return name + " " + fields[19] // when it was started
}

// WithBinary is what TestMain needs of Build: it sets *path to the binary while run runs,
// and returns run's exit code, or 1 when the binary cannot be built.
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

// noteSources opens the folders of the module, once while tests run. go test takes an earlier
// result when a test's own code, and the files that its tests opened, are what they were: it
// would not know of a changed binary.
var noteSources = sync.OnceFunc(func() {
	root, err := moduleRoot()
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		if path != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if dir, err := os.Open(path); err == nil { // os.ReadDir is not noticed
			dir.Close()
		}
		return nil
	})
})

// shared is a folder of the user's cache for this working copy, locked until unlock is
// called; otherwise is returned if there is no such thing.
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

// reserved are the locks of the ports that Port has returned; they are never closed.
var reserved sync.Map

// Port returns a free TCP port of the loopback interface, below the range that the
// kernel hands out to outgoing connections: a port from that range can be taken by
// a client before the server under test gets to listen on it. It belongs to this process
// until that ends, as far as others ask here, too.
func Port() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Listen is Port for a server of this process: nobody can take the port before it listens.
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

// ListenAgain listens where a server of this process has just ended, and waits for its port
// as long as ctx lasts.
func ListenAgain(ctx context.Context, addr string) (l net.Listener, err error) {
	err = Poll(ctx, "a port that is free again: "+addr, func() (bool, error) {
		l, err = net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return false, nil
		}
		return err == nil, err
	})
	return l, err
}

// reserve reports whether no other process has the port. A name of a socket in Linux's
// abstract namespace is a lock that goes with its process and leaves no file.
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

// Process is a running child in a process group of its own.
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

// StartCmd starts a prepared command and waits for its end in the background.
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

// Stop asks the process to end, kills its group when it has not within half a minute,
// and returns what it ended with.
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

// AwaitHTTP polls url until it answers anything, the process ends or ctx does.
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

// Poll asks until the answer is yes, an error, or ctx has ended. It is for waiting
// on other processes, which cannot signal a channel.
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
// whatever its backends do; env is added to its environment. It returns the address that it
// listens on.
func Serve(ctx context.Context, log io.Writer, binary, config string, env ...string) (*Process, string, error) {
	return ServeWith(ctx, log, binary, []string{"--config", config}, env...)
}

// ServeWith is Serve with any flags, but for --listen.
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
	return nil, "", fmt.Errorf("%s: somebody else listens there, as at two ports before", addr)
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

// taken reports whether a program that does not ask Port has taken one of its ports.
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
