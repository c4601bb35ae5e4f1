package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxQueued bounds the lines that wait to be written, in bytes.
	MaxQueued = 4 << 20
	// flushEvery is how long a line waits for others, at the most.
	flushEvery = 100 * time.Millisecond
	// flushAt is how much is not waited for.
	flushAt = 64 << 10
	// complainEvery is how often the same trouble is logged.
	complainEvery = 10 * time.Second
	// closeTime is how long the end waits for a disk or a reader that takes nothing.
	closeTime = 5 * time.Second
)

// ErrFull is why a line is not written while too much waits for a slow disk.
var ErrFull = errors.New("too many lines wait to be written")

// Options of a Log.
type Options struct {
	// File is where lines are appended; it is made with mode 0600. "" is Out.
	File string
	Out  io.Writer
	// Size is how large the file becomes before a new one is begun, in bytes; 0 is without end.
	Size int64
	// Keep is how many files before it are kept, as FILE.1 (the youngest), FILE.2 and so on.
	Keep int
	// Component stands in every line.
	Component string
	// Only are the types that are written, all of them if there are none, and Not those that are not.
	Only, Not []string
	// Dropped counts lines that could not be written. May be nil.
	Dropped *atomic.Uint64
	Log     *slog.Logger // of trouble with the file; may be nil
}

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	options Options
	log     *slog.Logger
	wants   map[string]bool
	sink    sink
	wake    chan struct{}
	end     chan struct{}
	done    chan struct{} // closed when the last line is written

	complained time.Time // only write uses it

	mu      sync.Mutex
	queued  []byte         // guarded by mu, like all below; whole lines
	lines   int            // in queued
	waiting []chan<- error // of those who wait until queued is on disk
	closed  bool
	reopen  bool
	timer   *time.Timer
}

// Open begins a log.
func Open(o Options) (*Log, error) {
	l := &Log{options: o, log: o.Log, wants: map[string]bool{}, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if o.Dropped == nil {
		l.options.Dropped = new(atomic.Uint64)
	}
	for _, t := range Types {
		l.wants[t] = (len(o.Only) == 0 || slices.Contains(o.Only, t)) && !slices.Contains(o.Not, t)
	}
	l.sink = sink{out: o.Out}
	if o.File != "" {
		f, err := openFile(o.File, o.Size, o.Keep)
		if err != nil {
			return nil, err
		}
		l.sink = sink{out: f, file: f}
	}
	l.timer = time.AfterFunc(time.Hour, l.signal)
	l.timer.Stop()
	go l.write()
	return l, nil
}

// Wants reports whether events of a type are written. A nil Log wants none.
func (l *Log) Wants(kind string) bool { return l != nil && l.wants[kind] }

// Append queues an event, without waiting. When there is no room for it, it is dropped and
// counted: ErrFull. A log that is closed takes none: ErrClosed.
func (l *Log) Append(e *Event) error {
	if !l.Wants(e.Type) {
		return nil
	}
	var room [1 << 10]byte
	return l.put(e.line(room[:0], l.options.Component), nil)
}

// Commit writes an event and returns when it is on disk. While it is not, the error says why.
func (l *Log) Commit(ctx context.Context, e *Event) error {
	if !l.Wants(e.Type) {
		return nil
	}
	written := make(chan error, 1)
	if err := l.put(e.line(nil, l.options.Component), written); err != nil {
		return err
	}
	l.signal()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrClosed is why a line is not written any more.
var ErrClosed = errors.New("the log is closed")

// put queues a line. written gets the outcome when it is on disk; it may be nil.
func (l *Log) put(line []byte, written chan<- error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case len(l.queued)+len(line) > MaxQueued:
		l.options.Dropped.Add(1)
		return ErrFull
	}
	if len(l.queued) == 0 {
		l.timer.Reset(flushEvery)
	}
	before := len(l.queued)
	l.queued = append(l.queued, line...)
	l.lines++
	if written != nil {
		l.waiting = append(l.waiting, written)
	}
	if before < flushAt && len(l.queued) >= flushAt {
		l.signal()
	}
	return nil
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Reopen makes the next line go to the file that has the name by then. Whoever rotates the
// file calls it; a file that is gone is noticed by itself.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.reopen = true
	l.mu.Unlock()
	l.signal()
}

// Close writes what is queued and ends the log. A disk that takes nothing is given up after
// some seconds.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		l.timer.Stop()
		close(l.end)
	}
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-l.done:
		return nil
	case <-late.C:
		return fmt.Errorf("audit: the last lines are not written: nothing was taken for %s", closeTime)
	}
}

// write takes what is queued to the file until the log is closed. It owns the sink.
func (l *Log) write() {
	defer close(l.done)
	defer l.sink.close()
	var spare []byte
	for ended := false; !ended; {
		select {
		case <-l.wake:
		case <-l.end:
			ended = true
		}
		l.mu.Lock()
		batch, lines, waiting, reopen := l.queued, l.lines, l.waiting, l.reopen
		l.queued, l.lines, l.waiting, l.reopen = spare[:0], 0, nil, false
		l.mu.Unlock()
		written, err := l.sink.write(batch, reopen, len(waiting) > 0)
		if err != nil {
			l.options.Dropped.Add(uint64(lines - written))
			l.complain(err, lines-written)
		}
		for _, w := range waiting {
			w <- err
		}
		spare = batch
		if cap(spare) > flushAt*4 {
			spare = nil
		}
	}
}

// complain logs that lines are not written, not more often than every complainEvery.
func (l *Log) complain(err error, lines int) {
	if now := time.Now(); now.Sub(l.complained) >= complainEvery {
		l.complained = now
		l.log.Error("audit not written", "err", err, "lines", lines)
	}
}

// sink is what lines are written to.
type sink struct {
	out  io.Writer
	file *file // nil: not a file of ours
	torn bool  // what was written last is the beginning of a line
}

// write writes lines, each at once, and returns how many. With sync they are on disk then.
func (s *sink) write(lines []byte, reopen, sync bool) (written int, err error) {
	if s.file != nil {
		if err := s.file.follow(reopen); err != nil {
			return 0, err
		}
	}
	for len(lines) > 0 {
		n := bytes.IndexByte(lines, '\n') + 1
		if err := s.line(lines[:n]); err != nil {
			return written, err
		}
		lines = lines[n:]
		written++
	}
	if sync && s.file != nil && written > 0 {
		return written, s.file.sync()
	}
	return written, nil
}

func (s *sink) line(line []byte) error {
	if s.torn {
		if _, err := s.out.Write([]byte{'\n'}); err != nil {
			return err
		}
		s.torn = false
	}
	n, err := s.out.Write(line)
	s.torn = err != nil && n > 0
	return err
}

func (s *sink) close() {
	if s.file != nil {
		s.file.close()
	}
}
