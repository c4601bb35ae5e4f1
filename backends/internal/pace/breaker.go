package pace

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

// Breaker stops calls to a backend that keeps failing, and lets one through after a
// while to see. A nil *Breaker lets everything through.
type Breaker struct {
	threshold int
	open      time.Duration

	mu       sync.Mutex
	failures int       // guarded by mu: in a row
	until    time.Time // guarded by mu: no calls before
}

// ErrOpen is what Allow refuses a call with.
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

// Allow reports whether a call may go out. Once the time is over, one call may, and
// the others wait for its outcome behind the breaker.
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

// State is 0 while calls go out, 2 while none does, and 1 when the next one tries.
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

// Succeeded notes a call that was answered.
func (b *Breaker) Succeeded() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// Failed notes a call that the backend did not answer.
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
