package pace

import (
	"log/slog"
	"sync/atomic"
)

// Outage says how much of a backend that cannot be reached goes to the log. The first
// attempt is logged as any other event, with what its process writes to standard error.
// What the next ones write would be the same every few seconds: it is logged at level
// debug, and their number from time to time.
type Outage struct {
	starts   atomic.Int32 // processes started since the backend was last ready
	attempts atomic.Int32 // attempts that went wrong since then
}

// StartLevel counts the start of a process and is the level to log it at.
func (o *Outage) StartLevel(ready bool) slog.Level {
	if !ready {
		o.starts.Add(1)
	}
	return o.Level(ready)
}

// Level is that of a line that a process writes while its backend is ready or not.
func (o *Outage) Level(ready bool) slog.Level {
	if !ready && o.starts.Load() > 1 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// Failed counts an attempt that went wrong. It returns their number and the level to log it at:
// the tenth, the hundredth and so on are worth a warning.
func (o *Outage) Failed() (attempts int, level slog.Level) {
	n := o.attempts.Add(1)
	for power := int32(10); power > 0 && power <= n; power *= 10 {
		if n == power {
			return int(n), slog.LevelWarn
		}
	}
	return int(n), slog.LevelDebug
}

// End ends the outage: the backend is ready. It returns how many attempts that took, if
// it was not the first.
func (o *Outage) End() slog.Attr {
	o.starts.Store(0)
	if failed := o.attempts.Swap(0); failed > 0 {
		return slog.Int("attempts", int(failed)+1)
	}
	return slog.Attr{}
}
