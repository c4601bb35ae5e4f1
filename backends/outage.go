package backends

import (
	"context"
	"log/slog"
	"sync/atomic"
)

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
