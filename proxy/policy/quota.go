package policy

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package limits the rate of tool calls: of all principals, of each principal, and of each tool. It
// is independent of HTTP and MCP.
//
//	var q policy.Quota
//	q.Apply(cfg.RateLimiting)
//	if over := q.Take(principal, "github_search", "github.search"); over != nil {
//		// refused; may be retried after over.RetryAfter
//	}

// maxPrincipals bounds the principals with buckets. Beyond it the least recently used one is dropped, and
// has full buckets again.
const maxPrincipals = 10_000

// A Quota limits the rate of calls. Its zero value has no limits. It is safe for concurrent use.
//
// A call takes a token from every bucket of its limits, or from none: all of them are
// checked and changed under one mutex.
type Quota struct {
	on atomic.Bool // whether there are limits; read without mu

	mu         sync.Mutex
	replicas   int                      // guarded by mu, like all below; 0 is 1
	limits     []*limit                 // of the configuration
	principals map[string]*list.Element // of *principal, by key
	recent     list.List                // of *principal, the most recent caller first
}

// Exceeded describes the limit that a call would exceed.
type Exceeded struct {
	// Limit is the name of the limit in the configuration, such as rateLimiting.perUser.
	Limit string
	// Tool is the name under rateLimiting.tools; "" for a limit of all tools.
	Tool string
	// Calls may be made in Period.
	Calls  int
	Period time.Duration
	// RetryAfter is the duration after which one more call is allowed.
	RetryAfter time.Duration
}

// principal has the buckets of one principal.
type principal struct {
	key     string
	buckets []bucket // of the limits for each principal, added by the first call that they count
}

// bucket is the bucket of a limit.
type bucket struct {
	limit  *limit
	tokens *rate.Limiter
}

// Apply replaces the limits by those of r. Limits that are the same as before keep their buckets.
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

// Share sets the number of replicas among which the limits are divided. Each replica counts separately: a bucket here has
// a capacity of maxTokens divided by their number, rounded down, and at least one.
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

// Take counts a call of a tool by a principal, "" for an anonymous one; it returns the exceeded limit if the call is not
// allowed, else nil. tool is the name for clients, origin the backend and the tool's name there, such as github.search.
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

// later returns the one of two with the longer RetryAfter.
func later(a, b *Exceeded) *Exceeded {
	if a != nil && a.RetryAfter >= b.RetryAfter {
		return a
	}
	return b
}

// bucketsOf appends the buckets of the limits that count a call. mu is held.
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

// principal finds or adds a principal. mu is held.
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

// sweep makes room for a new principal. It checks the two least recently used ones, and drops
// those whose buckets are full: so the table shrinks after a burst of principals, and no call
// has to wait for a pass over all of it. mu is held.
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

// forget drops a principal. mu is held.
func (q *Quota) forget(at *list.Element) {
	delete(q.principals, at.Value.(*principal).key)
	q.recent.Remove(at)
}

// bucket returns the principal's bucket of a limit, which it adds if it is missing.
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

// full reports whether all of the principal's buckets are full, as those of a new one.
func (p *principal) full(now time.Time) bool {
	for _, b := range p.buckets {
		if b.tokens.TokensAt(now) < float64(b.tokens.Burst()) {
			return false
		}
	}
	return true
}
