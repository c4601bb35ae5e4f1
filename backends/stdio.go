package backends

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// endGrace is how long a child may take to leave after its input ended, and again
	// after SIGTERM.
	endGrace = 2 * time.Second
	// writeTimeout is how long a child may leave its input unread.
	writeTimeout = 10 * time.Second
	maxLogLine   = 4 << 10
	maxKept      = 32 << 10 // of stderr, for error messages
)

// inherited are the variables of the proxy's environment that a child gets.
var inherited = []string{
	"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM",
	// Windows programs do not start without these.
	"APPDATA", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC", "PROGRAMFILES", "PROGRAMDATA",
}

// child is a running stdio backend.
type child struct {
	b       *Backend
	process *process
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	reader  *bufio.Reader
	writing chan struct{} // holds one token: the right to write
	tail    *tail
	silent  chan struct{} // closed when stderr has ended
}

// startChild starts the configured program with pipes on its three streams.
func (b *Backend) startChild() (*child, error) {
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
	cmd := b.command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p, err := startProcess(cmd, &b.set.guard)
	closeFiles(theirs[:])
	if err != nil {
		closeFiles(ours[:])
		return nil, err
	}
	b.stats.children.Add(1)
	b.log.Info("backend process started", "pid", p.pid, "command", b.cfg.Command)
	c := &child{b: b, process: p, stdin: ours[0], stdout: ours[1], stderr: ours[2],
		reader: bufio.NewReaderSize(ours[1], 32<<10), writing: make(chan struct{}, 1), tail: &tail{}, silent: make(chan struct{})}
	go c.readStderr()
	return c, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// command is the configured program. It is found on the child's PATH and started
// without a shell.
func (b *Backend) command() *exec.Cmd {
	cmd := exec.Command(b.cfg.Command, b.cfg.Args...)
	cmd.Dir = b.cfg.Cwd
	cmd.Env = b.environment()
	if path, ok := b.cfg.Env["PATH"]; ok && filepath.Base(b.cfg.Command) == b.cfg.Command {
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, b.cfg.Command)); err == nil {
				cmd.Path, cmd.Err = found, nil
				break
			}
		}
	}
	return cmd
}

func (b *Backend) environment() []string {
	var env []string
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range b.cfg.Env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env[len(env)-len(b.cfg.Env):])
	return env
}

// errLongLine ends a connection whose backend sends a line over the limit.
var errLongLine = errors.New("a line on stdout is larger than the limit")

// read returns the next frame. Lines that are no JSON object are logged and skipped.
func (c *child) read() ([]byte, *buffer, error) {
	for {
		line, held, err := c.line()
		if err != nil {
			return nil, nil, c.ended(err)
		}
		if frame := trimSpace(line); len(frame) > 0 && frame[0] == '{' {
			return frame, held, nil
		} else if len(frame) > 0 {
			c.b.junk(frame, errors.New("no JSON object"))
		}
		held.release()
	}
}

// line reads up to a line feed into a buffer.
func (c *child) line() ([]byte, *buffer, error) {
	held := grab(smallAnswer)
	n := 0
	for {
		part, err := c.reader.ReadSlice('\n')
		if int64(n+len(part)) > c.b.maxMessage {
			held.release()
			return nil, nil, fmt.Errorf("%w of %d bytes", errLongLine, c.b.maxMessage)
		}
		if n+len(part) > len(held.b) {
			bigger := grab(max(n+len(part), 2*len(held.b)))
			copy(bigger.b, held.b[:n])
			held.release()
			held = bigger
		}
		n += copy(held.b[n:], part)
		switch err {
		case nil:
			return held.b[:n], held, nil
		case bufio.ErrBufferFull:
		default:
			held.release()
			return nil, nil, err
		}
	}
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// ended explains why stdout ended.
func (c *child) ended(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return c.gone(errors.New("the process closed its stdout"))
}

// gone explains why a pipe is closed: how the process ended and what it last said, or
// otherwise while it goes on running.
func (c *child) gone(otherwise error) error {
	limit := time.After(200 * time.Millisecond)
	select {
	case <-c.process.done:
	case <-limit:
		return otherwise
	}
	select {
	case <-c.silent:
	case <-limit: // a descendant holds its stderr open
	}
	return fmt.Errorf("the process ended: %s%s", c.process.state(), c.tail.last())
}

// write sends one line. Writers take turns; a child that does not read is given up.
func (c *child) write(ctx context.Context, frame []byte) (started bool, err error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	line := append(wire.Line(frame), '\n')
	c.stdin.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := c.stdin.Write(line)
	switch {
	case err == nil:
		return true, nil
	case n > 0:
		return true, fmt.Errorf("write to the process: %w: %w", errPartial, err)
	}
	err = fmt.Errorf("write to the process: %w", err)
	if errors.Is(err, syscall.EPIPE) {
		err = c.gone(err)
	}
	return false, err
}

// close ends the process: its input ends, then SIGTERM, then SIGKILL to its group.
func (c *child) close() {
	c.stdin.Close()
	c.process.end(endGrace)
	c.b.stats.children.Add(-1)
	// A descendant that left the group may still hold the pipes.
	c.stdout.Close()
	c.stderr.Close()
	<-c.silent
}

// readStderr logs the child's stderr line by line and keeps the end of it.
func (c *child) readStderr() {
	defer close(c.silent)
	r := bufio.NewReaderSize(c.stderr, maxLogLine)
	for {
		line, err := r.ReadSlice('\n')
		if text := string(trimSpace(line)); text != "" {
			c.tail.add(text)
			c.b.log.Info("stderr", "line", text)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// tail is the last lines of a child's stderr.
type tail struct {
	mu    sync.Mutex
	lines []string
	size  int
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.size += len(line)
	for t.size > maxKept {
		t.size -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// last is the end of what the child said, for an error message.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return "; its last words: " + strings.Join(t.lines[max(0, len(t.lines)-3):], " | ")
}
