package backends

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// stableTime is how long a connection must have been open for its loss to reset the
	// backoff.
	stableTime   = 10 * time.Second
	checkTimeout = 10 * time.Second
	// reconnectTime bounds the first attempt after a loss; then the backend is Down.
	reconnectTime = 5 * time.Second
	// retireTime bounds how long a removed backend waits for its running calls.
	retireTime = 30 * time.Second
)

// The run loop, which alone opens the main connection, reads lists from it and sets the status:
//
//	             first attempt, or one after a loss          lists read
//	Connecting ────────────────────────────────────────────────► Ready
//	   │  ▲                                                      │  lost, found by the transport, or by check after
//	   │  └──────────────────────────────────────────────────────┘  CheckThreshold health checks without an answer
//	   │ the attempt fails
//	   ▼
//	  Down ── each wait (pace.Backoff) ends with another attempt ──► Ready
//
// While it is Connecting after a loss (State.Err is set) its offer stays in the catalog, and calls wait for the
// connection up to their timeout; while it is Down its offer is empty and calls fail at once. A connection that was
// open for stableTime resets the backoff. A failed call or list does not close the connection: it calls suspect, and
// the loop makes a health check. b.main is set while serve runs; calls that are still running on a lost connection fail
// by themselves (Conn.Abandon).
//
// run keeps the main connection until the backend is closed.
func (b *Backend) run() {
	var wait endpoint.Backoff
	for first := true; b.ctx.Err() == nil; first = false {
		if !first {
			b.stats.reconnects.Add(1)
		}
		start := time.Now()
		err := b.runOnce()
		if b.ctx.Err() != nil {
			return
		}
		if time.Since(start) > stableTime {
			wait.Reset()
			if err == nil {
				continue // reconnect at once
			}
		}
		if err != nil {
			n, level := b.outage.Failed()
			b.log.Log(context.WithoutCancel(b.ctx), level, "backend is still down", "attempts", n, "err", conn.Bare(err))
		}
		if b.State().Status == Connecting && err != nil {
			b.goDown(err)
		}
		b.rest(wait.Next())
	}
}

// goDown sets the state to Down and logs it, once per outage.
func (b *Backend) goDown(err error) {
	b.log.Warn("backend is down", "err", conn.Bare(err))
	b.setState(Down, err)
}

// runOnce opens the main connection and serves it until it is lost. It returns the
// error of a failed attempt to connect.
func (b *Backend) runOnce() error {
	limit := b.dialer.StartTime() + conn.ProbeTimeout
	if b.State().Err != nil && b.State().Status == Connecting {
		limit = reconnectTime // its offer is kept meanwhile
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, limit, conn.ErrDeadline)
	defer cancel()
	c, err := b.openMain(ctx)
	if err != nil {
		if b.State().Status == Down {
			b.setState(Down, err)
		}
		return err
	}
	defer func() {
		if !b.spawn(c.Abandon) {
			c.Close()
		}
	}()
	b.stale.Store(0) // refresh reads all lists
	if err := b.refresh(ctx, c, conn.All); err != nil {
		return err
	}
	b.main.Store(c)
	b.log.Info("backend is ready", "revision", c.Peer.Revision, "transport", b.dialer.Via(), "tools", len(b.Offer().Tools), b.outage.End())
	b.touch()
	b.setState(Ready, nil)
	b.serve(c)
	b.main.Store(nil)
	if b.ctx.Err() == nil {
		b.log.Warn("backend connection lost", "err", c.Cause())
		b.setState(Connecting, c.Cause())
	}
	return nil
}

func (b *Backend) openMain(ctx context.Context) (*conn.Conn, error) {
	p := conn.Purpose{Capabilities: allCapabilities, Turns: true}
	var err error
	if b.credentials.NeedsCaller() {
		if p.Credential, err = b.listerSource(ctx); err != nil {
			return nil, err
		}
	}
	return b.dialer.Open(ctx, p)
}

// serve refreshes lists and checks health until the connection is lost.
func (b *Backend) serve(c *conn.Conn) {
	if c.Modern {
		b.spawn(func() { b.listen(c) })
	} else {
		b.spawn(func() { b.restore(c) })
	}
	interval := b.settings.Load().CheckInterval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failed := 0
	for {
		select {
		case <-c.Lost():
			return
		case <-b.wake:
			if now := b.settings.Load().CheckInterval; now != interval {
				interval = now
				tick.Reset(interval)
			}
		case <-tick.C:
			b.expire()
			b.renewOutdated(c)
			if time.Since(b.lastAnswer()) >= interval {
				b.suspicious.Store(true)
			}
		}
		if b.suspicious.Swap(false) {
			failed = b.check(c, failed)
		}
		if bits := b.stale.Swap(0); bits != 0 && c.Usable() {
			b.update(c, bits)
		}
	}
}

// renewOutdated reads the lists whose ttlMs has passed, of a modern backend that does not
// announce changes.
func (b *Backend) renewOutdated(c *conn.Conn) {
	if !c.Modern || b.State().Listening {
		return
	}
	old := b.Offer()
	bits := old.Outdated(time.Since(b.fetched))
	if bits != 0 && b.refresh(c.Context(), c, bits) == nil && !reflect.DeepEqual(old, b.Offer()) {
		b.set.changed()
	}
}

// update reads lists that changed and calls Options.Changed, even when they are equal.
func (b *Backend) update(c *conn.Conn, bits conn.Bits) {
	if err := b.refresh(c.Context(), c, bits); err != nil {
		b.changedLater(bits)
		return
	}
	b.set.changed()
}

// changedLater marks lists as stale after a failed read; the next wake or check retries.
func (b *Backend) changedLater(bits conn.Bits) {
	b.stale.Or(bits)
	b.suspicious.Store(true)
}

// check makes a health check: ping, or server/discover of a modern backend. It returns
// the number of failures in a row. After CheckThreshold of them, or when the backend
// cannot be dialled, the connection counts as lost.
func (b *Backend) check(c *conn.Conn, failed int) int {
	method := wire.Ping
	if c.Modern {
		method = wire.Discover
	}
	resp, err := c.DoWithin(c.Context(), &Request{Method: method}, min(checkTimeout, b.Timeout()))
	if err == nil {
		resp.Close()
	}
	if err == nil || conn.KindOf(err) == 0 || conn.KindOf(err) == Protocol && !errors.Is(err, conn.ErrPage) {
		b.touch() // an error response shows that the backend is alive
		return 0
	}
	if conn.IsCredentialError(err) {
		if conn.KindOf(err) == Denied {
			c.Fail(err)
		}
		return failed // the check was not sent
	}
	failed++
	b.log.Info("health check failed", "err", conn.Bare(err), "failed", failed)
	// A backend that is busy with calls may be slow to answer a check.
	set := b.settings.Load()
	busy := b.dialer.Counts().Running.Load() > 0 && time.Since(b.lastAnswer()) < time.Duration(set.CheckThreshold)*set.CheckInterval
	if failed >= set.CheckThreshold && !busy || conn.IsDialError(err) {
		c.Fail(err)
	}
	return failed
}

// suspect asks the run loop for a health check at once, after another failure.
func (b *Backend) suspect() {
	b.suspicious.Store(true)
	b.wakeLoop()
}

func (b *Backend) touch() { b.active.Store(time.Now().UnixNano()) }

func (b *Backend) lastAnswer() time.Time { return time.Unix(0, b.active.Load()) }

// retire closes a backend that is no longer configured, after its running calls.
func (b *Backend) retire() {
	b.retiring.Store(true)
	limit := time.NewTimer(retireTime)
	defer limit.Stop()
	for b.busy() {
		select {
		case <-b.quiet:
			continue
		case <-limit.C:
		case <-b.set.done:
		}
		break
	}
	b.close()
}

// idle is called when the last running call has ended.
func (b *Backend) idle() {
	if !b.retiring.Load() {
		return
	}
	select {
	case b.quiet <- struct{}{}:
	default:
	}
}
