package httpclient

import (
	"sync"
	"time"
)

// defaultIdle is how many connections are kept where std does not say.
const defaultIdle = 2

// pool keeps connections that no request uses, the one that was used last at the end. They are
// closed after timeout by one timer, which is set for the one that is kept longest.
type pool struct {
	most    int           // 0: defaultIdle; less: none
	timeout time.Duration // 0: kept for any time

	mu     sync.Mutex
	idle   []*conn     // guarded by mu
	timer  *time.Timer // guarded by mu; nil while it is not set
	closed bool        // guarded by mu: what comes back is closed, until the next get
}

// get takes a connection that can be used; nil when there is none.
func (p *pool) get() *conn {
	for {
		c := p.pop()
		if c == nil || p.isFresh(c, time.Now()) && c.isSilent() {
			return c
		}
		c.Close()
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	c.kept = true
	return c
}

// isFresh reports whether c may still be used at now. The clock on the wall counts: a machine may
// have slept.
func (p *pool) isFresh(c *conn, now time.Time) bool {
	return p.timeout <= 0 || now.Round(0).Sub(c.since.Round(0)) < p.timeout
}

// put keeps a connection; false when there are enough.
func (p *pool) put(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	if most == 0 {
		most = defaultIdle
	}
	if p.closed || len(p.idle) >= most {
		return false
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	if p.timer == nil && p.timeout > 0 {
		p.timer = time.AfterFunc(p.timeout, p.expire)
	}
	return true
}

// expire closes the connections that were kept long enough.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return // closeIdle came first
	}
	now, old := time.Now(), 0
	for old < len(p.idle) && !p.isFresh(p.idle[old], now) {
		p.idle[old].Close()
		old++
	}
	p.idle = append(p.idle[:0:0], p.idle[old:]...)
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(max(p.timeout-now.Sub(p.idle[0].since), time.Millisecond), p.expire)
	}
}

// closeIdle closes what is kept, and until the next get what comes back.
func (p *pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.Close()
	}
	p.idle, p.closed = nil, true
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
