package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Writes to a SQLite file are committed in groups: while one group is synced to the disk, the writes of the next one
// are queued. Each write of a group has a savepoint, so that one that is fenced or fails does not roll back the others.

// maxGroup is how many writes one group has at most.
const maxGroup = 256

// request is a write that is queued for the goroutine that writes.
type request struct {
	do    func(tx) error
	state atomic.Int32 // 0: queued, 1: being written, 2: given up by the caller
	done  chan error
	err   error // of do; only the goroutine that writes uses it
}

func (f *file) write(ctx context.Context, do func(tx) error) error {
	r := &request{do: do, done: make(chan error, 1)}
	select {
	case f.requests <- r:
	case <-ctx.Done():
		return fmt.Errorf("%w: %s: %w", durable.ErrUnavailable, f.path, context.Cause(ctx))
	case <-f.stop:
		return fmt.Errorf("%w: %s: it is closed", durable.ErrUnavailable, f.path)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(0, 2) {
			return fmt.Errorf("%w: %s: %w", durable.ErrUnavailable, f.path, context.Cause(ctx))
		}
		return <-r.done // it is being written: the goroutine that writes uses the caller's variables until it is done
	}
}

func (f *file) batch(ctx context.Context, stmts []stmt) error {
	return f.write(ctx, func(t tx) error {
		for i, s := range stmts {
			n, err := t.exec(ctx, s.sql, s.args...)
			if err != nil {
				return err
			}
			if i == 0 && n == 0 {
				return errFenced
			}
		}
		return nil
	})
}

// writeLoop is the goroutine that writes: it owns conn until stop is closed.
func (f *file) writeLoop() {
	defer close(f.done)
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	version := f.dataVersion()
	for {
		select {
		case r := <-f.requests:
			f.group(f.gather(r))
		case <-tick.C:
			// data_version changes with the commits of other connections only.
			if v := f.dataVersion(); v != version {
				version = v
				select {
				case f.foreign <- struct{}{}:
				default:
				}
			}
		case <-f.stop:
			return
		}
	}
}

func (f *file) dataVersion() (v int64) {
	_ = f.conn.QueryRowContext(context.Background(), "PRAGMA data_version").Scan(&v)
	return v
}

// gather returns r with the requests that are queued behind it.
func (f *file) gather(r *request) []*request {
	group := []*request{r}
	for len(group) < maxGroup {
		select {
		case r := <-f.requests:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// group writes requests in one transaction, and sends each its error.
func (f *file) group(group []*request) {
	ctx := context.Background() // an interrupted statement would roll back the other writes, too
	err := f.inTransaction(ctx, func() error {
		written := 0
		for _, r := range group {
			if !r.state.CompareAndSwap(0, 1) {
				continue
			}
			if r.err = f.one(ctx, r.do, len(group) == 1); r.err == nil {
				written++
			}
		}
		if written == 0 {
			return errNothing
		}
		return f.countCommit(ctx)
	})
	if errors.Is(err, errNothing) {
		err = nil
	} else if err == nil {
		err = f.mark()
	}
	for _, r := range group {
		if err != nil && r.err == nil {
			r.err = err
		}
		r.done <- r.err
	}
}

var errNothing = errors.New("nothing to commit")

// one runs one write of a group. The only write of a group needs no savepoint: nothing is committed when it fails.
func (f *file) one(ctx context.Context, do func(tx) error, alone bool) (err error) {
	if alone {
		defer guard(f.path, &err)
		return do(f.tx(&f.stmts))
	}
	return f.savepoint(ctx, do)
}

// savepoint runs one of several writes, and rolls back only that one when it fails.
func (f *file) savepoint(ctx context.Context, do func(tx) error) (err error) {
	defer guard(f.path, &err)
	if _, err := f.stmts.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return f.failure("write", err)
	}
	if err := do(f.tx(&f.stmts)); err != nil {
		_, failed := f.conn.ExecContext(ctx, "ROLLBACK TO one; RELEASE one")
		if failed != nil { // a full disk has rolled back everything
			return fmt.Errorf("%w (%w)", f.failure("roll back", failed), err)
		}
		return err
	}
	_, err = f.stmts.ExecContext(ctx, "RELEASE one")
	return f.failure("write", err)
}

// inTransaction runs do and commits, or rolls back when it fails.
func (f *file) inTransaction(ctx context.Context, do func() error) (err error) {
	defer guard(f.path, &err)
	if _, err := f.stmts.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return f.failure("write", err)
	}
	if err := do(); err != nil {
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK") // the transaction may be rolled back already
		return err
	}
	if _, err := f.stmts.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK")
		return f.failure("commit", err)
	}
	return nil
}
