// Package journal keeps the journals of runs in memory. Its folder journaltest has the test
// that every implementation of [script.Journal] passes.
package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/script"
)

// Memory is a journal in memory. Make one with New.
type Memory struct {
	turn chan struct{} // holds one token while no run has the journal

	// The run that has the token owns these.
	header  *script.Header
	entries []script.Entry  // recorded, in order
	have    map[string]bool // keys of entries
	begun   []script.Entry  // and not recorded yet: a few
	size    atomic.Int64
}

// New returns an empty journal.
func New() *Memory {
	m := &Memory{turn: make(chan struct{}, 1), have: map[string]bool{}}
	m.turn <- struct{}{}
	return m
}

// Open takes the journal, as soon as no other run has it.
func (m *Memory) Open(ctx context.Context, h script.Header) ([]script.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("another run has it: %w", context.Cause(ctx))
	}
	if m.header != nil && *m.header != h {
		m.turn <- struct{}{}
		return nil, script.ErrOtherRun
	}
	m.header = &h
	return slices.Concat(m.entries, m.begun), nil
}

// Begin notes that an effect is about to be performed.
func (m *Memory) Begin(e script.Entry) error {
	if m.have[e.Key] || m.find(e.Key) >= 0 {
		return fmt.Errorf("%s: is in the journal already", e.Key)
	}
	m.begun = append(m.begun, e)
	return nil
}

// Record stores an answer.
func (m *Memory) Record(e script.Entry) error {
	if m.have[e.Key] {
		return fmt.Errorf("%s: is in the journal already", e.Key)
	}
	m.drop(e.Key)
	e.Done = true
	m.entries = append(m.entries, e)
	m.have[e.Key] = true
	m.size.Add(int64(len(e.Key) + len(e.Result) + 100))
	return nil
}

// Release takes back Begin.
func (m *Memory) Release(key string) error {
	m.drop(key)
	return nil
}

// Close gives the journal back.
func (m *Memory) Close() error {
	select {
	case m.turn <- struct{}{}:
		return nil
	default:
		return errors.New("journal: closed twice")
	}
}

// Size is about how many bytes the journal holds.
func (m *Memory) Size() int64 { return m.size.Load() }

// find returns the place of an effect that was begun, or -1.
func (m *Memory) find(key string) int {
	return slices.IndexFunc(m.begun, func(e script.Entry) bool { return e.Key == key })
}

func (m *Memory) drop(key string) {
	if i := m.find(key); i >= 0 {
		m.begun = slices.Delete(m.begun, i, i+1)
	}
}
