package auth

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// maxVerdicts bounds the cached verdicts.
	maxVerdicts = 10_000
	// verdictLife bounds the lifetime of a verdict.
	verdictLife = 5 * time.Minute
)

// verdict is the outcome of the verification of a token.
type verdict struct {
	principal *Principal // nil: refused
	refusal   *Refusal
	until     time.Time
	keyID     string // of the key that signed it; "" for other tokens
}

// verdicts is an LRU cache of verdicts, by the hash of the token: tokens themselves are not
// kept.
type verdicts struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element // guarded by mu
	recent  list.List                           // guarded by mu; of *entry, the latest first
	epoch   int                                 // guarded by mu; number of calls of forget
}

type entry struct {
	hash    [sha256.Size]byte
	verdict verdict
}

// find returns the verdict on a token, and the epoch for put.
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

// put stores a verdict of an epoch that find returned. It does nothing if forget was called since: the
// verdict may be outdated.
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

// forget removes the verdicts for which which returns true.
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
