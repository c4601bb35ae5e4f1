package runs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// journal is the journal of one part of a run. A run gets a row in the store only when it needs one: until then its
// journal is in memory, and a run that only reads and never waits costs the store nothing.
type journal struct {
	part *Part

	header script.Header

	making sync.Mutex // held while the row is made and kept is used; locked before mu
	kept   kept       // entries from before there was a row

	mu    sync.Mutex
	lease durable.Lease // guarded by mu; nil: there is no row
}

// current is the lease; nil while there is no row.
func (j *journal) current() durable.Lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease
}

// Open implements [script.Journal].
func (j *journal) Open(ctx context.Context, h script.Header) ([]script.Entry, error) {
	if l := j.current(); l != nil {
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

// row returns the run's lease. If the run has no row, it makes one in one write, with the entries so far and the
// effects begun that are about to be executed; written is true then.
func (j *journal) row(ctx context.Context, begun ...script.Entry) (l durable.Lease, written bool, err error) {
	if l := j.current(); l != nil {
		return l, false, nil
	}
	j.making.Lock()
	defer j.making.Unlock()
	if l := j.current(); l != nil { // a question of a backend has made the row meanwhile
		return l, false, nil
	}
	p := j.part
	run := p.run
	run.Header = &j.header
	if p.settings != nil {
		run.Limits = p.settings.JSON()
	}
	if id := p.k.orphanOf(ctx, p.store, run, p.settings); id != "" {
		return nil, false, unknownRun(id)
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
	p.becomeDurable()
	return l, true, nil
}

// Record implements [script.Journal].
func (j *journal) Record(e script.Entry) error {
	if none, err := j.addUnstored(e); none {
		return err
	}
	l := j.current()
	err := l.Record(e)
	var limit *durable.LimitError
	if errors.As(err, &limit) { // what was begun has ended nevertheless
		if again := l.Record(durable.TooLarge(e, limit)); again != nil && !errors.As(again, &limit) {
			err = again
		}
	}
	if err != nil {
		j.part.k.wrote(time.Time{}, err)
	}
	return err
}

// addUnstored adds an entry in memory; none is false if the run has a row.
func (j *journal) addUnstored(e script.Entry) (none bool, err error) {
	j.making.Lock()
	defer j.making.Unlock()
	if j.current() != nil {
		return false, nil
	}
	e.Done = true
	return true, j.kept.add(e)
}

// Release implements [script.Journal].
func (j *journal) Release(key string) error {
	if l := j.current(); l != nil {
		return l.Release(key)
	}
	return nil
}

// Close implements [script.Journal].
func (j *journal) Close() error {
	if l := j.current(); l != nil {
		return l.Close()
	}
	return nil
}

// kept has the entries of a journal in memory. A slice that grows is in memory twice for a moment, so this one grows by
// pieces. The memory of entries is charged to the run (package script).
type kept struct {
	bounds  durable.Options
	pieces  [][]script.Entry
	entries int
	bytes   int64
}

// piece is the number of entries in each piece but the first.
const piece = 1024

// add adds an entry. The error is a *store.LimitError.
func (k *kept) add(e script.Entry) error {
	k.entries, k.bytes = k.entries+1, k.bytes+durable.Size(e)
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

// all returns the entries in order.
func (k *kept) all() []script.Entry { return slices.Concat(k.pieces...) }
