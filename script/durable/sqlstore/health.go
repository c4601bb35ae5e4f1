package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// watched is a database that notes whether it answers, and whether it can be written.
type watched struct {
	database
	s *Store

	mu      sync.Mutex
	away    bool      // the last access had no answer; guarded by mu, like all below
	back    time.Time // when the first one after that had
	failing error     // of the last write; nil: it was written
}

func (w *watched) write(ctx context.Context, f func(tx) error) error {
	return w.note(ctx, true, w.database.write(ctx, f))
}

func (w *watched) batch(ctx context.Context, stmts []stmt) error {
	return w.note(ctx, true, w.database.batch(ctx, stmts))
}

func (w *watched) read(ctx context.Context, f func(snapshot) error) error {
	return w.note(ctx, false, w.database.read(ctx, f))
}

// note notes how an access has ended, and returns err.
func (w *watched) note(ctx context.Context, writes bool, err error) error {
	failed := errors.Is(err, durable.ErrUnavailable)
	if failed && errors.Is(ctx.Err(), context.Canceled) {
		return err // the caller has given up
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	full := errors.Is(err, durable.ErrFull)
	switch {
	case failed && !full:
		w.away = true
	case w.away:
		w.away, w.back = false, time.Now()
		w.s.hurry()
	}
	switch {
	case !writes:
	case failed && w.failing == nil:
		w.failing = err
		w.s.options.Log.Error("the store of runs cannot be written: runs stop before their next effect until it can", "err", err)
	case failed:
		w.failing = err
	case !errors.Is(w.failing, durable.ErrFull): // of a full disk only probe finds out: there may be room for a small write
		w.written()
	}
	return err
}

// written notes that the database can be written. mu is held.
func (w *watched) written() {
	if w.failing != nil {
		w.failing = nil
		w.s.options.Log.Info("the store of runs is written again")
	}
}

// ping reads, and writes if the last write has failed.
func (w *watched) ping(ctx context.Context) error {
	if err := w.read(ctx, func(t snapshot) error {
		var n int64
		return one(ctx, t, `SELECT value FROM @meta WHERE name = 'version'`, nil, &n)
	}); err != nil {
		return err
	}
	return w.probe(ctx)
}

// probe writes if the last write has failed: a row that is longer than the room which a full disk may have left. If the row
// stays, it is pruned as a program without runs.
func (w *watched) probe(ctx context.Context) error {
	w.mu.Lock()
	failing := w.failing
	w.mu.Unlock()
	if failing == nil {
		return nil
	}
	blank := make([]byte, probeSize)
	rand.Read(blank)
	for _, st := range []stmt{
		{`INSERT INTO @programs (hash, engine, source) VALUES ('-', 0, ?) ON CONFLICT (hash) DO UPDATE SET source = excluded.source`, []any{blank}},
		{`DELETE FROM @programs WHERE hash = '-'`, nil},
	} {
		if err := w.write(ctx, func(t tx) error { _, err := t.exec(ctx, st.sql, st.args...); return err }); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written()
	return nil
}

// probeSize is the size of the row by which probe finds out whether there is room again.
const probeSize = 64 << 10

// grace is how long after the end of its lease a run is left to its owner. After an outage the living owners have as long as a
// lease to renew theirs, and to write what the database has lost.
func (s *Store) grace() time.Duration {
	w := s.db
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.back.IsZero() && time.Since(w.back) < s.options.Lease {
		return s.options.Lease
	}
	return 0
}
