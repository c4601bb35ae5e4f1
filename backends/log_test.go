package backends

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLogLimiter: a flood is cut, what was left out is told, and what comes at a human pace
// is there in full.
func TestLogLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := 0
		reports := make(chan int, 10) // each comes from a goroutine of its own
		c := &logLimiter{burst: messageBurst, rate: messageRate, report: func(n int) { reports <- n }}
		for range 2000 {
			if c.allow() {
				allowed++
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * reportEvery)
		synctest.Wait()
		told, count := 0, len(reports)
		for range count {
			told += <-reports
		}
		if allowed < 35 || allowed > 45 || allowed+told != 2000 || count > 3 {
			t.Errorf("of 2000 in 2 s %d were logged, %d told of in %d reports; want about 40 and the rest", allowed, told, count)
		}
		for range 50 {
			time.Sleep(time.Second / messageRate)
			if !c.allow() {
				t.Fatal("a message at a human pace was left out")
			}
		}
	})
}
