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
	// MaxQueued bounds the queued lines, in bytes.
	MaxQueued = 4 << 20
	// flushEvery bounds how long a line stays in the queue.
	flushEvery = 100 * time.Millisecond
	// flushAt is the size of the queue, in bytes, at which it is written at once.
	flushAt = 64 << 10
	// complainEvery is the shortest interval between log lines about failed writes.
	complainEvery = 10 * time.Second
	// closeTime bounds how long Close waits for a blocked disk or reader.
	closeTime = 5 * time.Second
)

// ErrFull is the error for a line that was dropped because MaxQueued bytes are queued.
var ErrFull = errors.New("the queue of lines is full")

// Options of a Log.
type Options struct {
	// File is the path that lines are appended to, created with mode 0600. "" is Out.
	File string
	Out  io.Writer
	// Size is the size at which the file is rotated, in bytes; 0: never.
	Size int64
	// Keep is the number of rotated files, as FILE.1 (the newest), FILE.2 and so on.
	Keep int
	// Component is the value of component in every line.
	Component string
	// Only are the types that are written, all if it is empty; those in Not are not.
	Only, Not []string
	// Dropped counts lines that could not be written. May be nil.
	Dropped *atomic.Uint64
	Log     *slog.Logger // of write errors; may be nil
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

	complained time.Time // used by write alone

	mu      sync.Mutex
	queued  []byte         // guarded by mu, like all below; whole lines
	lines   int            // in queued
	waiting []chan<- error // for the outcome of writing queued
	closed  bool
	reopen  bool
	timer   *time.Timer
}

// Open opens the file of a log and starts its writer.
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

// Append queues an event, without blocking. When the queue is full, the event is dropped and
// counted: ErrFull. After Close the error is ErrClosed.
func (l *Log) Append(e *Event) error {
	if !l.Wants(e.Type) {
		return nil
	}
	var room [1 << 10]byte
	return l.put(e.line(room[:0], l.options.Component), nil)
}

// Commit writes an event and returns when it is on disk, or why it is not.
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

// ErrClosed is the error for a line after Close.
var ErrClosed = errors.New("the log is closed")

// put queues a line. written receives the outcome of its write and sync; it may be nil.
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

// Reopen makes the writer open the file by its name again, after a rotation by another
// program. A file that was moved away is detected without it.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.reopen = true
	l.mu.Unlock()
	l.signal()
}

// Close writes the queued lines and closes the log. It fails after closeTime.
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
		return fmt.Errorf("audit: the last lines are not written: the write is blocked for %s", closeTime)
	}
}

// write writes the queue to the sink until the log is closed. It owns the sink.
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

// complain logs that lines were not written, at most every complainEvery.
func (l *Log) complain(err error, lines int) {
	if now := time.Now(); now.Sub(l.complained) >= complainEvery {
		l.complained = now
		l.log.Error("audit not written", "err", err, "lines", lines)
	}
}

// sink is the file or stream that lines are written to.
type sink struct {
	out  io.Writer
	file *file // nil: a stream
	torn bool  // the last write ended within a line
}

// write writes lines, each with one Write, and returns how many. With sync it syncs the file.
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
