package backends

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/child"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// counters are the sources of Stats.
type counters struct {
	calls, failures, timeouts, reconnects, refused, cancelled atomic.Uint64
	waiting                                                   atomic.Int64 // calls that wait for a connection
	entered                                                   atomic.Int64 // calls between enter and leave
	lastCall                                                  atomic.Int64 // when it began, in unix nanoseconds; 0 for none
}

// Stats are counters since the backend was configured, and gauges.
type Stats struct {
	Calls      uint64
	Failures   uint64 // calls without a response
	Timeouts   uint64 // failures by the deadline
	Reconnects uint64
	Malformed  uint64 // lines and events that are not JSON-RPC messages
	Dropped    uint64 // notifications dropped because their caller was too slow

	Refused uint64 // calls refused because all connections or sessions were in use

	Cancelled uint64 // calls whose caller cancelled them
	Waiting   int64  // calls that wait for a connection, or for their turn on one
	Breaker   int    // 0 closed, 1 half open, 2 open

	Running     int64 // calls
	Connections int64 // child processes, and over HTTP connections with an event stream
	Sessions    int64 // private sessions
	Children    int64
	LastCall    time.Time // when it began; zero for none
}

// Process is a process of a backend over stdio.
type Process = child.Process

// Processes returns the running child processes.
func (b *Backend) Processes() []Process { return b.dialer.Counts().Children.List() }

// Stats returns the counters.
func (b *Backend) Stats() Stats {
	s, c := &b.stats, b.dialer.Counts()
	connections, sessions := b.pool.size()
	return Stats{
		Calls: s.calls.Load(), Failures: s.failures.Load(), Timeouts: s.timeouts.Load(),
		Cancelled: s.cancelled.Load(), Waiting: s.waiting.Load(), Breaker: b.settings.Load().Breaker.State(),
		Reconnects: s.reconnects.Load(), Malformed: c.Malformed.Load(), Dropped: c.Dropped.Load(), Refused: s.refused.Load(),
		Running: c.Running.Load(), Connections: c.Connections.Load() + connections, Children: int64(c.Children.Len()), Sessions: sessions, LastCall: lastCall(s.lastCall.Load()),
	}
}

func lastCall(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// Call sends one request and waits for its response. A *wire.Error is the backend's error
// response; any other error is an *Error. The response must be closed.
func (b *Backend) Call(ctx context.Context, r *Request) (*Response, error) {
	b = b.enter()
	defer b.leave()
	b.stats.calls.Add(1)
	b.stats.lastCall.Store(time.Now().UnixNano())
	if err := b.settings.Load().Breaker.Allow(); err != nil {
		return nil, b.count(&Error{Backend: b.name, Kind: Unavailable, Err: err})
	}
	resp, err := b.attempt(ctx, r)
	if err != nil && b.again(ctx, r, err) {
		resp, err = b.attempt(ctx, r)
	}
	return resp, b.count(err)
}

// again reports whether a failed call may be retried once: the backend has forgotten the
// session, so that it was not executed, or it is idempotent.
func (b *Backend) again(ctx context.Context, r *Request, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	return errors.Is(err, conn.ErrSessionGone) || r.Idempotent && conn.KindOf(err) == Interrupted
}

// attempt makes the call once.
func (b *Backend) attempt(ctx context.Context, r *Request) (*Response, error) {
	c, held, err := b.acquire(ctx, r.For)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(ctx, r)
	if err == nil && resp.Body != nil {
		resp.OnClose(held.release)
		return resp, nil
	}
	held.release()
	return resp, err
}

// count updates statistics and circuit breaker by the outcome of a call, and asks for a
// health check after a failure. It returns err.
func (b *Backend) count(err error) error {
	if err == nil || conn.IsAnswer(err) {
		b.touch()
		b.settings.Load().Breaker.Succeeded()
		return err
	}
	switch conn.KindOf(err) {
	case Cancelled:
		b.stats.cancelled.Add(1)
		return err
	case Unavailable, Denied:
		if conn.IsCredentialError(err) { // the backend was not reached
			b.stats.failures.Add(1)
			return err
		}
		b.suspect()
	case Timeout:
		b.stats.timeouts.Add(1)
		b.suspect()
	case Interrupted:
		b.suspect()
	}
	b.stats.failures.Add(1)
	b.settings.Load().Breaker.Failed()
	return err
}
