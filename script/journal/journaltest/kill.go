package journaltest

import (
	"context"
	"errors"
	"sync"

	"github.com/vmcp-dev/vmcp/script"
)

// ErrKilled is what a Kill returns from when on its process is dead.
var ErrKilled = errors.New("killed")

// Kill is a journal whose process dies with the write number At, from 1: either right after it, or in the middle of it, so that
// it is lost. Nothing is written from then on, and Cancel, if it is not nil, is called. Begin and Record are writes.
type Kill struct {
	script.Journal
	At     int
	Lost   bool
	Cancel context.CancelCauseFunc

	mu     sync.Mutex
	writes int
}

// Writes is how many writes there were, those that came too late included.
func (k *Kill) Writes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// Begin counts and passes on.
func (k *Kill) Begin(ctx context.Context, e script.Entry) error {
	return k.write(func() error { return k.Journal.Begin(ctx, e) })
}

// Record counts and passes on.
func (k *Kill) Record(e script.Entry) error {
	return k.write(func() error { return k.Journal.Record(e) })
}

// Release passes on, while the process lives.
func (k *Kill) Release(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.At > 0 && k.writes >= k.At {
		return ErrKilled
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
		return ErrKilled
	}
	if k.Cancel != nil {
		defer k.Cancel(ErrKilled)
	}
	if k.Lost {
		return ErrKilled
	}
	return f()
}
