package editor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package is an interactive session of Starlark, with the dialect, builtins and limits of scripted tools, and
// the tools of an endpoint.

// REPLOptions say what a session uses.
type REPLOptions struct {
	Tools Tools // nil: there are none
	// Origins are further names by which scripts may call tools: from backend.tool to the name for clients.
	Origins map[string]string
	Limits  script.Limits
	Load    func(from, name string) (script.File, error) // nil: nothing can be loaded
	// Tool is loaded into the session, from File; nil: none.
	Tool *catalog.ScriptedTool
	File script.File
	// TestFile is the file that :save appends to.
	TestFile string
	Fakes    bool // no call has an effect: none is asked about
	Yes      bool // call destructive tools without asking
	Asker    *client.Asker

	In       *os.File // the terminal; nil: read Lines
	Lines    io.Reader
	Out      io.Writer
	Shown    func(string) string // makes a text safe for Out
	Tell     func(message string)
	ask      func(ctx context.Context, question string) (string, error) // nil: there is no terminal
	interact *terminal
}

func (o *REPLOptions) print(text string) { fmt.Fprintln(o.Out, o.Shown(text)) }

// ErrFailed is returned by a session without a terminal in which an input failed.
var ErrFailed = errors.New("an input failed")

// RunREPL runs a session until its input ends: the terminal In, or else Lines. The end of ctx also ends
// the session.
func RunREPL(ctx context.Context, o REPLOptions) error {
	if o.In != nil {
		t, err := newTerminal(&o)
		if err != nil {
			return err
		}
		defer t.close()
		o.interact, o.ask = t, t.ask
		if o.Asker != nil {
			o.Asker.Terminal = bufio.NewReader(t.input)
		}
	}
	h, err := newHost(ctx, &o)
	if err != nil {
		return err
	}
	s := newSession(&o, h)
	if o.Tool != nil {
		if err := s.open(ctx, o.Tool, o.File); err != nil {
			return err
		}
	}
	if o.interact != nil {
		return o.interact.run(ctx, s)
	}
	return s.readLines(ctx, o.Lines)
}

// maxLine bounds a line of the input, in bytes.
const maxLine = 4 << 20

// readLines executes input that is not typed at a terminal: a chunk ends before the first line that does not continue it.
func (s *session) readLines(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var text, blank strings.Builder
	failed := false
	finish := func() {
		if strings.TrimSpace(text.String()) != "" && !s.enter(ctx, text.String()) {
			failed = true
		}
		text.Reset()
	}
	for lines.Scan() && ctx.Err() == nil {
		line := lines.Text()
		if strings.TrimSpace(line) == "" && text.Len() == 0 {
			s.lines = append(s.lines, line)
			continue
		}
		if strings.TrimSpace(line) == "" {
			blank.WriteString(line + "\n") // may be inside a block or a string
			continue
		}
		if text.Len() > 0 && !continuesBlock(line) {
			if _, more, err := parseChunk(text.String()); err == nil || !more {
				finish()
				s.lines = append(s.lines, make([]string, strings.Count(blank.String(), "\n"))...)
				blank.Reset()
			}
		}
		text.WriteString(blank.String())
		blank.Reset()
		if strings.HasPrefix(line, ":") && text.Len() == 0 {
			s.lines = append(s.lines, line)
			quit, err := s.command(line)
			if err != nil {
				s.o.Tell(err.Error())
				failed = true
			}
			if quit {
				return outcome(failed)
			}
			continue
		}
		text.WriteString(line + "\n")
	}
	finish()
	if err := lines.Err(); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return outcome(failed)
}

func outcome(failed bool) error {
	if failed {
		return ErrFailed
	}
	return nil
}

// enter executes a chunk, and prints its value or its error; ok reports whether it had no error.
func (s *session) enter(ctx context.Context, text string) (ok bool) {
	first := len(s.lines) + 1
	s.lines = append(s.lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	tree, _, err := parseChunk(text)
	if err == nil {
		err = s.execute(ctx, &chunk{text: strings.TrimSuffix(text, "\n"), line: first, tree: tree})
	} else if _, wrong := script.Parse(script.File{Name: inputName, Source: []byte(strings.Repeat("\n", first-1) + text)}, s.o.Limits); wrong != nil {
		err = wrong
	}
	if err != nil {
		s.o.Tell(s.explain(err))
		return false
	}
	if s.value != "" {
		s.o.print(s.value)
	}
	return true
}
