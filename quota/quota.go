// Package quota says how often tools may be called: in all, by one principal, and each tool. It
// knows neither HTTP nor MCP.
//
//	var q quota.Quota
//	q.Apply(cfg.RateLimiting)
//	if over := q.Take(principal, "github_search", "github.search"); over != nil {
//		// refused; to be tried again after over.RetryAfter
//	}
package quota

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/vmcp-dev/vmcp/config"
)

// maxPrincipals bounds the principals whose calls are counted at one time. Beyond it the one
// who has called least recently is forgotten, and has full buckets again.
const maxPrincipals = 10_000

// A Quota counts calls. Its zero value limits nothing. It is safe for concurrent use.
//
// A call takes a token out of every bucket that it falls under, or out of none: all of them are
// looked at and taken from under one mutex.
type Quota struct {
	on atomic.Bool // there are limits

	mu         sync.Mutex
	replicas   int                      // guarded by mu, like all below; 0 is 1
	limits     []*limit                 // of all replicas together
	principals map[string]*list.Element // of *principal, by key
	recent     list.List                // of *principal, who called last first
}

// Exceeded is why a call may not be made now.
type Exceeded struct {
	// Limit names the limit as the configuration does: rateLimiting.perUser.
	Limit string
	// Tool is the name under rateLimiting.tools; "" for a limit of all tools.
	Tool string
	// Calls may be made in Period.
	Calls  int
	Period time.Duration
	// RetryAfter is the time after which one more may be made.
	RetryAfter time.Duration
}

// principal is somebody whose buckets are not all full.
type principal struct {
	key     string
	buckets []bucket // of limits for each principal, from the first call on that falls under them
}

// bucket is what is left of a limit.
type bucket struct {
	limit  *limit
	tokens *rate.Limiter
}

// Apply makes r the limits. Buckets of those that are the same as before stay as they are.
func (q *Quota) Apply(r config.RateLimiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = limitsOf(r, q.replicas, q.limits)
	q.on.Store(len(q.limits) > 0)
	kept := map[*limit]bool{}
	for _, l := range q.limits {
		kept[l] = true
	}
	for _, at := range q.principals {
		p := at.Value.(*principal)
		left := p.buckets[:0]
		for _, b := range p.buckets {
			if kept[b.limit] {
				left = append(left, b)
			}
		}
		clear(p.buckets[len(left):])
		if p.buckets = left; len(left) == 0 {
			q.forget(at)
		}
	}
}

// Share says among how many replicas the limits are divided, each of which counts for itself: a bucket here holds
// maxTokens divided by their number, rounded down, and one at least.
func (q *Quota) Share(replicas int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.replicas = max(1, replicas); len(q.limits) == 0 {
		return
	}
	now := time.Now()
	for _, l := range q.limits {
		l.replicas = q.replicas
		if l.shared != nil {
			l.resize(l.shared, now)
		}
	}
	for _, at := range q.principals {
		for _, b := range at.Value.(*principal).buckets {
			b.limit.resize(b.tokens, now)
		}
	}
}

// On reports whether there are limits.
func (q *Quota) On() bool { return q.on.Load() }

// Take counts a call of a tool by a principal, "" for nobody's, or says why it may not be made.
// tool is the name as clients see it, origin its backend and its own name there.
func (q *Quota) Take(who, tool, origin string) *Exceeded {
	if !q.On() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var few [8]bucket
	under := q.bucketsOf(few[:0], who, tool, origin, now)
	var over *Exceeded
	for _, b := range under {
		if left := b.tokens.TokensAt(now); left < 1 {
			over = later(over, b.limit.exceeded(left))
		}
	}
	if over != nil {
		return over
	}
	for _, b := range under {
		b.tokens.AllowN(now, 1)
	}
	return nil
}

// later is the one of two that has to wait longer.
func later(a, b *Exceeded) *Exceeded {
	if a != nil && a.RetryAfter >= b.RetryAfter {
		return a
	}
	return b
}

// bucketsOf appends the buckets that a call falls under. mu is held.
func (q *Quota) bucketsOf(to []bucket, who, tool, origin string, now time.Time) []bucket {
	var p *principal
	for _, l := range q.limits {
		switch {
		case !l.covers(tool, origin):
		case l.shared != nil:
			to = append(to, bucket{l, l.shared})
		default:
			if p == nil {
				p = q.principal(who, now)
			}
			to = append(to, p.bucket(l))
		}
	}
	return to
}

// principal finds a principal or begins to count for it. mu is held.
func (q *Quota) principal(key string, now time.Time) *principal {
	if at := q.principals[key]; at != nil {
		q.recent.MoveToFront(at)
		return at.Value.(*principal)
	}
	if q.principals == nil {
		q.principals = map[string]*list.Element{}
	}
	q.sweep(now)
	p := &principal{key: key}
	q.principals[key] = q.recent.PushFront(p)
	return p
}

// sweep makes room for a newcomer. Two of those who have called least recently are looked at
// each time, and forgotten if that makes no difference: so the table shrinks again after a
// rush, and nobody has to wait for all of it. mu is held.
func (q *Quota) sweep(now time.Time) {
	for range 2 {
		if last := q.recent.Back(); last != nil && last.Value.(*principal).full(now) {
			q.forget(last)
		}
	}
	if len(q.principals) >= maxPrincipals {
		q.forget(q.recent.Back())
	}
}

// forget is for who holds mu.
func (q *Quota) forget(at *list.Element) {
	delete(q.principals, at.Value.(*principal).key)
	q.recent.Remove(at)
}

// bucket is the principal's own for a limit.
func (p *principal) bucket(l *limit) bucket {
	for _, b := range p.buckets {
		if b.limit == l {
			return b
		}
	}
	b := bucket{l, l.fresh()}
	p.buckets = append(p.buckets, b)
	return b
}

// full reports whether all of the principal's buckets are as they are for a newcomer.
func (p *principal) full(now time.Time) bool {
	for _, b := range p.buckets {
		if b.tokens.TokensAt(now) < float64(b.tokens.Burst()) {
			return false
		}
	}
	return true
}
