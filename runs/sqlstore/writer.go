package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/runs"
)

// Writes to a file are grouped: while one group is synced to the disk, the next one gathers. Each
// write of a group has a savepoint, so that one that is fenced or fails does not undo the others.

// mostOfGroup is how many writes one group has.
const mostOfGroup = 256

// request is a write that waits for its group.
type request struct {
	do    func(tx) error
	state atomic.Int32 // 0 waits, 1 is written, 2 was given up
	done  chan error
	err   error // its own, the writer's
}

func (f *file) write(ctx context.Context, do func(tx) error) error {
	r := &request{do: do, done: make(chan error, 1)}
	select {
	case f.requests <- r:
	case <-ctx.Done():
		return fmt.Errorf("%w: %s: %w", runs.ErrUnavailable, f.path, context.Cause(ctx))
	case <-f.stop:
		return fmt.Errorf("%w: %s: it is closed", runs.ErrUnavailable, f.path)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(0, 2) {
			return fmt.Errorf("%w: %s: %w", runs.ErrUnavailable, f.path, context.Cause(ctx))
		}
		return <-r.done // it is being written: what it touches belongs to the writer until it is done
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

// write1 is the goroutine that writes: it owns conn until stop is closed.
func (f *file) write1() {
	defer close(f.done)
	tick := time.NewTicker(f.look)
	defer tick.Stop()
	version := f.dataVersion()
	for {
		select {
		case r := <-f.requests:
			f.group(f.gather(r))
		case <-tick.C:
			// It changes with the commits of other connections only.
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

// gather takes what waits behind a request.
func (f *file) gather(r *request) []*request {
	group := []*request{r}
	for len(group) < mostOfGroup {
		select {
		case r := <-f.requests:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// group writes requests in one transaction, and tells each what became of it.
func (f *file) group(group []*request) {
	ctx := context.Background() // an interrupted statement would undo the others, too
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

// one runs one write of a group. One that is alone needs no savepoint: nothing is committed when it fails.
func (f *file) one(ctx context.Context, do func(tx) error, alone bool) (err error) {
	if alone {
		defer guard(f.path, &err)
		return do(f.tx(&f.stmts))
	}
	return f.savepoint(ctx, do)
}

// savepoint runs a write that others do not depend on.
func (f *file) savepoint(ctx context.Context, do func(tx) error) (err error) {
	defer guard(f.path, &err)
	if _, err := f.stmts.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return f.failure("write", err)
	}
	if err := do(f.tx(&f.stmts)); err != nil {
		_, undone := f.conn.ExecContext(ctx, "ROLLBACK TO one; RELEASE one")
		if undone != nil { // a full disk has rolled back everything
			return fmt.Errorf("%w (%w)", f.failure("undo", undone), err)
		}
		return err
	}
	_, err = f.stmts.ExecContext(ctx, "RELEASE one")
	return f.failure("write", err)
}

// inTransaction runs f and commits, or rolls back.
func (f *file) inTransaction(ctx context.Context, do func() error) (err error) {
	defer guard(f.path, &err)
	if _, err := f.stmts.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return f.failure("write", err)
	}
	if err := do(); err != nil {
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK") // there may be none any more
		return err
	}
	if _, err := f.stmts.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK")
		return f.failure("commit", err)
	}
	return nil
}
