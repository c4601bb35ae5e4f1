// Package child runs the program of a backend over stdio: the process with its group, the
// pipes on its three streams, and its end.
//
// The program gets a process group of its own and only a few variables of the proxy's
// environment. A child that is closed, or whose proxy is killed, takes with it whatever it
// started in its group.
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
	// endGrace is how long a child may take to leave after its input ended, and again
	// after SIGTERM.
	endGrace = 2 * time.Second
	// writeTimeout is how long a child may leave its input unread.
	writeTimeout = 10 * time.Second
	// exitTime is how long a child whose pipe is closed may take to end, for the text of
	// the error.
	exitTime = 200 * time.Millisecond
)

// ErrPartial is in the error of a write that sent a part of its line: no other line can
// follow it.
var ErrPartial = errors.New("sent in part")

// inherited are the variables of the proxy's environment that a child gets.
var inherited = []string{
	"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM",
	// Windows programs do not start without these.
	"APPDATA", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC", "PROGRAMFILES", "PROGRAMDATA",
}

// Options say what to start.
type Options struct {
	Command string // found on the child's PATH, started without a shell
	Args    []string
	Dir     string
	Env     map[string]string // beside the variables that every child gets
	Guard   *Guard
	// Secrets are hidden in all that is kept or reported of standard error. It may be nil.
	Secrets *secret.Redactor
	// Stderr is called for each line of standard error that is not empty, one at a time.
	Stderr func(line string)
}

// Child is a program that was started.
type Child struct {
	process *process
	stdin   *os.File
	stdout  *os.File
	stderr  *stderr
	writing chan struct{} // cap 1: held by who writes
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

// PID is the id of the process and of its group.
func (c *Child) PID() int { return c.process.pid }

// Read reads from standard output.
func (c *Child) Read(p []byte) (int, error) { return c.stdout.Read(p) }

// Write sends one line, its line feed included, and returns how many bytes of it went out.
// Writers take turns. A child that does not read for writeTimeout gets an error.
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

// Gone explains why a pipe is closed: how the process ended and the tail of its standard
// error, or otherwise when it goes on running.
func (c *Child) Gone(otherwise error) error {
	limit := time.After(exitTime)
	select {
	case <-c.process.done:
	case <-limit:
		return otherwise
	}
	select {
	case <-c.stderr.done:
	case <-limit: // a descendant holds its stderr open
	}
	return fmt.Errorf("the process ended: %s%s", c.process.state(), c.stderr.tail.last())
}

// Close ends the process: its input ends, then SIGTERM, then SIGKILL to its group.
func (c *Child) Close() {
	c.stdin.Close()
	c.process.end(endGrace)
	// A descendant that left the group may still hold the pipes.
	c.stdout.Close()
	c.stderr.pipe.Close()
	<-c.stderr.done
}
