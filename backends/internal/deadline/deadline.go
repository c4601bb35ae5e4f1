// Package deadline is the time that one call may take: it starts again with progress, and
// stands still while the one who answers waits for the one who asked.
package deadline

import (
	"context"
	"sync"
	"time"
)

// maxCallTime ends a call that keeps reporting progress without ever answering.
const maxCallTime = time.Hour

// Clock is the deadline of one call. It starts again on progress, and stands still
// while the backend waits for the client or the client for its bytes.
type Clock struct {
	cancel  context.CancelCauseFunc
	detach  func() bool // from the caller's context
	limit   time.Duration
	expired error // the cause when the time is over

	mu      sync.Mutex
	timer   *time.Timer // guarded by mu
	spent   time.Duration
	since   time.Time
	waiting int           // reasons to stand still
	until   time.Time     // when the timer fires
	left    time.Duration // to go on with after Interrupt
	stopped bool
}

// Start returns a context that ends with the caller's, or with the cause expired after
// limit. A limit of 0 never ends. It is no child of the caller's context: an answered
// stream may outlive its caller for a moment.
func Start(caller context.Context, limit time.Duration, expired error) (context.Context, *Clock) {
	ctx, cancel := context.WithCancelCause(context.Background())
	k := &Clock{cancel: cancel, limit: limit, expired: expired}
	k.detach = context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	if limit > 0 {
		k.since = time.Now()
		k.until = k.since.Add(limit)
		k.timer = time.AfterFunc(limit, k.expire)
	}
	return ctx, k
}

// Limit is how long the call may take without progress; 0 for any time.
func (k *Clock) Limit() time.Duration { return k.limit }

// Cancel ends the context.
func (k *Clock) Cancel(cause error) { k.cancel(cause) }

func (k *Clock) expire() { k.cancel(k.expired) }

// Extend grants the full limit again, up to maxCallTime in all.
func (k *Clock) Extend() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting == 0 {
		k.start(k.limit)
	}
}

// start has the timer fire after d, within maxCallTime in all. mu is held.
func (k *Clock) start(d time.Duration) {
	d = min(d, max(maxCallTime-k.spent, 0))
	k.until = k.since.Add(d)
	k.timer.Reset(d)
}

// Interrupt is Pause for what earns no new time: Continue goes on with what is left.
func (k *Clock) Interrupt() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting++; k.waiting == 1 {
		k.timer.Stop()
		k.left = k.until.Sub(k.since)
	}
}

// Continue undoes one Interrupt.
func (k *Clock) Continue() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting--; k.waiting == 0 {
		k.start(k.left)
	}
}

// lock takes mu and adds the time since the last look. It is false, and mu is free, when nothing
// is measured any more.
func (k *Clock) lock() bool {
	k.mu.Lock()
	if k.timer == nil || k.stopped {
		k.mu.Unlock()
		return false
	}
	k.account()
	return true
}

// account adds the time since the last look. mu is held.
func (k *Clock) account() {
	now := time.Now()
	if k.waiting == 0 {
		k.spent += now.Sub(k.since)
	}
	k.since = now
}

// Pause stops the clock until Resume.
func (k *Clock) Pause() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	if k.waiting++; k.waiting == 1 {
		k.timer.Stop()
	}
}

// Resume undoes one Pause and grants the full limit again.
func (k *Clock) Resume() {
	if !k.lock() {
		return
	}
	defer k.mu.Unlock()
	k.left = k.limit
	if k.waiting--; k.waiting == 0 {
		k.start(k.limit)
	}
}

// Stop ends the clock; the context it made then ends only by cancel.
func (k *Clock) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.detach()
	if k.timer != nil {
		k.timer.Stop()
	}
}
