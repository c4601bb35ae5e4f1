package conn

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestPrivateQueueHoldsItsProcessBack: a slow client blocks the output of its private
// process.
func TestPrivateQueueHoldsItsProcessBack(t *testing.T) {
	const most = 4 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := &call{conn: &Conn{private: true}, queue: NewQueue(), ctx: ctx}
		note := wire.Message{Method: wire.LogMessage, Params: make(json.RawMessage, 100_000)}
		sent := 0
		go func() {
			for ; sent < 200; sent++ {
				k.deliver(note, onClientStream)
			}
		}()
		synctest.Wait()
		if held := sent * len(note.Params); held > most+2*len(note.Params) || held < most {
			t.Errorf("%d bytes were taken before anybody read", held)
		}
		taken := 0
		for taken < 200 {
			items, _, _, err := k.queue.Take()
			if err != nil {
				t.Fatal(err)
			}
			taken += len(items)
			synctest.Wait()
		}
		k.queue = NewQueue() // full again, until the call ends
		for range most/len(note.Params) + 2 {
			k.queue.Put(note)
		}
		cancel()
		k.deliver(note, onClientStream)
	})
}
