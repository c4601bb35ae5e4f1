// Package questions keeps the requests of a backend that a client has not answered yet.
package questions

import (
	"context"
	"encoding/json"
	"sync"
)

// Table is those of one connection.
type Table struct {
	mu      sync.Mutex
	open    map[string]context.CancelFunc // guarded by mu, by id
	changed chan struct{}                 // guarded by mu; closed and replaced when one is answered
}

// New is an empty table.
func New() *Table {
	return &Table{open: map[string]context.CancelFunc{}, changed: make(chan struct{})}
}

// Add notes a request, which cancel withdraws; false when max are open.
func (t *Table) Add(id json.RawMessage, cancel context.CancelFunc, max int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= max {
		return false
	}
	t.open[string(id)] = cancel
	return true
}

// Answered takes a request off the table; false when the backend has withdrawn it.
func (t *Table) Answered(id json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, open := t.open[string(id)]
	delete(t.open, string(id))
	close(t.changed)
	t.changed = make(chan struct{})
	return open
}

// Withdraw cancels a request that the backend no longer wants answered.
func (t *Table) Withdraw(id json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel := t.open[string(id)]; cancel != nil {
		cancel()
		delete(t.open, string(id))
	}
}

// Open is how many requests are open, and a channel that is closed when one is answered.
func (t *Table) Open() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open), t.changed
}

// Settled waits until no request is open; asked is whether one was. The error is the end of ctx.
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
