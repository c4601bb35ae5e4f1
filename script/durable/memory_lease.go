package durable

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/script"
)

// lease implements runs.lease. The mutex of the store guards the run.
type lease struct {
	s     *MemoryStore
	r     *run
	epoch int64
	taken Run // the run when it was acquired

	lost chan struct{}
	once sync.Once
}

// Run implements [Lease].
func (l *lease) Run() Run { return l.taken }

// Lost implements [Lease].
func (l *lease) Lost() <-chan struct{} { return l.lost }

// lose closes Lost.
func (l *lease) lose() { l.once.Do(func() { close(l.lost) }) }

// lock locks the store, whatever it returns: an error when this owner may not write the run any more.
func (l *lease) lock() error {
	l.s.mu.Lock()
	switch {
	case l.s.closed:
		return errClosed
	case l.s.runs[l.r.ID] != l.r, l.r.Epoch != l.epoch, l.r.lease != l:
		l.lose()
		return ErrTaken
	case l.s.options.Renew < 0 && !l.s.held(l.r):
		l.lose()
		return ErrTaken
	}
	return nil
}

// Open implements [script.Journal].
func (l *lease) Open(_ context.Context, h script.Header) ([]script.Entry, error) {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return nil, err
	}
	if l.r.Header == nil {
		l.r.Header = &h
	}
	return slices.Concat(l.r.recorded, l.r.begun), l.r.Header.Admit(h)
}

// Begin implements [script.Journal].
func (l *lease) Begin(_ context.Context, e script.Entry) error {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return err
	}
	if l.r.State == Cancelled {
		return ErrCancelled
	}
	e.Done = false
	return l.s.put(l.r, e)
}

// Record implements [script.Journal].
func (l *lease) Record(e script.Entry) error {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return err
	}
	e.Done = true
	return l.s.put(l.r, e)
}

// put adds an entry to the journal of r, or replaces the one that was begun with its key. mu is held.
func (s *MemoryStore) put(r *run, e script.Entry) error {
	i := slices.IndexFunc(r.begun, func(b script.Entry) bool { return b.Key == e.Key })
	if r.have[e.Key] || i >= 0 && !e.Done && e.Attempt <= r.begun[i].Attempt {
		return fmt.Errorf("%s: is in the journal already", e.Key)
	}
	n, more := Size(e), 1
	if i >= 0 {
		n, more = n-Size(r.begun[i]), 0
	}
	if err := s.options.Admit(r.Entries+more, r.Bytes+n); err != nil {
		return err
	}
	switch {
	case i >= 0 && e.Done:
		r.begun = slices.Delete(r.begun, i, i+1)
	case i >= 0:
		r.begun[i] = e
	default:
		r.Entries++
	}
	if e.Done {
		r.recorded = append(r.recorded, e)
		r.have[e.Key] = true
		s.close(r, e.Key)
	} else if i < 0 {
		r.begun = append(r.begun, e)
	}
	r.Bytes += n
	s.weigh(r)
	return nil
}

// Release implements [script.Journal].
func (l *lease) Release(key string) error {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return err
	}
	l.s.release(l.r, key)
	return nil
}

func (s *MemoryStore) release(r *run, key string) {
	i := slices.IndexFunc(r.begun, func(b script.Entry) bool { return b.Key == key })
	if i < 0 {
		return
	}
	n := Size(r.begun[i])
	r.begun = slices.Delete(r.begun, i, i+1)
	r.Entries, r.Bytes = r.Entries-1, r.Bytes-n
	s.weigh(r)
}

// Close implements [script.Journal].
func (l *lease) Close() error { return nil }

// Ask implements [Lease].
func (l *lease) Ask(_ context.Context, q ...Question) error {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return err
	}
	l.s.ask(l.r, q)
	return nil
}

// ask adds the questions whose keys r does not have yet. mu is held.
func (s *MemoryStore) ask(r *run, questions []Question) {
	for _, q := range questions {
		if find(r, q.Key) == nil {
			r.Questions = append(r.Questions, q)
		}
	}
	s.weigh(r)
}

// close removes the open questions of an effect that has ended, "" for all effects. mu is held.
func (s *MemoryStore) close(r *run, effect string) {
	r.Questions = slices.DeleteFunc(r.Questions, func(q Question) bool {
		return q.Answer == nil && (effect == "" || Asked(effect, q))
	})
	s.weigh(r)
}

func find(r *run, key string) *Question {
	i := slices.IndexFunc(r.Questions, func(q Question) bool { return q.Key == key })
	if i < 0 {
		return nil
	}
	return &r.Questions[i]
}

// Answers implements [Lease].
func (l *lease) Answers(context.Context) ([]Question, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return nil, errClosed
	}
	return slices.Clone(l.r.Questions), nil
}

// End implements [Lease].
func (l *lease) End(_ context.Context, o Outcome) error {
	defer l.s.mu.Unlock()
	if err := l.lock(); err != nil {
		return err
	}
	l.r.Owner, l.r.lease = "", nil
	switch {
	case l.r.State == Cancelled:
		l.s.weigh(l.r)
	case o.State.Final():
		l.s.end(l.r, o)
	default:
		l.s.ask(l.r, o.Questions)
		l.s.end(l.r, o)
	}
	l.s.fit(l.r)
	l.s.notify()
	return nil
}
