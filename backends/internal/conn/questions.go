package conn

import (
	"context"
	"encoding/json"
	"sync"
)

// This part of the package tracks the requests of a backend that a client has not answered yet.

// Table has the unanswered requests of one connection.
type Table struct {
	mu      sync.Mutex
	open    map[string]context.CancelFunc // guarded by mu, by id
	changed chan struct{}                 // guarded by mu; closed and replaced when one is answered
}

// NewQuestions returns an empty table.
func NewQuestions() *Table {
	return &Table{open: map[string]context.CancelFunc{}, changed: make(chan struct{})}
}

// Add adds a request, which cancel cancels; false when max are open.
func (t *Table) Add(id json.RawMessage, cancel context.CancelFunc, max int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= max {
		return false
	}
	t.open[string(id)] = cancel
	return true
}

// Answered removes a request; false when the backend has cancelled it before.
func (t *Table) Answered(id json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, open := t.open[string(id)]
	delete(t.open, string(id))
	close(t.changed)
	t.changed = make(chan struct{})
	return open
}

// Withdraw cancels and removes a request after notifications/cancelled of the backend.
func (t *Table) Withdraw(id json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel := t.open[string(id)]; cancel != nil {
		cancel()
		delete(t.open, string(id))
	}
}

// Open returns the number of open requests, and a channel that is closed when one is answered.
func (t *Table) Open() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open), t.changed
}

// Settled waits until no request is open; asked reports whether one was. The error is that of ctx.
func (t *Table) Settled(ctx context.Context) (asked bool, err error) {
	for {
		open, changed := t.Open()
		if open == 0 {
			return asked, nil
		}
		asked = true
		select {
		case <-changed:
		case <-ctx.Done():
			return asked, ctx.Err()
		}
	}
}
