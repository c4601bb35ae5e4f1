package endpoint

import (
	"sync"
	"time"
)

// reportEvery is the interval of reports about dropped lines.
const reportEvery = time.Second

// Limiter is a token bucket that bounds the lines of a backend in the log, and reports how many
// were dropped.
type Limiter struct {
	Burst, Rate float64           // lines at once, and lines per second
	Report      func(leftOut int) // called at most once a second, on a timer's goroutine

	mu      sync.Mutex
	tokens  float64 // guarded by mu, like all below; spent ones
	last    time.Time
	leftOut int
}

// Allow reports whether one more may be logged.
func (c *Limiter) Allow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.tokens = max(0, c.tokens-now.Sub(c.last).Seconds()*c.Rate)
	c.last = now
	if c.tokens+1 <= c.Burst {
		c.tokens++
		return true
	}
	if c.leftOut++; c.leftOut == 1 {
		time.AfterFunc(reportEvery, c.reportLeftOut)
	}
	return false
}

func (c *Limiter) reportLeftOut() {
	c.mu.Lock()
	n := c.leftOut
	c.leftOut = 0
	c.mu.Unlock()
	c.Report(n)
}
