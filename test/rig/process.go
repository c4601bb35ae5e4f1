package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// BinaryEnv names a vmcp binary to test instead of building one.
const BinaryEnv = "VMCP_BINARY"

// Build returns the path of a vmcp binary built from this module into dir, or the
// one that BinaryEnv names.
func Build(ctx context.Context, dir string) (string, error) {
	if bin := os.Getenv(BinaryEnv); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(dir, "vmcp")
	return bin, run(ctx, "", nil, "go", "build", "-o", bin, "github.com/vmcp-dev/vmcp/cmd/vmcp")
}

// Port returns a free TCP port of the loopback interface, below the range that the
// kernel hands out to outgoing connections: a port from that range can be taken by
// a client before the server under test gets to listen on it.
func Port() (int, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port between 20000 and 32000")
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
// whatever its backends do. It returns the address that it listens on.
func Serve(ctx context.Context, log io.Writer, binary, config string) (*Process, string, error) {
	port, err := Port()
	if err != nil {
		return nil, "", err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := Start(log, binary, "serve", "--config", config, "--listen", addr)
	if err != nil {
		return nil, "", err
	}
	if err := p.AwaitHTTP(ctx, "http://"+addr+"/healthz"); err != nil {
		return nil, "", errors.Join(err, p.Stop())
	}
	return p, addr, nil
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
