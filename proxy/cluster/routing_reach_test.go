package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestUnreachedReplicasAreBounded: each is logged once per interval, and the number of them is bounded.
func TestUnreachedReplicasAreBounded(t *testing.T) {
	var u unreached
	now := time.Now()
	for i, tt := range []struct {
		id     string
		after  time.Duration
		logged bool
	}{{"a", 0, true}, {"a", time.Second, false}, {"b", time.Second, true}, {"a", unreachedEvery, true}, {"a", unreachedEvery + time.Second, false}} {
		if got := u.note(tt.id, now.Add(tt.after)); got != tt.logged {
			t.Errorf("step %d: replica %s after %s is logged: %v", i, tt.id, tt.after, got)
		}
	}
	for i := range maxUnreached + 10 {
		u.note(fmt.Sprint(i), now)
	}
	if n := len(u.said); n > maxUnreached {
		t.Errorf("%d replicas are known, want %d at most", n, maxUnreached)
	}
}
