package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// This part of the package has the interface to the journals of runs, in which the results of their effects are recorded, and
// an implementation in memory.

// Memory is a journal in memory. Make one with New.
type Memory struct {
	turn chan struct{} // holds one token while no run has the journal

	// The run that has the token owns these.
	header  *Header
	entries []Entry         // recorded, in order
	have    map[string]bool // keys of entries
	begun   []Entry         // begun and not recorded, a few
	size    atomic.Int64
}

// NewJournal returns an empty journal.
func NewJournal() *Memory {
	m := &Memory{turn: make(chan struct{}, 1), have: map[string]bool{}}
	m.turn <- struct{}{}
	return m
}

// Open acquires the journal, after waiting until no other run has it.
func (m *Memory) Open(ctx context.Context, h Header) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("another run has the journal: %w", context.Cause(ctx))
	}
	if m.header == nil {
		m.header = &h
	}
	if err := m.header.Admit(h); err != nil {
		m.turn <- struct{}{}
		return nil, err
	}
	return slices.Concat(m.entries, m.begun), nil
}

// Begin records that an effect is about to be performed.
func (m *Memory) Begin(_ context.Context, e Entry) error {
	i := m.find(e.Key)
	if m.have[e.Key] || i >= 0 && m.begun[i].Attempt >= e.Attempt {
		return fmt.Errorf("%s: is in the journal already", e.Key)
	}
	if i >= 0 {
		m.size.Add(sizeOf(e) - sizeOf(m.begun[i]))
		m.begun[i] = e
		return nil
	}
	m.begun = append(m.begun, e)
	m.size.Add(sizeOf(e))
	return nil
}

// sizeOf is the approximate size of an entry in bytes.
func sizeOf(e Entry) int64 {
	return int64(len(e.Key)+len(e.Name)+len(e.Args)+len(e.Result)+len(e.SavedState)) + 300
}

// Record stores an answer.
func (m *Memory) Record(e Entry) error {
	if m.have[e.Key] {
		return fmt.Errorf("%s: is in the journal already", e.Key)
	}
	_ = m.Release(e.Key)
	e.Done = true
	m.entries = append(m.entries, e)
	m.have[e.Key] = true
	m.size.Add(sizeOf(e))
	return nil
}

// Release undoes Begin.
func (m *Memory) Release(key string) error {
	if i := m.find(key); i >= 0 {
		m.size.Add(-sizeOf(m.begun[i]))
		m.begun = slices.Delete(m.begun, i, i+1)
	}
	return nil
}

// Close releases the journal.
func (m *Memory) Close() error {
	select {
	case m.turn <- struct{}{}:
		return nil
	default:
		return errors.New("journal: closed twice")
	}
}

// Size returns the approximate number of bytes that the journal holds.
func (m *Memory) Size() int64 { return m.size.Load() }

// find returns the index of a begun effect, or -1.
func (m *Memory) find(key string) int {
	return slices.IndexFunc(m.begun, func(e Entry) bool { return e.Key == key })
}

// Resolve resolves a doubt: with an answer, or with Again, so that the effect is attempted once more. It fails while a
// run has the journal.
func (m *Memory) Resolve(e Entry) error {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	default:
		return errors.New("a run has the journal")
	}
	i := m.find(e.Key)
	switch {
	case i < 0:
		return fmt.Errorf("%s: is not begun", e.Key)
	case !e.Done:
		m.begun[i].Again = true
		return nil
	}
	return m.Record(e)
}
