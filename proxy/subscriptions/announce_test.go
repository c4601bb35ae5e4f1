package subscriptions

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestChangesOfAMomentAreOneNotification: a notification waits for a moment without changes, but not longer than a
// second.
func TestChangesOfAMomentAreOneNotification(t *testing.T) {
	for _, tt := range []struct {
		name          string
		changes, want int
		every         time.Duration
	}{
		{"ten at once", 10, 1, 0},
		{"ten in a second", 10, 1, 90 * time.Millisecond},
		{"for three seconds", 30, 3, 100 * time.Millisecond},
		{"far apart", 3, 3, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, end := context.WithCancel(t.Context())
				defer end()
				started := make(chan struct{})
				close(started)
				s, n := New(Options{Started: started, Life: life}), 0
				go func() {
					for s.awaitChange() {
						n += len(s.announcements.take())
					}
				}()
				for range tt.changes {
					s.ListChanged("", wire.ToolsChanged)
					time.Sleep(tt.every)
				}
				time.Sleep(announceMost)
				synctest.Wait()
				if n != tt.want {
					t.Errorf("%d changes, every %v: %d notifications, want %d", tt.changes, tt.every, n, tt.want)
				}
			})
		})
	}
}
