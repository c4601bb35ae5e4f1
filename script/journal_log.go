package script

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// An JournalError says that the journal of a run could not be opened or written. The run has stopped, and may be resumed when
// the journal can be written again.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return "journal: " + e.Err.Error() }

// Unwrap returns the error of the journal.
func (e *JournalError) Unwrap() error { return e.Err }

// A log is the journal of a request, opened by its outermost run. All runs that it calls write into it, each below the
// key of the effect that called it.
//
// After the first error of the journal, the Log writes nothing more: later entries would not match what the journal
// has.
type log struct {
	Awake   time.Duration      // of the outermost run, by the entries found
	Entries map[string][]Entry // as found, by their key up to and including the last "/"

	journal Journal
	mu      sync.Mutex
	failed  *JournalError // guarded by mu
}

// openLog opens the journal for a run.
func openLog(ctx context.Context, j Journal, h Header) (*log, error) {
	entries, err := j.Open(ctx, h)
	if err != nil {
		return nil, &JournalError{err}
	}
	l := &log{journal: j, Entries: map[string][]Entry{}}
	for _, e := range entries {
		run := e.Key[:strings.LastIndexByte(e.Key, '/')+1]
		l.Entries[run] = append(l.Entries[run], e)
		l.Awake = max(l.Awake, e.Awake)
	}
	return l, nil
}

// Begin is Journal.Begin of one of the runs.
func (l *log) Begin(ctx context.Context, e Entry) error {
	return l.write(func() error { return l.journal.Begin(ctx, e) })
}

// Record is Journal.Record of one of the runs.
func (l *log) Record(e Entry) error {
	return l.write(func() error { return l.journal.Record(e) })
}

// Release is Journal.Release of one of the runs.
func (l *log) Release(key string) error {
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

// Close closes the journal when its run has ended with err, and returns the error of the run: that of the journal if
// something could not be written.
func (l *log) Close(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil && !errors.As(err, new(*JournalError)) {
		err = l.failed
	}
	if over := l.journal.Close(); over != nil && err == nil {
		return &JournalError{over}
	}
	return err
}
