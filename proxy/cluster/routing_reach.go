package cluster

import (
	"sync"
	"time"
)

// unreached limits the log lines about replicas that cannot be reached although their heartbeats arrive.
type unreached struct {
	mu   sync.Mutex
	said map[string]time.Time // time of the last line, by replica; guarded by mu
}

const (
	// unreachedEvery is the shortest interval of lines about one replica.
	unreachedEvery = time.Minute
	// maxUnreached bounds the replicas in said; beyond it, lines may be more frequent.
	maxUnreached = 256
)

// note reports whether to log about a replica now.
func (u *unreached) note(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.said[id]; ok && now.Sub(last) < unreachedEvery {
		return false
	}
	if u.said == nil || len(u.said) >= maxUnreached {
		u.said = map[string]time.Time{}
	}
	u.said[id] = now
	return true
}

// logUnreached logs that a replica in the table cannot be reached: it was killed a moment ago, or the network, its
// address or the certificates of cluster.tls are wrong, and then sessions are adopted back and forth.
func (t *Set) logUnreached(id string, err error) {
	addr, there := t.o.Members.Address(id)
	if there && t.unreached.note(id, time.Now()) {
		t.o.Log.Warn("a replica cannot be reached though it was there a moment ago: its sessions are adopted", "peer", id, "address", addr, "err", err)
	}
}
