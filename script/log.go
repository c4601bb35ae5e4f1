package script

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/script/journal"
)

// Engine is the version of what builtins mean. It is raised when one of them does something else
// with the same journal; a run goes on with the engine that it began with, or not at all.
const Engine = 1

// What a run works over is defined in package journal.
type (
	// Journal remembers what the effects of a run returned.
	Journal = journal.Journal
	// Header names the run that a journal belongs to, and what it goes on with.
	Header = journal.Header
	// Entry is one effect in a journal.
	Entry = journal.Entry
)

// A JournalError says that the journal of a run could not be written. The run has stopped, and
// may go on when the journal can be written again.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return "journal: " + e.Err.Error() }

// Unwrap returns what the journal said.
func (e *JournalError) Unwrap() error { return e.Err }

// log is the journal of a request: that of the run which has no caller. All runs that it calls write into it,
// each below the key of the effect that called it.
//
// The journal fails once: from then on the request writes nothing, for what it would write is no longer what the
// journal's next reader expects.
type log struct {
	mu      sync.Mutex
	journal Journal
	failed  *JournalError      // guarded by mu
	entries map[string][]Entry // as they were found, by the part of their key before the last "/", with it
}

// openLog takes the journal for a run.
func openLog(ctx context.Context, j Journal, h Header) (*log, error) {
	entries, err := j.Open(ctx, h)
	if err != nil {
		return nil, &JournalError{err}
	}
	l := &log{journal: j, entries: map[string][]Entry{}}
	for _, e := range entries {
		run := e.Key[:strings.LastIndexByte(e.Key, '/')+1]
		l.entries[run] = append(l.entries[run], e)
	}
	return l, nil
}

func (l *log) begin(ctx context.Context, e Entry) error {
	return l.write(func() error { return l.journal.Begin(ctx, e) })
}

func (l *log) record(e Entry) error {
	return l.write(func() error { return l.journal.Record(e) })
}

func (l *log) release(key string) error {
	return l.write(func() error { return l.journal.Release(key) })
}

func (l *log) write(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		if err := f(); err != nil {
			l.failed = &JournalError{err}
		}
	}
	if l.failed != nil {
		return l.failed
	}
	return nil
}

// close gives the journal back when its run has ended so. What could not be written has not happened.
func (l *log) close(res *Result, err error) (*Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil && !errors.As(err, new(*JournalError)) {
		res, err = nil, l.failed
	}
	if over := l.journal.Close(); over != nil && err == nil {
		return nil, &JournalError{over}
	}
	return res, err
}
