//go:build suites

package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// testKills: 12 replicas are killed and 4 are stopped for longer than a lease while scripts of clients of both eras run. No effect is made twice, no
// answer is lost, every run ends with the right result or in doubt.
func testKills(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	w.ledger.slow = 10 * time.Millisecond
	b := w.balanced(false, 0)
	stop := make(chan struct{})
	var mu sync.Mutex
	var runs []*run
	var clients sync.WaitGroup
	add := func(r *run) { mu.Lock(); defer mu.Unlock(); runs = append(runs, r) }
	for i := range 6 {
		clients.Go(func() {
			v := &visitor{w: w, url: b.URL}
			kinds := []string{"seq", "par", "nested", "tries", "reserves", "slow"}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				kind := kinds[(i+n)%len(kinds)]
				id := fmt.Sprintf("%s-%d-%d", kind, i, n)
				if i%3 == 2 {
					r, err := v.run(t.Context(), kind, id)
					if err != nil {
						t.Error(err)
					}
					add(r)
					continue
				}
				r := w.newRun(b.URL, kind, id)
				r.repeats = true
				if err := r.drive(t.Context()); err != nil {
					t.Error(err)
				}
				add(r)
			}
		})
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := range 16 {
		<-time.After(time.Duration(200+rng.IntN(400)) * time.Millisecond)
		r := w.replicas[rng.IntN(3)]
		if i%4 == 3 {
			r.signal(syscall.SIGSTOP)
			<-time.After(3 * time.Second)
			r.signal(syscall.SIGCONT)
			continue
		}
		r.process.Kill()
		r.start()
		r.awaitReady()
	}
	close(stop)
	clients.Wait()
	doubts := 0
	for _, r := range runs {
		for r.doubt {
			doubts++
			if r.kind == "tries" {
				t.Errorf("%s is in doubt, and all its calls are caught", r.id)
			}
			if err := r.resolve(); err != nil {
				t.Error(err)
				break
			}
			r.repeats = true
			if err := r.drive(t.Context()); err != nil {
				t.Error(err)
				break
			}
		}
		if err := r.check(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d runs, 12 kills, 4 stops, %d doubts", len(runs), doubts)
	if len(runs) < 30 {
		t.Errorf("%d runs are no load", len(runs))
	}
}
