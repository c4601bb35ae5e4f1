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
		told, reports, allowed := 0, 0, 0
		c := &logLimiter{burst: messageBurst, rate: messageRate, report: func(n int) { told += n; reports++ }}
		for range 2000 {
			if c.allow() {
				allowed++
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * reportEvery)
		synctest.Wait()
		if allowed < 35 || allowed > 45 || allowed+told != 2000 || reports > 3 {
			t.Errorf("of 2000 in 2 s %d were logged, %d told of in %d reports; want about 40 and the rest", allowed, told, reports)
		}
		for range 50 {
			time.Sleep(time.Second / messageRate)
			if !c.allow() {
				t.Fatal("a message at a human pace was left out")
			}
		}
	})
}
