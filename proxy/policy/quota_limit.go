package policy

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/vmcp-dev/vmcp/config"
)

// limit is one token bucket of the configuration. It is immutable, except for the number of replicas that share it: a
// changed configuration makes a new limit.
type limit struct {
	tool   string // the name under rateLimiting.tools; "" for all tools
	each   bool   // for each principal; else for all principals together
	bucket config.Bucket
	shared *rate.Limiter // for all principals; nil if each has one

	replicas int // guarded by Quota.mu: the number of replicas among which the bucket is divided
}

// limitsOf returns the limits of a configuration, divided among replicas. Limits of old with the same settings are reused, with
// their buckets.
func limitsOf(r config.RateLimiting, replicas int, old []*limit) (all []*limit) {
	add := func(tool string, each bool, b config.Bucket) {
		if b.MaxTokens > 0 {
			all = append(all, find(old, limit{tool: tool, each: each, bucket: b, replicas: replicas}))
		}
	}
	add("", false, r.Shared)
	add("", true, r.PerUser)
	for _, t := range r.Tools {
		add(t.Name, false, t.Shared)
		add(t.Name, true, t.PerUser)
	}
	return all
}

func find(old []*limit, want limit) *limit {
	for _, l := range old {
		if l.tool == want.tool && l.each == want.each && l.bucket == want.bucket {
			return l
		}
	}
	if !want.each {
		want.shared = want.fresh()
	}
	return &want
}

// fresh returns a full bucket.
func (l *limit) fresh() *rate.Limiter {
	return rate.NewLimiter(l.perSecond(), l.burst())
}

// burst is the capacity of the bucket of this replica, in tokens: its share, and at least one.
func (l *limit) burst() int { return max(1, l.bucket.MaxTokens/max(1, l.replicas)) }

// resize sets the rate and the capacity of a bucket to those of the limit. Tokens above the capacity are dropped.
func (l *limit) resize(b *rate.Limiter, now time.Time) {
	b.SetLimitAt(now, l.perSecond())
	b.SetBurstAt(now, l.burst())
}

func (l *limit) perSecond() rate.Limit {
	return rate.Limit(float64(l.bucket.MaxTokens) / l.bucket.RefillPeriod.Std().Seconds() / float64(max(1, l.replicas)))
}

// covers reports whether calls of a tool are counted by the limit.
func (l *limit) covers(tool, origin string) bool {
	return l.tool == "" || l.tool == tool || strings.Contains(l.tool, ".") && quotaMatches(l.tool, origin)
}

// quotaMatches reports whether a pattern, in which * matches any text, matches the name.
func quotaMatches(pattern, name string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !more {
		return ok && name == ""
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		if _, name, ok = strings.Cut(name, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// exceeded describes the limit when its bucket has less than one token.
func (l *limit) exceeded(left float64) *Exceeded {
	short := (1 - left) / float64(l.perSecond())
	return &Exceeded{
		Limit: l.name(), Tool: l.tool, Calls: l.bucket.MaxTokens, Period: l.bucket.RefillPeriod.Std(),
		RetryAfter: time.Duration(short * float64(time.Second)),
	}
}

// name is the name of the limit in the configuration.
func (l *limit) name() string {
	name := "rateLimiting."
	if l.tool != "" {
		name += "tools."
	}
	if l.each {
		return name + "perUser"
	}
	return name + "shared"
}
