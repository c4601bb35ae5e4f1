package httpclient

import (
	"sync"
	"time"
)

// defaultIdle is the size of the pool where std does not set it.
const defaultIdle = 2

// pool has the idle connections, the most recently used one last. One timer closes them after
// timeout; it is set for the oldest.
type pool struct {
	most    int           // 0: defaultIdle; less: none
	timeout time.Duration // 0: never

	mu     sync.Mutex
	idle   []*conn     // guarded by mu
	timer  *time.Timer // guarded by mu; nil while it is not set
	closed bool        // guarded by mu: put refuses connections until the next get
}

// get takes a usable connection; nil when there is none.
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

// isFresh reports whether c may still be used at now. It compares wall clock times, because a machine
// may have slept.
func (p *pool) isFresh(c *conn, now time.Time) bool {
	return p.timeout <= 0 || now.Round(0).Sub(c.since.Round(0)) < p.timeout
}

// put adds a connection; false when the pool is full.
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

// expire closes the connections that are idle for longer than timeout.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return // closeIdle was called
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

// closeIdle closes the idle connections, and makes put refuse others until the next get.
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
