package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPingsOfAStoreThatHangs: callers soon get the last known state, one ping is in progress at a time, and a store
// that has not answered in time is unavailable.
func TestPingsOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pings
		var begun atomic.Int32
		hangs, away := make(chan struct{}), errors.New("away")
		ping := func() error {
			begun.Add(1)
			select {
			case <-hangs:
				return nil
			case <-time.After(pingWithin):
				return away
			}
		}
		spawn := func(f func()) bool { go f(); return true }
		began := time.Now()
		ask := func(want error, within time.Duration) {
			t.Helper()
			since := time.Now()
			if err := p.ask(t.Context(), ping, spawn); err != want || time.Since(since) != within {
				t.Errorf("after %s: %v in %s, want %v in %s", time.Since(began), err, time.Since(since), want, within)
			}
		}
		ask(errUnasked, pingShown) // nothing is known
		close(hangs)
		synctest.Wait()
		ask(nil, 0)
		hangs = make(chan struct{})
		ask(nil, pingShown) // as before
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { ask(nil, pingShown) })
		}
		all.Wait()
		time.Sleep(pingWithin)
		ask(away, pingShown)
		if n := begun.Load(); n != 4 {
			t.Errorf("%d pings were begun, want 4", n)
		}
		close(hangs)
		synctest.Wait()
		ask(nil, 0)
		if err := p.ask(t.Context(), ping, func(func()) bool { return false }); err != nil {
			t.Errorf("at the end of the process: %v", err)
		}
	})
}
