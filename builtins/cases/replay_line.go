package cases

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A line holds the effects of a run until no branch can continue without an answer, and then releases the one that was
// answered first when the case was recorded. So the branches continue in the recorded order, as far as they have the
// recorded effects; effects that were not recorded are last.
type line struct {
	mu      sync.Mutex
	rank    map[string]int
	waiting map[string]chan struct{}
	flying  int // effects in progress while no branch computes; -1: one computes
}

func newLine() *line {
	return &line{rank: map[string]int{}, waiting: map[string]chan struct{}{}, flying: -1}
}

// wait waits until the effect is released.
func (l *line) wait(ctx context.Context, key string) error {
	turn := make(chan struct{})
	l.mu.Lock()
	l.waiting[key] = turn
	l.next()
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, key)
		l.mu.Unlock()
		return context.Cause(ctx)
	}
}

// idled records that no branch can continue without an answer.
func (l *line) idled(flying int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying = flying
	l.next()
}

// next releases one effect once all effects in progress are held. The line is locked.
func (l *line) next() {
	if len(l.waiting) == 0 || len(l.waiting) != l.flying {
		return
	}
	first, best := "", 0
	for key := range l.waiting {
		r, ok := l.rank[key]
		if !ok {
			r = 1 << 30
		}
		if first == "" || r < best || r == best && key < first {
			first, best = key, r
		}
	}
	l.flying = -1
	close(l.waiting[first])
	delete(l.waiting, first)
}

// isMessage reports whether effects of a kind are notifications only.
func isMessage(kind string) bool { return kind == "log" || kind == "progress" }

// noteMessage records the position of a message, by its branch.
func noteMessage(all map[string][]int, key string) {
	branch, n := split(key)
	i, _ := slices.BinarySearch(all[branch], n)
	all[branch] = slices.Insert(all[branch], i, n)
}

// split splits a position into its branch and the number in it.
func split(key string) (branch string, n int) {
	i := strings.LastIndexAny(key, "./") + 1
	n, _ = strconv.Atoi(key[i:])
	return key[:i], n
}

// withoutMessages returns the position that an effect would have if no messages were sent.
func withoutMessages(all map[string][]int, key string) string {
	if len(all) == 0 {
		return key
	}
	var out strings.Builder
	for at := 0; at < len(key); {
		end := at + strings.IndexAny(key[at:]+".", "./")
		part := key[at:end]
		if n, err := strconv.Atoi(part); err == nil {
			before, _ := slices.BinarySearch(all[key[:at]], n)
			part = strconv.Itoa(n - before)
		}
		out.WriteString(part)
		if end < len(key) {
			out.WriteByte(key[end])
		}
		at = end + 1
	}
	return out.String()
}
