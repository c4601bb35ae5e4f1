package conn

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestPrivateQueueHoldsItsProcessBack: a slow client blocks the output of its private
// process.
func TestPrivateQueueHoldsItsProcessBack(t *testing.T) {
	const most = maxPrivateQueued
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
			for i := range items {
				k.queue.Handled(&items[i])
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

// TestQueuedMessagesTakeNoMoreThanTheirBound: a full queue takes about the memory that its bound says, also of small messages,
// and of messages in frames with other members.
func TestQueuedMessagesTakeNoMoreThanTheirBound(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"p%d","method":"roots/list","params":{}%s}` + "\n"
	for name, member := range map[string]string{"small": "", "with another member": `,"x":"` + strings.Repeat("x", 20_000) + `"`} {
		t.Run(name, func(t *testing.T) {
			c := &Conn{private: true}
			c.idleCall = &call{conn: c, queue: NewQueue(), ctx: t.Context()}
			x := &multiplexer{c: c}
			before := heap()
			for i := 0; c.idleCall.queue.bytes <= maxPrivateQueued; i++ {
				frame, held, err := ReadLine(bufio.NewReaderSize(strings.NewReader(fmt.Sprintf(question, i, member)), 16), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				x.dispatch(frame, held)
			}
			if grown := heap() - before; grown > 2*maxPrivateQueued {
				t.Errorf("%d messages take %d bytes, the bound is %d", len(c.idleCall.queue.items), grown, maxPrivateQueued)
			}
			runtime.KeepAlive(c)
		})
	}
}

// heap is the size of what is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
