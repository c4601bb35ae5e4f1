// Package memlimit keeps the memory of the process near the memory that scripts are charged for: it adjusts the soft
// memory limit of the Go runtime, and starts garbage collections for the memory of ended scripts before other scripts
// grow.
//
// Without a limit the garbage of an ended script is kept until the heap has doubled, in addition to that of
// the next script. A fixed limit would be too high for that, or too low for scripts that are allowed more. So
// the limit is the sum of what the process needs without scripts, what scripts are charged, and some room. It
// is raised at once, and lowered after the next collection, when the live heap is known. While nothing is
// charged, the limit is the ceiling.
//
// The limit is soft: during a collection the heap grows, on busy processors by as much as scripts allocate. A script is
// charged for all that it ever allocates, so its own garbage cannot exceed its charge; but the garbage of ended scripts
// is not part of any charge. So a collection is started when there is much of it, and scripts that would grow the heap
// above the highest total charge wait for it, see Note.
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
	// The room for memory that is not charged is an eighth of the charge plus beside, but at least room less an eighth
	// of the charge.
	room   = 64 << 20
	beside = 16 << 20
	step   = 8 << 20
	// mostGarbage is the garbage of ended scripts, in bytes, at which a collection is started.
	mostGarbage = 64 << 20
	// above is how far, in bytes, scripts may grow over the highest total charge while garbage is collected.
	above = 32 << 20
	// large is the least charge of a script, in bytes, whose end counts as garbage. Small scripts use little of their
	// charge, and the runtime collects their garbage by itself.
	large = 8 << 20
)

// Limit manages the memory limit of this process. There should be one.
type Limit struct {
	ceiling int64
	apply   func(int64)  // sets the limit
	live    func() int64 // the live memory after the last collection
	collect func()       // runs a garbage collection

	mu      sync.Mutex
	charged int64 // guarded by mu, like all below
	base    int64 // need of the process without scripts
	now     int64 // the present limit
	armed   bool  // collected is called after the next collection

	// Since arm: the charge that may be live at the next collection, and the garbage that is certainly freed by it.
	possible int64
	dropped  int64

	ended      int64         // total garbage of large scripts
	freed      int64         // the part of ended that is certainly freed
	high       int64         // highest total charge since there was no garbage
	collecting chan struct{} // closed at the end of the running collection of free; nil: none
}

// New returns a Limit whose ceiling is GOMEMLIMIT if set, else nine tenths of the limit of
// the process's cgroup.
func New() *Limit {
	ceiling := debug.SetMemoryLimit(-1)
	if ceiling == math.MaxInt64 {
		ceiling = cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	}
	l := &Limit{ceiling: ceiling, apply: func(n int64) { debug.SetMemoryLimit(n) }, live: liveBytes, collect: runtime.GC}
	l.base = l.live()
	l.set(ceiling)
	return l
}

// Ceiling returns the highest limit; math.MaxInt64 for none.
func (l *Limit) Ceiling() int64 { return l.ceiling }

// Note sets the total charge of all running scripts. It is cheap and does not block. If it returns a channel, garbage
// is being collected, and the caller that is to be charged more waits until the channel is closed and calls Note again.
func (l *Limit) Note(charged int64) (collecting <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := charged - l.charged
	l.charged = charged
	l.possible += max(0, more)
	if more <= -large {
		l.ended -= more
	}
	if want := l.want(); charged > 0 && (want > l.now || l.now == l.ceiling) {
		l.set(want)
	}
	l.arm()
	return l.sweep()
}

// sweep starts a collection when there is much garbage, and returns the channel that growing scripts wait for, or
// nil. The caller holds the mutex.
func (l *Limit) sweep() <-chan struct{} {
	garbage := l.ended - l.freed
	if garbage == 0 {
		l.high = 0
	}
	if garbage < mostGarbage {
		l.high = max(l.high, l.charged)
		return nil
	}
	if l.collecting == nil {
		l.collecting = make(chan struct{})
		go l.free(l.ended)
	}
	if l.charged+garbage <= l.high+above {
		return nil
	}
	return l.collecting
}

// free collects the garbage of the scripts counted in ended.
func (l *Limit) free(ended int64) {
	l.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed = max(l.freed, ended)
	close(l.collecting)
	l.collecting = nil
	l.sweep()
}

// want returns the limit for the present charge.
func (l *Limit) want() int64 {
	if l.charged == 0 {
		return l.ceiling
	}
	n := l.base + l.charged + l.room()
	return min(n/step*step, l.ceiling)
}

// room returns the room for memory that is not charged. The caller holds the mutex.
func (l *Limit) room() int64 { return max(room-l.charged/8, l.charged/8+beside) }

// set changes the limit. The caller holds the mutex, or is New.
func (l *Limit) set(n int64) {
	if n != l.now {
		l.now = n
		l.apply(n)
	}
}

// collected is called after a collection: the live heap is known, so the limit may be lowered.
func (l *Limit) collected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.freed = max(l.freed, l.dropped)
	// Scripts that have ended since may have been live at the collection. So the need of the process itself is only
	// known to be between two bounds; the previous value is kept within these.
	live := l.live()
	l.base = min(max(l.base, live-l.possible), live)
	// The limit is above the live memory in any case, because the runtime would otherwise collect all the
	// time.
	l.set(min(max(l.want(), (live+l.room())/step*step), l.ceiling))
	if l.charged > 0 {
		l.arm()
	}
}

// arm makes the next collection that begins after now call collected. The caller holds the mutex.
func (l *Limit) arm() {
	if l.armed {
		return
	}
	l.armed, l.possible, l.dropped = true, l.charged, l.ended
	type sentinel struct{ _ [64]byte } // too large for the tiny allocator, whose objects share blocks
	s := new(sentinel)
	runtime.AddCleanup(s, (*Limit).collected, l)
}

// liveBytes returns the live heap after the last collection and the memory of the runtime itself.
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

// cgroupLimit returns nine tenths of the least limit of the process's cgroups.
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

// limitsAbove returns the least limit of a group and its ancestors; in a container the
// folder of the group is often mounted as the root.
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
