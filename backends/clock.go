package backends

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// maxCallTime ends a call that keeps reporting progress without ever answering.
const maxCallTime = time.Hour

// clock is the deadline of one call. It starts again on progress, and stands still
// while the backend waits for the client or the client for its bytes.
type clock struct {
	cancel context.CancelCauseFunc
	detach func() bool // from the caller's context
	limit  time.Duration

	mu      sync.Mutex
	timer   *time.Timer // guarded by mu
	spent   time.Duration
	since   time.Time
	waiting int // reasons to stand still
	stopped bool
}

// startClock returns a context that ends with the caller's, or with cause errDeadline
// after limit. A limit of 0 never ends. It is no child of the caller's context: an
// answered stream may outlive its caller for a moment, see drain.
func startClock(caller context.Context, limit time.Duration) (context.Context, *clock) {
	ctx, cancel := context.WithCancelCause(context.Background())
	k := &clock{cancel: cancel, limit: limit}
	k.detach = context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	if limit > 0 {
		k.since = time.Now()
		k.timer = time.AfterFunc(limit, k.expire)
	}
	return ctx, k
}

func (k *clock) expire() { k.cancel(errDeadline) }

// extend grants the full limit again, up to maxCallTime in all.
func (k *clock) extend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer == nil || k.stopped {
		return
	}
	k.account()
	if k.waiting == 0 {
		k.timer.Reset(min(k.limit, max(maxCallTime-k.spent, 0)))
	}
}

// account adds the time since the last look. mu is held.
func (k *clock) account() {
	now := time.Now()
	if k.waiting == 0 {
		k.spent += now.Sub(k.since)
	}
	k.since = now
}

func (k *clock) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer == nil || k.stopped {
		return
	}
	k.account()
	if k.waiting++; k.waiting == 1 {
		k.timer.Stop()
	}
}

// resume undoes one pause and grants the full limit again.
func (k *clock) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer == nil || k.stopped {
		return
	}
	k.account()
	if k.waiting--; k.waiting == 0 {
		k.timer.Reset(min(k.limit, max(maxCallTime-k.spent, 0)))
	}
}

// stop ends the clock; the context it made then ends only by cancel.
func (k *clock) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.detach()
	if k.timer != nil {
		k.timer.Stop()
	}
}

// sleep waits for d or for the end of ctx, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// jittered is d, give or take a quarter, so that many do not come back at once.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
