package backends

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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

// outage says how much of a backend that cannot be reached goes to the log. The first
// attempt is logged as any other event, with what its process writes to standard error.
// What the next ones write would be the same every few seconds: it is logged at level
// debug, and their number from time to time.
type outage struct {
	starts   atomic.Int32 // processes started since the backend was last ready
	attempts atomic.Int32 // attempts that went wrong since then
}

// startLevel counts the start of a process and is the level to log it at.
func (o *outage) startLevel(s State) slog.Level {
	if s.Status != Ready {
		o.starts.Add(1)
	}
	return o.level(s)
}

// level is that of a line that a process writes while the backend is in the state s.
func (o *outage) level(s State) slog.Level {
	if s.Status != Ready && o.starts.Load() > 1 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// failed counts an attempt that went wrong, and logs the tenth, the hundredth and so on.
func (o *outage) failed(b *Backend, err error) {
	n := o.attempts.Add(1)
	level := slog.LevelDebug
	for power := int32(10); power > 0 && power <= n; power *= 10 {
		if n == power {
			level = slog.LevelWarn
		}
	}
	b.log.Log(context.WithoutCancel(b.ctx), level, "backend is still down", "attempts", n, "err", bare(err))
}

// end ends the outage: the backend is ready. It returns how many attempts that took, if
// it was not the first.
func (o *outage) end() slog.Attr {
	o.starts.Store(0)
	if failed := o.attempts.Swap(0); failed > 0 {
		return slog.Int("attempts", int(failed)+1)
	}
	return slog.Attr{}
}
