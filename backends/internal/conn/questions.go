package conn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package tracks the requests of a backend to clients, and bounds them: each has a goroutine.
//
//	open ──► answered     the client has answered, or cannot be asked: a response is sent to the backend
//	  │          │
//	  ▼          ▼
//	withdrawn ──► done    the goroutine has ended, the response is sent or in the queue of replies
//
// A request counts until it is done. A backend that does not take the responses, or cancels its requests as it sends
// them, has no more goroutines for it than one that waits.

const (
	// maxQuestions bounds the requests to clients that are not done, of one client's connection or of one call on a
	// connection that clients share. A backend that always has a hundred open stays below it: it can send the next
	// request before the one whose response it has is done.
	maxQuestions = 128
	// maxQuestionBytes bounds their memory, in bytes. One request alone may be larger.
	maxQuestionBytes = 8 << 20
	// maxSharedQuestions bounds those of a connection that clients share.
	maxSharedQuestions = 10_000
)

var (
	errManyQuestions       = fmt.Errorf("%d requests to the client, or %d MB of them, are unanswered", maxQuestions, maxQuestionBytes>>20)
	errManySharedQuestions = fmt.Errorf("%d requests to clients are unanswered", maxSharedQuestions)
	errQuestionInUse       = errors.New("an unanswered request has this id")
)

// Table has the requests of one connection that are not done.
type Table struct {
	mu      sync.Mutex
	open    map[string]*Question // guarded by mu, by id: neither answered nor withdrawn
	undone  int                  // guarded by mu
	changed chan struct{}        // guarded by mu; closed and replaced when one is done
}

// Tally counts requests that are not done of a call, or of all calls of one client. The zero value has none.
type Tally struct {
	n, bytes int // guarded by the mutex of the Table
}

// Question is one request of a backend to a client.
type Question struct {
	table  *Table
	of     *Tally
	id     string
	bytes  int
	cancel context.CancelFunc
}

// NewQuestions returns an empty table.
func NewQuestions() *Table {
	return &Table{open: map[string]*Question{}, changed: make(chan struct{})}
}

// Add adds the request m, which cancel cancels, and counts it in of. The error is why it is refused.
func (t *Table) Add(of *Tally, m *wire.Message, cancel context.CancelFunc) (*Question, error) {
	q := &Question{table: t, of: of, id: string(m.ID), bytes: footprint(m), cancel: cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open[q.id] != nil:
		return nil, errQuestionInUse
	case of.n >= maxQuestions || of.n > 0 && of.bytes+q.bytes > maxQuestionBytes:
		return nil, errManyQuestions
	case t.undone >= maxSharedQuestions:
		return nil, errManySharedQuestions
	}
	t.open[q.id] = q
	t.undone++
	of.n, of.bytes = of.n+1, of.bytes+q.bytes
	return q, nil
}

// Answered ends the time in which the backend can cancel the request; false when it has done so.
func (q *Question) Answered() bool {
	t := q.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remove(q)
}

// remove removes an open request; false when it is not open. mu is held.
func (t *Table) remove(q *Question) bool {
	if t.open[q.id] != q {
		return false
	}
	delete(t.open, q.id)
	return true
}

// Done makes room for another request.
func (q *Question) Done() {
	t := q.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(q)
	t.undone--
	q.of.n, q.of.bytes = q.of.n-1, q.of.bytes-q.bytes
	close(t.changed)
	t.changed = make(chan struct{})
}

// Withdraw cancels a request after notifications/cancelled of the backend.
func (t *Table) Withdraw(id json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.open[string(id)]; q != nil {
		q.cancel()
		delete(t.open, q.id)
	}
}

// Undone returns the number of requests that are not done, and a channel that is closed when one is.
func (t *Table) Undone() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.undone, t.changed
}

// Settled waits until all requests are done; asked reports whether there was one. The error is that of ctx.
func (t *Table) Settled(ctx context.Context) (asked bool, err error) {
	for {
		undone, changed := t.Undone()
		if undone == 0 {
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
