package endpoint_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
)

// TestLimiter: a flood is limited and the number of dropped lines reported, and slow lines are
// not dropped.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := 0
		reports := make(chan int, 10) // each comes from a goroutine of its own
		c := &endpoint.Limiter{Burst: 20, Rate: 10, Report: func(n int) { reports <- n }}
		for range 2000 {
			if c.Allow() {
				allowed++
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		leftOut, count := 0, len(reports)
		for range count {
			leftOut += <-reports
		}
		if allowed < 35 || allowed > 45 || allowed+leftOut != 2000 || count > 3 {
			t.Errorf("of 2000 in 2 s %d were logged, %d left out by %d reports; want about 40 and the rest", allowed, leftOut, count)
		}
		for range 50 {
			time.Sleep(time.Second / 10)
			if !c.Allow() {
				t.Fatal("a message at a human pace was left out")
			}
		}
	})
}
