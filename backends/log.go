package backends

import (
	"sync"
	"time"
)

const (
	// A backend's log messages that belong to no client, and the lines of its stderr, go
	// to our log: so many at once, and then so many a second.
	messageBurst, messageRate = 20, 10
	stderrBurst, stderrRate   = 200, 20
	// reportEvery is how often it is logged how much was left out.
	reportEvery = time.Second
)

// logLimiter lets a bounded amount of what a backend writes into the log, and reports how much it
// left out.
type logLimiter struct {
	burst, rate float64
	report      func(leftOut int) // called at most once every reportEvery, by a goroutine of its own

	mu      sync.Mutex
	tokens  float64 // guarded by mu, like all below; spent ones
	last    time.Time
	leftOut int
}

// allow reports whether one more may be logged.
func (c *logLimiter) allow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.tokens = max(0, c.tokens-now.Sub(c.last).Seconds()*c.rate)
	c.last = now
	if c.tokens+1 <= c.burst {
		c.tokens++
		return true
	}
	if c.leftOut++; c.leftOut == 1 {
		time.AfterFunc(reportEvery, c.tellLeftOut)
	}
	return false
}

func (c *logLimiter) tellLeftOut() {
	c.mu.Lock()
	n := c.leftOut
	c.leftOut = 0
	c.mu.Unlock()
	c.report(n)
}
