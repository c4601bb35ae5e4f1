package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/runs/runstest/pgtest"
)

// testKills: 12 replicas are killed and 4 are stopped for longer than a lease while scripts run. Nothing is done twice, no
// answer is lost, every run ends right or in doubt.
func testKills(t *testing.T, pg *pgtest.Server) {
	w := started(t, pg, "")
	w.ledger.slow = 10 * time.Millisecond
	b := w.balanced(false, 0)
	stop := make(chan struct{})
	var mu sync.Mutex
	var runs []*run
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			kinds := []string{"seq", "par", "nested", "tries", "reserves", "slow"}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				kind := kinds[(i+n)%len(kinds)]
				r := w.newRun(b.URL, kind, fmt.Sprintf("%s-%d-%d", kind, i, n))
				r.repeats = true
				mu.Lock()
				runs = append(runs, r)
				mu.Unlock()
				if err := r.drive(t.Context()); err != nil {
					t.Error(err)
				}
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
