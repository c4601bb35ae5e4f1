// Package child runs the program of a backend over stdio: the process and its group, the
// pipes of its standard streams, and its termination.
//
// The program has a new process group and only a few variables of the proxy's environment.
// When a child is closed or the proxy is killed, its whole group is killed.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

const (
	// endGrace is how long a child may take to exit after its input was closed, and again
	// after SIGTERM.
	endGrace = 2 * time.Second
	// writeTimeout bounds a write to a child that does not read its input.
	writeTimeout = 10 * time.Second
	// exitTime bounds the wait for the exit of a child whose pipe is closed, and then for the end of its standard
	// error, both for the text of the error: on a busy machine a process may be reaped long after its pipes are
	// closed.
	exitTime = time.Second
)

// ErrPartial is wrapped by the error of a write that sent a part of its line: no other line
// can follow.
var ErrPartial = errors.New("sent in part")

// inherited are the variables of the proxy's environment that are passed to a child.
var inherited = []string{
	"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM",
	// Windows programs do not start without these.
	"APPDATA", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC", "PROGRAMFILES", "PROGRAMDATA",
}

// Options are the program to start and its environment.
type Options struct {
	Command string // found on the child's PATH, started without a shell
	Args    []string
	Dir     string
	Env     map[string]string // in addition to the inherited variables
	Guard   *Guard
	// Secrets are hidden in standard error before it is kept or reported. It may be nil.
	Secrets *secret.Redactor
	// Stderr is called for each line of standard error that is not empty, one at a time.
	Stderr func(line string)
}

// Child is a started program.
type Child struct {
	process *process
	stdin   *os.File
	stdout  *os.File
	stderr  *stderr
	writing chan struct{} // cap 1: held during a write
}

// Start starts a program with pipes on its three streams.
func Start(o Options) (*Child, error) {
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(append(ours[:], theirs[:]...))
			return nil, err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd := o.command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p, err := startProcess(cmd, o.Guard)
	closeFiles(theirs[:])
	if err != nil {
		closeFiles(ours[:])
		return nil, err
	}
	return &Child{process: p, stdin: ours[0], stdout: ours[1], writing: make(chan struct{}, 1),
		stderr: readStderr(ours[2], o.Secrets, o.Stderr)}, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func (o *Options) command() *exec.Cmd {
	cmd := exec.Command(o.Command, o.Args...)
	cmd.Dir = o.Dir
	cmd.Env = o.environment()
	if path, ok := o.Env["PATH"]; ok && filepath.Base(o.Command) == o.Command {
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, o.Command)); err == nil {
				cmd.Path, cmd.Err = found, nil
				break
			}
		}
	}
	return cmd
}

func (o *Options) environment() []string {
	var env []string
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range o.Env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env[len(env)-len(o.Env):])
	return env
}

// PID returns the id of the process and of its group.
func (c *Child) PID() int { return c.process.pid }

// Read reads from standard output.
func (c *Child) Read(p []byte) (int, error) { return c.stdout.Read(p) }

// Write sends one line, including its line feed, and returns how many bytes were written. It
// is safe for concurrent use. It fails after writeTimeout.
func (c *Child) Write(ctx context.Context, line []byte) (n int, err error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	c.stdin.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err = c.stdin.Write(line)
	switch {
	case err == nil:
		return n, nil
	case n > 0:
		return n, fmt.Errorf("write to the process: %w: %w", ErrPartial, err)
	}
	err = fmt.Errorf("write to the process: %w", err)
	if errors.Is(err, syscall.EPIPE) {
		err = c.Gone(err)
	}
	return 0, err
}

// Gone returns why a pipe is closed: how the process ended, with the tail of its standard
// error, or otherwise if it is still running.
func (c *Child) Gone(otherwise error) error {
	if !within(exitTime, c.process.done) {
		return otherwise
	}
	within(exitTime, c.stderr.done) // a descendant may hold it open
	return fmt.Errorf("the process ended: %s%s", c.process.state(), c.stderr.tail.last())
}

// within reports whether done is closed within d.
func within(d time.Duration, done <-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
	}
	select {
	case <-done: // at the same moment
		return true
	default:
		return false
	}
}

// Close ends the process: it closes its input, then sends SIGTERM, then SIGKILL to its group.
func (c *Child) Close() {
	c.stdin.Close()
	c.process.end(endGrace)
	// A descendant that left the group may still hold the pipes.
	c.stdout.Close()
	c.stderr.pipe.Close()
	<-c.stderr.done
}
