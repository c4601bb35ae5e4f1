package conn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/vmcp-dev/vmcp/backends/internal/child"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// stdioStream is the stream of frames of a child process.
type stdioStream struct {
	d      *Dialer
	child  *child.Child
	reader *bufio.Reader
}

// startChild starts the configured program.
func (d *Dialer) startChild() (*stdioStream, error) {
	p, err := child.Start(child.Options{Command: d.cfg.Command, Args: d.cfg.Args, Dir: d.cfg.Cwd, Env: d.cfg.Env,
		Guard: d.o.Guard, Secrets: d.o.Secrets, Stderr: d.o.Stderr})
	if err != nil {
		return nil, err
	}
	d.stats.Children.Add(p)
	d.o.Started(p.PID())
	return &stdioStream{d: d, child: p, reader: bufio.NewReaderSize(p, 32<<10)}, nil
}

// read returns the next frame. Lines that are not JSON objects are logged and skipped.
func (s *stdioStream) read() ([]byte, *Buffer, error) {
	for {
		line, held, err := ReadLine(s.reader, s.d.o.MaxMessage)
		if err != nil {
			return nil, nil, s.ended(err)
		}
		if len(line) > 0 && line[0] == '{' {
			return line, held, nil
		}
		if len(line) > 0 {
			s.d.logMalformed(line, errors.New("not a JSON object"))
		}
		held.Release()
	}
}

// ended returns why stdout ended.
func (s *stdioStream) ended(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return s.child.Gone(errors.New("the process closed its stdout"))
}

// write sends one line, until ctx ends.
func (s *stdioStream) write(ctx context.Context, frame []byte) (started bool, err error) {
	n, err := s.child.Write(ctx, append(wire.Line(frame), '\n'))
	return n > 0 || err == nil, err
}

// close ends the process.
func (s *stdioStream) close() {
	s.child.Close()
	s.d.stats.Children.Remove(s.child)
}
