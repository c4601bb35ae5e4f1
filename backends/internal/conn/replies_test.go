package conn

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepliesAreBounded: of a backend that takes no response, so many are being sent and so many wait; what comes then waits for
// room as long as it may, and is sent in its turn once the backend takes them.
func TestRepliesAreBounded(t *testing.T) {
	for _, most := range []int{1, maxSending} {
		synctest.Test(t, func(t *testing.T) {
			taken, sent, started := make(chan struct{}), make(chan string, 1000), 0
			r := replies{most: most, send: func(frame []byte) { <-taken; sent <- string(frame) }}
			spawn := func(f func()) bool { started++; go f(); return true }
			add := func(frame string, wait time.Duration) bool {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				return r.add(ctx, spawn, []byte(frame))
			}
			for i := range most + maxReplies {
				if !add(fmt.Sprint(i), 0) {
					t.Fatalf("response %d finds no room", i)
				}
			}
			began := time.Now()
			if add("too many", fullTime) || time.Since(began) != fullTime {
				t.Errorf("a response beyond the bound found room, or did not wait %v: %v", fullTime, time.Since(began))
			}
			if started != most {
				t.Errorf("%d goroutines send, want %d", started, most)
			}
			go add("late", fullTime)
			synctest.Wait()
			close(taken)
			synctest.Wait()
			close(sent)
			n, last := 0, ""
			for last = range sent {
				n++
			}
			if n != most+maxReplies+1 || most == 1 && last != "late" {
				t.Errorf("%d responses were sent, the last is %s; want %d, and late", n, last, most+maxReplies+1)
			}
			if r.sending != 0 || r.waiting != nil {
				t.Errorf("%d goroutines are left, and %d responses", r.sending, len(r.waiting))
			}
		})
	}
}
