package runs

import (
	"context"
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
	kept   []script.Entry // recorded before there was a row

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
	l := j.held()
	if l == nil {
		_, err := j.write(ctx, e)
		return err
	}
	began := time.Now()
	err := l.Begin(ctx, e)
	j.part.k.wrote(began, err)
	return err
}

// write gives the run a row, with what was recorded before and the effects that are about to be
// performed, in one write.
func (j *journal) write(ctx context.Context, begun ...script.Entry) (store.Lease, error) {
	p := j.part
	run := p.run
	run.Header = &j.header
	if p.settings != nil {
		run.Limits = p.settings.JSON()
	}
	began := time.Now()
	l, err := p.store.Create(ctx, run, p.k.owner, append(j.kept, begun...))
	p.k.wrote(began, err)
	if err != nil {
		return nil, err
	}
	j.kept = nil
	j.mu.Lock()
	j.lease = l
	j.mu.Unlock()
	p.k.spawn(func() { p.watch(l) })
	return l, nil
}

// Record implements [script.Journal].
func (j *journal) Record(e script.Entry) error {
	l := j.held()
	if l == nil {
		e.Done = true
		j.kept = append(j.kept, e)
		return nil
	}
	err := l.Record(e)
	if err != nil {
		j.part.k.wrote(time.Time{}, err)
	}
	return err
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
