// Package sqlstore is the store of runs in a database: SQLite in one file for one process, or PostgreSQL for
// many.
//
// Only sealed data (durable.Ring) is trusted: the seal of a row is bound to its table and key, and the
// head of a run authenticates the seals of all its entries and their number. So a row that is missing,
// outdated or copied from another place is detected when the run is read. Such a run fails
// (durable.ErrDamaged); it is never executed with a wrong value.
//
// The owner of a run has its journal in memory and writes the head with every change, in one transaction
// that begins with the fence: an UPDATE of the run's row that changes no row if the run has another owner
// by now, or another head than the one that was written last. A database that goes back to an earlier
// state is detected by that, and its owner writes the run again.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

var (
	errFenced = errors.New("the run's owner, state or head is another one")
	errNoRow  = errors.New("no row")
)

// Options are the options of both databases.
type Options struct {
	durable.Options
	// Ring seals the rows.
	Ring *durable.Ring
	// Encrypt encrypts arguments, results, questions and answers, which are otherwise authenticated only.
	Encrypt bool
	// Log has a line when the database cannot be written, when it can again, and for every run that it had lost; it may be nil.
	Log *slog.Logger
	// Wrote is called after each write to a journal with its duration and its error; it may be nil.
	Wrote func(took time.Duration, err error)
}

// Store is a durable.Store in a database. OpenSQLite and OpenPostgres open one.
type Store struct {
	options Options
	ring    *durable.Ring
	db      *watched
	stop    context.CancelFunc
	wg      sync.WaitGroup
	renewal chan struct{} // has the leases renewed at once

	mu         sync.Mutex
	leases     map[*lease]struct{} // that were not released yet
	orphans    map[*lease]struct{} // of these, whose end could not be written
	recent     []recent            // ends that the database may lose yet, the oldest first
	recentSize int64
	changed    chan struct{}
	closed     bool
}

// newStore starts the goroutines that renew leases and wait for changes of other processes.
func newStore(o Options, db database) *Store {
	o.Options = o.Options.WithDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		options: o, ring: o.Ring, stop: stop, renewal: make(chan struct{}, 1),
		leases: map[*lease]struct{}{}, orphans: map[*lease]struct{}{}, changed: make(chan struct{}),
	}
	s.db = &watched{database: db, s: s}
	s.wg.Go(func() { db.watch(ctx, s.foreign) })
	if o.Renew > 0 {
		s.wg.Go(func() { s.renew(ctx) })
	}
	return s
}

// Ring returns the key ring, which may be replaced at any time.
func (s *Store) Ring() *durable.Ring { return s.ring }

// seal seals the text of a column, encrypted if the options say so. where is the context of the seal.
func (s *Store) seal(where string, text []byte) []byte {
	if s.options.Encrypt {
		return s.ring.Encrypt(durable.Rows, where, text)
	}
	return s.ring.Sign(durable.MAC, where, text)
}

// unseal opens a text that seal has made, with either value of Options.Encrypt.
func (s *Store) unseal(where string, sealed []byte) ([]byte, error) {
	text, err := s.ring.Open(durable.Rows, where, sealed)
	if errors.Is(err, durable.ErrForged) {
		text, err = s.ring.Open(durable.MAC, where, sealed)
	}
	var unknown *durable.UnknownKeyError
	switch {
	case errors.As(err, &unknown):
		return nil, fmt.Errorf("%w: %q", durable.ErrSealed, unknown.ID)
	case err != nil:
		return nil, fmt.Errorf("%w: %s %v", durable.ErrDamaged, where, err)
	}
	return text, nil
}

// Changed implements [durable.Store].
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// notify closes the channel of Changed.
func (s *Store) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// foreign is called when another process may have changed runs.
func (s *Store) foreign() {
	s.hurry() // a lease may be lost
	s.notify()
}

// hurry has the leases renewed at once.
func (s *Store) hurry() {
	select {
	case s.renewal <- struct{}{}:
	default:
	}
}

// renew renews the leases of this store, every Options.Renew and on renewal, until ctx ends.
func (s *Store) renew(ctx context.Context) {
	tick := time.NewTicker(s.options.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.renewal:
		}
		s.renewAll(ctx)
	}
}

func (s *Store) renewAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Lease)
	defer cancel()
	_ = s.db.probe(ctx) // the log has it
	s.handBack(ctx)
	s.review(ctx)
	s.mu.Lock()
	held := slices.Collect(maps.Keys(s.leases))
	s.mu.Unlock()
	if len(held) == 0 {
		return
	}
	began := time.Now()
	alive := make([]bool, len(held))
	err := s.db.write(ctx, func(t tx) error {
		for i, l := range held {
			n, err := t.exec(ctx, `UPDATE @runs SET lease = {now} + ?, wake = {now} + ? WHERE id = ? AND epoch = ? AND owner = ? AND state = 'running'`,
				s.options.Lease.Microseconds(), s.options.Lease.Microseconds(), l.id, l.epoch, l.token)
			if err != nil {
				return err
			}
			alive[i] = n == 1
		}
		return nil
	})
	for i, l := range held {
		switch {
		case err == nil && alive[i]:
			l.renewed(began)
		case err == nil:
			l.check(ctx)
		case l.over():
			l.lose()
		}
	}
}

// orphaned notes that the end of a lease could not be written.
func (s *Store) orphaned(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.leases[l]; ok {
		s.orphans[l] = struct{}{}
	}
}

// handBack releases the leases whose end could not be written; the remaining ones stay when the database does not answer. It is
// called before a run is acquired, so that no run of this process is acquired without the entries that it still has of it.
func (s *Store) handBack(ctx context.Context) {
	s.mu.Lock()
	orphans := slices.Collect(maps.Keys(s.orphans))
	s.mu.Unlock()
	for _, l := range orphans {
		if err := l.handBack(ctx); errors.Is(err, durable.ErrUnavailable) {
			return
		}
		s.untrack(l)
		s.notify()
	}
}

// track adds a lease to those that are renewed.
func (s *Store) track(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l] = struct{}{}
}

// tracks reports whether it is one of them.
func (s *Store) tracks(l *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.leases[l]
	return ok
}

// untrack removes it from them.
func (s *Store) untrack(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l)
	delete(s.orphans, l)
}

// writeLocal flushes the entries of a run that this process owns, because an effect that has ended closes its
// questions. Errors are ignored: the lease retries, or it is lost.
func (s *Store) writeLocal(ctx context.Context, id string) {
	s.mu.Lock()
	var owned []*lease
	for l := range s.leases {
		if l.id == id {
			owned = append(owned, l)
		}
	}
	s.mu.Unlock()
	for _, l := range owned {
		_ = l.flush(ctx)
	}
}

// loseLocal notifies the owner of a run, if it is in this process, that the run was cancelled.
func (s *Store) loseLocal(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.leases {
		if l.id == id {
			l.cancel()
		}
	}
}

// Ping implements [durable.Store].
func (s *Store) Ping(ctx context.Context) error { return s.db.ping(ctx) }

// Close implements [durable.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	held := s.leases
	s.leases = map[*lease]struct{}{}
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.releaseAll(ctx, held)
	s.notify()
	return errors.Join(err, s.db.close())
}

// releaseAll releases leases and makes their runs due.
func (s *Store) releaseAll(ctx context.Context, held map[*lease]struct{}) error {
	if len(held) == 0 {
		return nil
	}
	for l := range held {
		_ = l.flush(ctx) // entries that cannot be written are lost, as if the process had been killed
	}
	return s.db.write(ctx, func(t tx) error {
		for l := range held {
			l.lose()
			if _, err := t.exec(ctx, `UPDATE @runs SET owner = '', lease = 0, wake = {now} WHERE id = ? AND epoch = ? AND owner = ? AND state = 'running'`, l.id, l.epoch, l.token); err != nil {
				return err
			}
		}
		return s.announce(ctx, t)
	})
}

// batch writes to a journal, and reports the duration to Options.Wrote.
func (s *Store) batch(ctx context.Context, stmts []stmt) error {
	began := time.Now()
	err := s.db.batch(ctx, stmts)
	if s.options.Wrote != nil {
		s.options.Wrote(time.Since(began), err)
	}
	return err
}

// announce notifies other processes of a change when the transaction is committed.
func (s *Store) announce(ctx context.Context, t tx) error {
	a := s.db.announce()
	if a.sql == "" {
		return nil
	}
	return t.query(ctx, a.sql, a.args, func(func(...any) error) error { return nil })
}
