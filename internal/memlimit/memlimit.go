// Package memlimit moves the soft memory limit of the Go runtime with what scripts use.
//
// Without a limit the garbage of a script that has ended stays until the heap has doubled,
// and adds up with that of the next one. A fixed limit would be too high for that, or
// too low for scripts that are allowed more. So the limit is what the process needs
// without scripts, a quarter more than scripts have been charged, and some room. It
// rises at once, and sinks after the next collection, when it is known how much is
// left. Where nothing is charged, there is none but the ceiling.
package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

const (
	// room is for garbage, at least. A quarter of what is charged and beside are, where
	// that is more: the rest of another 64 MB is for what the runtime does not count, such
	// as the pages of the program itself.
	room   = 64 << 20
	beside = 16 << 20
	step   = 32 << 20
)

// Limit is the limit of this process. There should be one.
type Limit struct {
	ceiling int64
	apply   func(int64)  // sets the limit
	live    func() int64 // what the process has had at the last collection

	mu      sync.Mutex
	charged int64 // guarded by mu, like all below
	peak    int64 // the most that was charged since the last collection was noticed
	before  int64 // the peak before that one: the collection may have begun then
	base    int64 // what the process needs without scripts
	now     int64 // the limit that is set
	armed   bool  // the next collection is noticed
}

// New takes the limit that the runtime has from GOMEMLIMIT as the ceiling; without one,
// nine tenths of what the cgroup of the process allows.
func New() *Limit {
	ceiling := debug.SetMemoryLimit(-1)
	if ceiling == math.MaxInt64 {
		ceiling = cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	}
	l := &Limit{ceiling: ceiling, apply: func(n int64) { debug.SetMemoryLimit(n) }, live: liveBytes}
	l.base = l.live()
	l.set(ceiling)
	return l
}

// Ceiling is what the limit never exceeds; math.MaxInt64 where there is nothing that says.
func (l *Limit) Ceiling() int64 { return l.ceiling }

// Note says what all scripts that run have been charged. It is cheap, and does not wait.
func (l *Limit) Note(charged int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charged, l.peak = charged, max(l.peak, charged)
	if want := l.want(); charged > 0 && (want > l.now || l.now == l.ceiling) {
		l.set(want)
	}
	l.arm()
}

// want is the limit that fits what is charged.
func (l *Limit) want() int64 {
	if l.charged == 0 {
		return l.ceiling
	}
	n := l.base + l.charged + max(room, l.charged/4+beside)
	return min(n/step*step, l.ceiling)
}

// set changes the limit. The caller holds the mutex, or has l alone.
func (l *Limit) set(n int64) {
	if n != l.now {
		l.now = n
		l.apply(n)
	}
}

// collected notes a collection: what is left of the heap is known, so the limit may sink.
func (l *Limit) collected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	// Scripts that have ended since may have been alive when it was counted what is. What is
	// there gets some room in any case: else the runtime would collect all the time.
	live := l.live()
	l.base = max(0, live-max(l.peak, l.before))
	l.before, l.peak = l.peak, l.charged
	l.set(min(max(l.want(), (live+room)/step*step), l.ceiling))
	if l.charged > 0 {
		l.arm()
	}
}

// arm has the next collection noticed. The caller holds the mutex.
func (l *Limit) arm() {
	if l.armed {
		return
	}
	l.armed = true
	type sentinel struct{ _ [64]byte } // not tiny: small objects without pointers share blocks
	s := new(sentinel)
	runtime.AddCleanup(s, (*Limit).collected, l)
}

// liveBytes is what was alive at the last collection, and what the runtime needs itself.
func liveBytes() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"}, {Name: "/memory/classes/os-stacks:bytes"}, {Name: "/memory/classes/other:bytes"},
	}
	metrics.Read(samples)
	total := int64(0)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			total += int64(s.Value.Uint64())
		}
	}
	return total
}

// cgroupLimit is nine tenths of the least limit of the cgroups that the process is in.
func cgroupLimit(self, root string) int64 {
	data, err := os.ReadFile(self)
	if err != nil {
		return math.MaxInt64
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0":
			least = min(least, limitsAbove(root, parts[2], "memory.max"))
		case parts[1] == "memory":
			least = min(least, limitsAbove(filepath.Join(root, "memory"), parts[2], "memory.limit_in_bytes"))
		}
	}
	if least >= math.MaxInt64/10*9 {
		return math.MaxInt64
	}
	return least / 10 * 9
}

// limitsAbove is the least limit in the folder of a group and in those above; in a
// container that of the group is often mounted as the root.
func limitsAbove(root, group, file string) int64 {
	least := int64(math.MaxInt64)
	for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
		if data, err := os.ReadFile(filepath.Join(root, dir, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
		if dir == "/" {
			return least
		}
	}
}
