package auth

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// maxVerdicts bounds the verdicts that are kept.
	maxVerdicts = 10_000
	// verdictLife is the longest that a verdict holds.
	verdictLife = 5 * time.Minute
)

// verdict is what a token was found to be.
type verdict struct {
	principal *Principal // nil: refused
	refusal   *Refusal
	until     time.Time
	keyID     string // of the key that signed it; "" for other tokens
}

// verdicts keep what tokens were found to be, the least recently used going first. They are
// keyed by hashes: no token is kept.
type verdicts struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element // guarded by mu
	recent  list.List                           // guarded by mu; of *entry, the latest first
	epoch   int                                 // guarded by mu; counts clear
}

type entry struct {
	hash    [sha256.Size]byte
	verdict verdict
}

// find returns the verdict on a token, and the epoch to put a new one with.
func (c *verdicts) find(hash [sha256.Size]byte, now time.Time) (verdict, int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[hash]
	if e == nil {
		return verdict{}, c.epoch, false
	}
	v := e.Value.(*entry).verdict
	if !now.Before(v.until) {
		c.drop(e)
		return verdict{}, c.epoch, false
	}
	c.recent.MoveToFront(e)
	return v, c.epoch, true
}

// put keeps a verdict that was reached in an epoch. What was cleared meanwhile stays so.
func (c *verdicts) put(hash [sha256.Size]byte, v verdict, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if e := c.entries[hash]; e != nil {
		c.drop(e)
	}
	if c.entries == nil {
		c.entries = map[[sha256.Size]byte]*list.Element{}
	}
	c.entries[hash] = c.recent.PushFront(&entry{hash, v})
	if c.recent.Len() > maxVerdicts {
		c.drop(c.recent.Back())
	}
}

// drop removes an entry. mu is held.
func (c *verdicts) drop(e *list.Element) {
	delete(c.entries, e.Value.(*entry).hash)
	c.recent.Remove(e)
}

// forget removes the verdicts that which picks.
func (c *verdicts) forget(which func(verdict) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for e := c.recent.Front(); e != nil; {
		next := e.Next()
		if which(e.Value.(*entry).verdict) {
			c.drop(e)
		}
		e = next
	}
}
