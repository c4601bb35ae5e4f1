package child

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Process is a running program.
type Process struct {
	PID       int
	StartedAt time.Time
}

// Table has the running programs of a backend. The zero value is empty.
type Table struct {
	mu  sync.Mutex
	all map[*Child]Process // guarded by mu
}

// Add adds a started program.
func (t *Table) Add(c *Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*Child]Process{}
	}
	t.all[c] = Process{PID: c.PID(), StartedAt: time.Now()}
}

// Remove removes a closed one.
func (t *Table) Remove(c *Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, c)
}

// Len returns the number of programs.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// List returns the programs in the order of their ids.
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
