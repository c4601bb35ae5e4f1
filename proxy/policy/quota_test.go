package policy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

func per(calls int, period time.Duration) config.Bucket {
	return config.Bucket{MaxTokens: calls, RefillPeriod: config.Duration(period)}
}

// taken is the number of n calls that are allowed.
func taken(q *Quota, n int, who, tool, origin string) (ok int) {
	for range n {
		if q.Take(who, tool, origin) == nil {
			ok++
		}
	}
	return ok
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits config.RateLimiting
		calls  []string // who tool origin
		want   string   // + for each that may be made, - for one that may not
	}{
		{"none", config.RateLimiting{}, []string{"a t b.t", "a t b.t"}, "++"},
		{"shared", config.RateLimiting{Shared: per(2, time.Minute)}, []string{"a t b.t", "b t b.t", "c u b.u"}, "++-"},
		{"per principal", config.RateLimiting{PerUser: per(1, time.Minute)}, []string{"a t b.t", "a u b.u", "c t b.t"}, "+-+"},
		{"a tool by its name", config.RateLimiting{Tools: []config.ToolRate{{Name: "b_t", Shared: per(1, time.Minute)}}},
			[]string{"a b_t b.t", "a b_t b.t", "a b_u b.u", "a b.t c.d"}, "+-++"},
		{"a tool by its origin", config.RateLimiting{Tools: []config.ToolRate{{Name: "b.t", Shared: per(1, time.Minute)}}},
			[]string{"a renamed b.t", "a renamed b.t", "a t c.t"}, "+-+"},
		{"tools of a pattern together", config.RateLimiting{Tools: []config.ToolRate{{Name: "b.del_*", PerUser: per(1, time.Minute)}}},
			[]string{"a x b.del_x", "a y b.del_y", "c y b.del_y", "a z b.get_z"}, "+-++"},
		{"a full bucket beside an empty one keeps its tokens", config.RateLimiting{
			Shared: per(2, time.Minute), PerUser: per(1, time.Minute)},
			[]string{"a t b.t", "a t b.t", "a t b.t", "c t b.t", "d t b.t"}, "+--+-"},
		{"a scripted tool", config.RateLimiting{Tools: []config.ToolRate{{Name: "scripts.*", Shared: per(1, time.Minute)}}},
			[]string{"a deploy scripts.deploy", "a other scripts.other"}, "+-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q Quota
				q.Apply(tt.limits)
				got := ""
				for _, call := range tt.calls {
					var who, tool, origin string
					fmt.Sscan(call, &who, &tool, &origin)
					if q.Take(who, tool, origin) == nil {
						got += "+"
					} else {
						got += "-"
					}
				}
				if got != tt.want {
					t.Errorf("%v: %s, want %s", tt.calls, got, tt.want)
				}
			})
		})
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"b.t", "b.t", true}, {"b.t", "b.tt", false}, {"b.tt", "b.t", false}, {"b.*", "b.x/y.z", true}, {"b.*", "bb.x", false},
		{"b.*_x", "b.a_x", true}, {"b.*_x", "b.a_x_", false}, {"b.a*a", "b.a", false}, {"b.a*a", "b.aa", true}, {"*.t", "c.t", true},
		{"b.*a*b", "b.xaxb", true}, {"b.*a*b", "b.xbxa", false}, {"b.**", "b.", true}, {"b.[a]", "b.a", false}, {"b.[a]", "b.[a]", true},
	} {
		if got := quotaMatches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("matches(%q, %q) is %v", tt.pattern, tt.name, got)
		}
	}
}

// Buckets refill at their rate, and RetryAfter is exact.
func TestRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quota
		q.Apply(config.RateLimiting{PerUser: per(6, time.Minute), Tools: []config.ToolRate{{Name: "slow", Shared: per(1, time.Hour)}}})
		if n := taken(&q, 10, "a", "t", "b.t"); n != 6 {
			t.Fatalf("%d of 10 calls at once, want 6", n)
		}
		over := q.Take("a", "t", "b.t")
		if over == nil || over.RetryAfter != 10*time.Second || over.Limit != "rateLimiting.perUser" || over.Calls != 6 || over.Period != time.Minute {
			t.Fatalf("%+v, want to come back in 10 s", over)
		}
		time.Sleep(over.RetryAfter - time.Millisecond)
		if q.Take("a", "t", "b.t") == nil {
			t.Error("a token came back too early")
		}
		time.Sleep(time.Millisecond)
		if over := q.Take("a", "t", "b.t"); over != nil {
			t.Errorf("after RetryAfter: %+v", over)
		}
		q.Take("c", "slow", "b.slow")
		if over := q.Take("a", "slow", "b.slow"); over == nil || over.RetryAfter != time.Hour || over.Limit != "rateLimiting.tools.shared" || over.Tool != "slow" {
			t.Errorf("under two empty buckets: %+v, want the one that takes longer", over)
		}
	})
}

// Limits that do not change keep their buckets when a configuration is applied.
func TestApplyKeepsBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quota
		tool := config.ToolRate{Name: "b.t", Shared: per(3, time.Minute), PerUser: per(2, time.Minute)}
		q.Apply(config.RateLimiting{Tools: []config.ToolRate{tool}, PerUser: per(100, time.Minute)})
		taken(&q, 2, "a", "t", "b.t")
		q.Apply(config.RateLimiting{Shared: per(50, time.Second), Tools: []config.ToolRate{{Name: "x", Shared: per(1, time.Second)}, tool}})
		if q.Take("a", "t", "b.t") == nil {
			t.Error("an empty bucket was filled by a configuration that did not change it")
		}
		if n := taken(&q, 3, "c", "t", "b.t"); n != 1 {
			t.Errorf("%d calls of what was left of the shared bucket, want 1", n)
		}
		tool.PerUser = per(3, time.Minute)
		q.Apply(config.RateLimiting{Tools: []config.ToolRate{{Name: "b.t", PerUser: tool.PerUser}}})
		if n := taken(&q, 5, "a", "t", "b.t"); n != 3 {
			t.Errorf("%d calls under a limit that changed, want 3", n)
		}
		q.Apply(config.RateLimiting{})
		if n := taken(&q, 10, "a", "t", "b.t"); n != 10 || len(q.principals) != 0 || q.On() {
			t.Errorf("without limits %d of 10 calls; %d principals are remembered", n, len(q.principals))
		}
	})
}

// The number of principals is bounded; those whose buckets are full again
// are dropped.
func TestPrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quota
		q.Apply(config.RateLimiting{PerUser: per(2, time.Minute)})
		for i := range 100_000 {
			if q.Take(fmt.Sprint(i), "t", "b.t") != nil {
				t.Fatal("a newcomer was refused")
			}
		}
		if n := len(q.principals); n != maxPrincipals || q.recent.Len() != n {
			t.Errorf("%d principals are remembered, %d in order, want %d", n, q.recent.Len(), maxPrincipals)
		}
		q.Take("99999", "t", "b.t")
		if q.Take("99999", "t", "b.t") == nil {
			t.Error("the last one was forgotten")
		}
		time.Sleep(time.Minute)
		for i := range maxPrincipals {
			q.Take(fmt.Sprint("new", i%100), "t", "b.t")
		}
		if n := len(q.principals); n > maxPrincipals-50 {
			t.Errorf("%d principals are remembered after a while without most of them", n)
		}
	})
}

// Under concurrent calls each token is taken once.
func TestAtOneTime(t *testing.T) {
	var q Quota
	q.Apply(config.RateLimiting{Shared: per(50, 24*time.Hour), PerUser: per(30, 24*time.Hour)})
	var all sync.WaitGroup
	var ok [2]atomic.Int32
	for i := range 16 {
		all.Go(func() {
			for range testmode.Count(50, 2000) {
				if q.Take(fmt.Sprint(i%2), "t", "b.t") == nil {
					ok[i%2].Add(1)
				}
			}
		})
	}
	all.Wait()
	if a, b := ok[0].Load(), ok[1].Load(); a+b != 50 || a > 30 || b > 30 {
		t.Errorf("%d and %d calls, want 50 together and at most 30 each", a, b)
	}
}

func BenchmarkTake(b *testing.B) {
	var q Quota
	q.Apply(config.RateLimiting{Shared: per(1e9, time.Second), PerUser: per(1e9, time.Second), Tools: []config.ToolRate{{Name: "b.del_*", PerUser: per(1, time.Hour)}}})
	b.ReportAllocs()
	for b.Loop() {
		q.Take("somebody", "b_t", "b.t")
	}
}

// A replica has its share of a limit, and its tokens are adjusted when the number of replicas changes.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quota
		q.Share(3)
		q.Apply(config.RateLimiting{Shared: per(9, time.Minute), Tools: []config.ToolRate{{Name: "u", PerUser: per(2, time.Minute)}}})
		if n := taken(&q, 10, "a", "t", "b.t"); n != 3 {
			t.Errorf("%d of 10 calls here, want 9 divided by 3", n)
		}
		time.Sleep(61 * time.Second) // a bucket that is full to the last bit
		if n := taken(&q, 10, "a", "t", "b.t"); n != 3 {
			t.Errorf("%d of 10 calls in the next minute, want 3", n)
		}
		time.Sleep(61 * time.Second) // a bucket that is full to the last bit
		if n := taken(&q, 10, "a", "u", "b.u"); n != 1 {
			t.Errorf("%d of 10 calls of a limit smaller than the replicas, want 1", n)
		}
		q.Share(1)
		time.Sleep(61 * time.Second) // a bucket that is full to the last bit
		if n := taken(&q, 10, "a", "t", "b.t"); n != 9 {
			t.Errorf("%d of 10 calls alone, want 9", n)
		}
		q.Share(9)
		time.Sleep(time.Hour)
		if n := taken(&q, 10, "a", "t", "b.t"); n != 1 {
			t.Errorf("%d of 10 calls of nine replicas, want 1", n)
		}
	})
}
