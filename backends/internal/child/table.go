package child

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Process is a program that runs.
type Process struct {
	PID       int
	StartedAt time.Time
}

// Table is the programs of a backend that run. The zero value is empty.
type Table struct {
	mu  sync.Mutex
	all map[*Child]Process // guarded by mu
}

// Add notes that a program was started.
func (t *Table) Add(c *Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*Child]Process{}
	}
	t.all[c] = Process{PID: c.PID(), StartedAt: time.Now()}
}

// Remove notes that it was closed.
func (t *Table) Remove(c *Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, c)
}

// Len is how many there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// List is the programs in the order of their ids.
func (t *Table) List() []Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Process, 0, len(t.all))
	for _, p := range t.all {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return list
}
