package runs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// journal is the journal of one part of a run. A run has no row in the store before it needs
// one: until then its journal is in memory, and a run that only reads and never waits costs
// the store nothing.
type journal struct {
	part *Part

	header script.Header

	making sync.Mutex // held while the row is made, and what follows is used; before mu
	kept   kept       // recorded before there was a row

	mu    sync.Mutex
	lease store.Lease // guarded by mu; nil: there is no row
}

// held is the lease; nil while there is no row.
func (j *journal) held() store.Lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease
}

// Open implements [script.Journal].
func (j *journal) Open(ctx context.Context, h script.Header) ([]script.Entry, error) {
	if l := j.held(); l != nil {
		return l.Open(ctx, h)
	}
	j.header = h
	return nil, nil
}

// Begin implements [script.Journal].
func (j *journal) Begin(ctx context.Context, e script.Entry) error {
	l, written, err := j.row(ctx, e)
	if written || err != nil {
		return err
	}
	began := time.Now()
	err = l.Begin(ctx, e)
	j.part.k.wrote(began, err)
	return err
}

// row is the run's lease. A run that has no row gets one, with what was recorded before and the effects that are about to
// be performed, in one write; then written is true.
func (j *journal) row(ctx context.Context, begun ...script.Entry) (l store.Lease, written bool, err error) {
	if l := j.held(); l != nil {
		return l, false, nil
	}
	j.making.Lock()
	defer j.making.Unlock()
	if l := j.held(); l != nil { // a backend has asked meanwhile
		return l, false, nil
	}
	p := j.part
	run := p.run
	run.Header = &j.header
	if p.settings != nil {
		run.Limits = p.settings.JSON()
	}
	began := time.Now()
	l, err = p.store.Create(ctx, run, p.k.owner, append(j.kept.all(), begun...))
	p.k.wrote(began, err)
	if err != nil {
		return nil, false, err
	}
	j.kept = kept{}
	j.mu.Lock()
	j.lease = l
	j.mu.Unlock()
	p.k.spawn(func() { p.watch(l) })
	return l, true, nil
}

// Record implements [script.Journal].
func (j *journal) Record(e script.Entry) error {
	if none, err := j.keep(e); none {
		return err
	}
	l := j.held()
	err := l.Record(e)
	var limit *store.LimitError
	if errors.As(err, &limit) { // what was begun has ended all the same
		if again := l.Record(store.TooLarge(e, limit)); again != nil && !errors.As(again, &limit) {
			err = again
		}
	}
	if err != nil {
		j.part.k.wrote(time.Time{}, err)
	}
	return err
}

// keep keeps an entry of a run that has no row; none reports whether it has none.
func (j *journal) keep(e script.Entry) (none bool, err error) {
	j.making.Lock()
	defer j.making.Unlock()
	if j.held() != nil {
		return false, nil
	}
	e.Done = true
	return true, j.kept.add(e)
}

// Release implements [script.Journal].
func (j *journal) Release(key string) error {
	if l := j.held(); l != nil {
		return l.Release(key)
	}
	return nil
}

// Close implements [script.Journal].
func (j *journal) Close() error {
	if l := j.held(); l != nil {
		return l.Close()
	}
	return nil
}

// kept are the entries of a journal in memory. A list that grows holds what it has twice for a moment, so this one
// grows by pieces. The run has been charged for each entry (script).
type kept struct {
	bounds  store.Options
	pieces  [][]script.Entry
	entries int
	bytes   int64
}

// piece is how many entries the pieces have behind the first ones.
const piece = 1024

// add keeps one more entry. The error is a *store.LimitError.
func (k *kept) add(e script.Entry) error {
	k.entries, k.bytes = k.entries+1, k.bytes+store.Size(e)
	if err := k.bounds.Admit(k.entries, k.bytes); err != nil {
		return err
	}
	last := len(k.pieces) - 1
	if last < 0 || len(k.pieces[last]) == cap(k.pieces[last]) {
		k.pieces = append(k.pieces, make([]script.Entry, 0, min(max(4, k.entries), piece)))
		last++
	}
	k.pieces[last] = append(k.pieces[last], e)
	return nil
}

// all are the entries in order.
func (k *kept) all() []script.Entry { return slices.Concat(k.pieces...) }
