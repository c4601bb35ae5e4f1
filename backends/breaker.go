package backends

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

// breaker stops calls to a backend that keeps failing, and lets one through after a
// while to see. A nil breaker lets everything through.
type breaker struct {
	threshold int
	open      time.Duration

	mu       sync.Mutex
	failures int       // guarded by mu: in a row
	until    time.Time // guarded by mu: no calls before
}

var errBreakerOpen = errors.New("circuit breaker is open after repeated failures")

func newBreaker(cfg *config.CircuitBreaker) *breaker {
	if cfg == nil || !cfg.Enabled {
		return nil
	}
	b := &breaker{threshold: cfg.FailureThreshold, open: cfg.Timeout.Std()}
	if b.threshold <= 0 {
		b.threshold = defaultFailures
	}
	if b.open <= 0 {
		b.open = defaultOpenTime
	}
	return b
}

// allow reports whether a call may go out. Once the time is over, one call may, and
// the others wait for its outcome behind the breaker.
func (b *breaker) allow() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < b.threshold {
		return nil
	}
	if time.Now().Before(b.until) {
		return errBreakerOpen
	}
	b.until = time.Now().Add(b.open)
	return nil
}

func (b *breaker) succeeded() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

func (b *breaker) failed() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures++; b.failures >= b.threshold {
		b.until = time.Now().Add(b.open)
	}
}
