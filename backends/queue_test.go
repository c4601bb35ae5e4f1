package backends

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestFullQueueGivesTheCallUp: a result is never passed on as if everything before it had
// been, too.
func TestFullQueueGivesTheCallUp(t *testing.T) {
	q := newQueue()
	note := wire.Message{Method: wire.LogMessage, Params: make(json.RawMessage, 100_000)}
	n := 0
	for q.put(note) {
		n++
	}
	if held := n * len(note.Params); held < maxQueued || held > maxQueued+2*len(note.Params) {
		t.Errorf("the queue took %d bytes, the bound is %d", held, maxQueued)
	}
	q.finish(wire.Message{ID: json.RawMessage("1"), Result: json.RawMessage("{}")}, nil)
	if _, answer, _, err := q.take(); answer != nil || !errors.Is(err, errSlowCaller) {
		t.Errorf("the answer %v came out, %v", answer, err)
	}
}

// TestPrivateQueueHoldsItsProcessBack: where a process is one client's own, its output
// waits for that client.
func TestPrivateQueueHoldsItsProcessBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := &call{conn: &conn{private: true}, queue: newQueue(), ctx: ctx}
		note := wire.Message{Method: wire.LogMessage, Params: make(json.RawMessage, 100_000)}
		sent := 0
		go func() {
			for ; sent < 200; sent++ {
				k.deliver(note, onClientStream)
			}
		}()
		synctest.Wait()
		if held := sent * len(note.Params); held > maxQueued+2*len(note.Params) || held < maxQueued {
			t.Errorf("%d bytes were taken before anybody read", held)
		}
		taken := 0
		for taken < 200 {
			items, _, _, err := k.queue.take()
			if err != nil {
				t.Fatal(err)
			}
			taken += len(items)
			synctest.Wait()
		}
		k.queue = newQueue() // full again, until the call ends
		for range maxQueued/len(note.Params) + 2 {
			k.queue.put(note)
		}
		cancel()
		k.deliver(note, onClientStream)
	})
}

// A backend that answers twice is taken at its first word, however late the caller looks.
func TestTheFirstAnswerCounts(t *testing.T) {
	q := newQueue()
	for _, result := range []string{`1`, `2`} {
		q.finish(wire.Message{Result: []byte(result)}, nil)
	}
	if _, answer, _, err := q.take(); err != nil || string(answer.Result) != `1` {
		t.Errorf("the answer is %s, %v", answer.Result, err)
	}
}
