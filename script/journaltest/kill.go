package journaltest

import (
	"context"
	"errors"
	"sync"

	"github.com/vmcp-dev/vmcp/script"
)

// errKilled is what the methods of a Kill return after its process has died.
var errKilled = errors.New("killed")

// Kill is a journal whose process dies at write number At, from 1: either right after it, or in the middle of it, so
// that the write is lost. From then on nothing is written, and Cancel, if not nil, is called. Begin and Record are
// writes.
type Kill struct {
	script.Journal
	At     int
	Lost   bool
	Cancel context.CancelCauseFunc

	mu     sync.Mutex
	writes int
}

// Writes returns the number of writes, those after the death included.
func (k *Kill) Writes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// Begin counts the write and passes it on.
func (k *Kill) Begin(ctx context.Context, e script.Entry) error {
	return k.write(func() error { return k.Journal.Begin(ctx, e) })
}

// Record counts the write and passes it on.
func (k *Kill) Record(e script.Entry) error {
	return k.write(func() error { return k.Journal.Record(e) })
}

// Release passes the call on, while the process is alive.
func (k *Kill) Release(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.At > 0 && k.writes >= k.At {
		return errKilled
	}
	return k.Journal.Release(key)
}

func (k *Kill) write(f func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	switch {
	case k.At == 0 || k.writes < k.At:
		return f()
	case k.writes > k.At:
		return errKilled
	}
	if k.Cancel != nil {
		defer k.Cancel(errKilled)
	}
	if k.Lost {
		return errKilled
	}
	return f()
}
