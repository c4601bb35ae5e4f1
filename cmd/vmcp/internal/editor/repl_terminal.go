package editor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/term"
)

const (
	prompt     = ">>> "
	promptMore = "... "
)

// terminal reads chunks from a terminal and executes them. While a line is typed (readLine), the terminal is in raw
// mode and x/term edits the line; Ctrl-C is a byte, which keys turns into the end of the line. While a chunk runs, the
// terminal is in its original mode: Ctrl-C is a signal, which cancels the chunk and aborts a read of an answer
// (interruptible). Both read from one input, so that what an aborted read has not taken goes to the next one.
type terminal struct {
	o       *REPLOptions
	fd      int
	cooked  *term.State
	input   *input
	keys    *keys
	edit    *term.Terminal
	pending string // the complete lines of an incomplete chunk
	signals chan os.Signal
}

func newTerminal(o *REPLOptions) (*terminal, error) {
	t := &terminal{o: o, fd: int(o.In.Fd()), signals: make(chan os.Signal, 1)}
	t.input = newInput(o.In, t.signals)
	var err error
	if t.cooked, err = term.GetState(t.fd); err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	t.keys = &keys{input: t.input}
	t.edit = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, o.Out}, prompt)
	signal.Reset(os.Interrupt) // it cancels a chunk here, and does not end the program
	signal.Notify(t.signals, os.Interrupt)
	return t, nil
}

func (t *terminal) close() {
	signal.Stop(t.signals)
	_ = term.Restore(t.fd, t.cooked) // the program ends: the error would help nobody
}

// errAborted is returned for a line that Ctrl-C ended.
var errAborted = errors.New("aborted")

// readLine reads a line in raw mode.
func (t *terminal) readLine(prompt string) (string, error) {
	if _, err := term.MakeRaw(t.fd); err != nil {
		return "", err
	}
	t.input.running.Store(false)
	for len(t.signals) > 0 {
		<-t.signals
	}
	defer func() {
		t.edit.SetBracketedPasteMode(false)
		_ = term.Restore(t.fd, t.cooked)
	}()
	t.edit.SetBracketedPasteMode(true)
	if width, height, err := term.GetSize(t.fd); err == nil && width > 0 {
		_ = t.edit.SetSize(width, height)
	}
	t.edit.SetPrompt(prompt)
	line, err := t.edit.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if t.keys.aborted.Swap(false) && err == nil {
		return "", errAborted
	}
	return line, err
}

// run reads and executes chunks until Ctrl-D.
func (t *terminal) run(ctx context.Context, s *session) error {
	t.edit.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return t.tab(s, line, pos)
	}
	for ctx.Err() == nil {
		p := prompt
		if t.pending != "" {
			p = promptMore
		}
		line, err := t.readLine(p)
		switch {
		case errors.Is(err, errAborted):
			t.pending = ""
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(t.o.Out)
			return nil
		case err != nil:
			return err
		}
		if quit := t.line(ctx, s, line); quit {
			return nil
		}
	}
	return context.Cause(ctx)
}

// line executes a command, or adds a line to a chunk and executes that when it is complete.
func (t *terminal) line(ctx context.Context, s *session, line string) (quit bool) {
	if t.pending == "" && strings.HasPrefix(line, ":") {
		quit, err := s.command(line)
		if err != nil {
			t.o.Tell(err.Error())
		}
		return quit
	}
	if t.pending == "" && strings.TrimSpace(line) == "" {
		return false
	}
	t.pending += line + "\n"
	tree, more, err := parseChunk(t.pending)
	if more || err == nil && isBlock(tree) && line != "" {
		return false
	}
	text := t.pending
	t.pending = ""
	ctx, end := t.interruptible(ctx)
	defer end()
	s.enter(ctx, strings.TrimRight(text, "\n"))
	return false
}

// interruptible is a context that Ctrl-C cancels, together with reads from the terminal.
func (t *terminal) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-t.signals:
			cancel()
			t.input.abort()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-done
		t.input.resume()
	}
}

// ask asks a question of the session while a chunk runs.
func (t *terminal) ask(_ context.Context, question string) (string, error) {
	t.o.Tell(question)
	return t.o.Asker.Terminal.ReadString('\n')
}

// tab completes the word before the cursor, or prints the completions.
func (t *terminal) tab(s *session, line string, pos int) (string, int, bool) {
	before := line[:pos]
	if t.pending == "" && strings.TrimSpace(before) == "" || t.pending != "" && strings.TrimLeft(before, " \t") == "" {
		return before + "    " + line[pos:], pos + 4, true // indent
	}
	word, candidates := s.complete(t.pending + before)
	longer, choices := extend(before, word, candidates)
	if len(choices) > 0 {
		go t.show(choices) // x/term holds its lock until this returns
		return line, pos, true
	}
	return longer + line[pos:], len(longer), true
}

// maxChoices bounds the completions that are printed.
const maxChoices = 60

func (t *terminal) show(choices []string) {
	more := ""
	if len(choices) > maxChoices {
		more = fmt.Sprintf("  … (%d more)", len(choices)-maxChoices)
		choices = choices[:maxChoices]
	}
	fmt.Fprintf(t.edit, "%s%s\n", t.o.Shown(strings.Join(choices, "  ")), more)
}

// keys passes what is typed to x/term.
type keys struct {
	input   *input
	aborted atomic.Bool // Ctrl-C was typed
}

// Read replaces Ctrl-C by the keys that go to the end of the line, delete it, and enter it.
func (k *keys) Read(p []byte) (int, error) {
	const atEnd, deleteLine, enter = 5, 21, 13
	buf := make([]byte, max(len(p)/3, 1))
	n, err := k.input.Read(buf)
	out := p[:0]
	for _, c := range buf[:n] {
		if c == 3 {
			k.aborted.Store(true)
			out = append(out, atEnd, deleteLine, enter)
			continue
		}
		if c == enter || c == '\n' {
			k.input.running.Store(true)
		}
		out = append(out, c)
	}
	return len(out), err
}

// input reads the terminal in its goroutine pump, so that a Read can be aborted.
type input struct {
	chunks chan []byte
	rest   []byte
	// running is set from the end of a line until the next is read. A Ctrl-C that is read as a byte in that time, before
	// the original mode is restored, is sent as a signal.
	running atomic.Bool
	signals chan<- os.Signal
	mu      sync.Mutex
	ended   chan struct{} // closed by abort; guarded by mu
}

var errInterrupted = errors.New("interrupted")

func newInput(f *os.File, signals chan<- os.Signal) *input {
	in := &input{chunks: make(chan []byte), ended: make(chan struct{}), signals: signals}
	go in.pump(f)
	return in
}

// pump ends with the terminal, or with the process: a read of a terminal cannot be interrupted.
func (in *input) pump(f *os.File) {
	defer close(in.chunks)
	for {
		buf := make([]byte, 1024)
		n, err := f.Read(buf)
		if n > 0 && in.running.Load() && bytes.IndexByte(buf[:n], 3) >= 0 {
			select {
			case in.signals <- os.Interrupt:
			default: // there is one
			}
		} else if n > 0 {
			in.chunks <- buf[:n]
		}
		if err != nil {
			return
		}
	}
}

// Read waits for input, until abort.
func (in *input) Read(p []byte) (int, error) {
	if len(in.rest) == 0 {
		in.mu.Lock()
		ended := in.ended
		in.mu.Unlock()
		select {
		case chunk, ok := <-in.chunks:
			if !ok {
				return 0, io.EOF
			}
			in.rest = chunk
		case <-ended:
			return 0, errInterrupted
		}
	}
	n := copy(p, in.rest)
	in.rest = bytes.Clone(in.rest[n:])
	return n, nil
}

// abort ends the pending Read, and every later one until resume.
func (in *input) abort() {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.ended:
	default:
		close(in.ended)
	}
}

func (in *input) resume() {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.ended:
		in.ended = make(chan struct{})
	default:
	}
}
