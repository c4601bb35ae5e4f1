package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"
)

// TestVerdictsAreBounded: the least recently used one is dropped.
func TestVerdictsAreBounded(t *testing.T) {
	hash := func(i int) [sha256.Size]byte { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	now := time.Now()
	var c verdicts
	for i := range maxVerdicts {
		c.put(hash(i), verdict{until: now.Add(time.Hour)}, 0)
	}
	c.find(hash(0), now) // is in use
	c.put(hash(maxVerdicts), verdict{until: now.Add(time.Hour)}, 0)
	if len(c.entries) != maxVerdicts || c.recent.Len() != maxVerdicts {
		t.Errorf("%d verdicts are kept, want %d", len(c.entries), maxVerdicts)
	}
	if _, _, ok := c.find(hash(0), now); !ok {
		t.Error("one that was in use has gone")
	}
	if _, _, ok := c.find(hash(1), now); ok {
		t.Error("the one unused longest is still there")
	}
}
