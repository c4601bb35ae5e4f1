package conn_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// maxQueued is about the bound of a queue.
const maxQueued = 4 << 20

// TestFullQueueGivesTheCallUp: a result is not forwarded if messages before it were dropped.
func TestFullQueueGivesTheCallUp(t *testing.T) {
	q := conn.NewQueue()
	note := wire.Message{Method: wire.LogMessage, Params: make(json.RawMessage, 100_000)}
	n := 0
	for q.Put(note) {
		n++
	}
	if held := n * len(note.Params); held < maxQueued || held > maxQueued+2*len(note.Params) {
		t.Errorf("the queue took %d bytes, the bound is %d", held, maxQueued)
	}
	q.Finish(wire.Message{ID: json.RawMessage("1"), Result: json.RawMessage("{}")}, nil)
	if _, answer, _, err := q.Take(); answer != nil || !errors.Is(err, conn.ErrFull) {
		t.Errorf("the answer %v came out, %v", answer, err)
	}
}

// TestHandledMessagesMakeRoom: messages count until they are handled, not until they are taken.
func TestHandledMessagesMakeRoom(t *testing.T) {
	q := conn.NewQueue()
	note := wire.Message{Method: wire.LogMessage, Params: make(json.RawMessage, 600<<10)}
	q.Put(note)
	q.Put(note)
	items, _, _, err := q.Take()
	if err != nil || len(items) != 2 {
		t.Fatalf("%d messages, %v", len(items), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if q.Await(ended) {
		t.Error("there is room while both are handled")
	}
	if q.Handled(&items[0]); !q.Await(ended) || !q.Put(note) {
		t.Error("there is no room after one was handled")
	}
}

// Of two responses the first one counts, also if both are queued.
func TestTheFirstAnswerCounts(t *testing.T) {
	q := conn.NewQueue()
	for _, result := range []string{`1`, `2`} {
		q.Finish(wire.Message{Result: []byte(result)}, nil)
	}
	if _, answer, _, err := q.Take(); err != nil || string(answer.Result) != `1` {
		t.Errorf("the answer is %s, %v", answer.Result, err)
	}
}
