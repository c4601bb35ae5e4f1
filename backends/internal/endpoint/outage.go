package endpoint

import (
	"log/slog"
	"sync/atomic"
)

// Outage chooses the log levels for a backend that cannot be reached. The first attempt,
// with the standard error of its process, is logged as usual. Later ones would repeat it
// every few seconds: they are logged at level debug, and their number as a warning at
// powers of ten.
type Outage struct {
	starts   atomic.Int32 // processes started since the backend was last ready
	attempts atomic.Int32 // failed attempts since then
}

// StartLevel counts the start of a process and returns the level to log it at.
func (o *Outage) StartLevel(ready bool) slog.Level {
	if !ready {
		o.starts.Add(1)
	}
	return o.Level(ready)
}

// Level returns the level of a line of a process whose backend is ready or not.
func (o *Outage) Level(ready bool) slog.Level {
	if !ready && o.starts.Load() > 1 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// Failed counts a failed attempt. It returns the number of attempts and the level to log it at:
// warning for the tenth, the hundredth and so on.
func (o *Outage) Failed() (attempts int, level slog.Level) {
	n := o.attempts.Add(1)
	for power := int32(10); power > 0 && power <= n; power *= 10 {
		if n == power {
			return int(n), slog.LevelWarn
		}
	}
	return int(n), slog.LevelDebug
}

// End ends the outage: the backend is ready. It returns an attribute with the number of
// attempts, if it was not the first.
func (o *Outage) End() slog.Attr {
	o.starts.Store(0)
	if failed := o.attempts.Swap(0); failed > 0 {
		return slog.Int("attempts", int(failed)+1)
	}
	return slog.Attr{}
}
