package endpoint

import (
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

const (
	defaultFailures = 5
	defaultOpenTime = 60 * time.Second
)

// Breaker is a circuit breaker: after a number of failures in a row it refuses calls
// for a time, and then allows one as a trial. A nil *Breaker allows all calls.
type Breaker struct {
	threshold int
	open      time.Duration

	mu       sync.Mutex
	failures int       // guarded by mu: in a row
	until    time.Time // guarded by mu: no calls before
}

// ErrOpen is the error of Allow for a refused call.
var ErrOpen = errors.New("circuit breaker is open after repeated failures")

// NewBreaker makes a breaker as configured; nil where it is not enabled.
func NewBreaker(cfg *config.CircuitBreaker) *Breaker {
	if cfg == nil || !cfg.Enabled {
		return nil
	}
	b := &Breaker{threshold: cfg.FailureThreshold, open: cfg.Timeout.Std()}
	if b.threshold <= 0 {
		b.threshold = defaultFailures
	}
	if b.open <= 0 {
		b.open = defaultOpenTime
	}
	return b
}

// Allow returns nil if a call may be made, else ErrOpen. When the open time has passed,
// one call is allowed as a trial; others are refused until it has succeeded, or the
// open time has passed again.
func (b *Breaker) Allow() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < b.threshold {
		return nil
	}
	if time.Now().Before(b.until) {
		return ErrOpen
	}
	b.until = time.Now().Add(b.open)
	return nil
}

// State returns 0 for closed, 1 for half open (the next call is the trial), 2 for open.
func (b *Breaker) State() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures < b.threshold:
		return 0
	case time.Now().Before(b.until):
		return 2
	}
	return 1
}

// Succeeded records a call with a response.
func (b *Breaker) Succeeded() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// Failed records a call without a response.
func (b *Breaker) Failed() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures++; b.failures >= b.threshold {
		b.until = time.Now().Add(b.open)
	}
}
