package sqlstore

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// TestRecentEndsAreBounded: of the leases that ended last, the oldest are dropped where there are too many or too large ones.
func TestRecentEndsAreBounded(t *testing.T) {
	for _, tt := range []struct{ size, ends, want int64 }{
		{0, maxRecent + 10, maxRecent},
		{1 << 20, 40, maxRecentBytes >> 20},
		{2 * maxRecentBytes, 2, 0},
	} {
		s := &Store{options: Options{Options: durable.Options{}.WithDefaults()}, changed: make(chan struct{})}
		s.db = &watched{database: &cluster{}, s: s}
		var last *lease
		for range tt.ends {
			last = &lease{s: s, bytes: tt.size}
			s.over(last, durable.Outcome{})
		}
		if n := int64(len(s.recent)); n != tt.want || s.recentSize != tt.want*tt.size || n > 0 && s.recent[n-1].l != last {
			t.Errorf("of %d ends of %d bytes %d are kept, with %d bytes; want the last %d", tt.ends, tt.size, n, s.recentSize, tt.want)
		}
	}
}
