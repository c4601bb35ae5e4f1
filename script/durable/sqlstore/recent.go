package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// A database that goes back may lose the end of a run that nobody owns any more: it would be executed again from an earlier
// journal. So the leases that ended last are kept, and written again if the database does not have their end.

const (
	// recentFor is how long after an end the database may lose it: longer than PostgreSQL delays the write of a commit with
	// synchronous_commit off (0.6 s), and than an asynchronous standby usually is behind.
	recentFor = 5 * time.Second
	// maxRecent and maxRecentBytes bound the leases that are kept; the oldest are dropped.
	maxRecent      = 4096
	maxRecentBytes = 32 << 20
)

// recent is a lease that has ended.
type recent struct {
	l    *lease
	o    durable.Outcome
	at   time.Time
	size int64
}

// over untracks a lease that has ended with o. Its writing is held.
func (s *Store) over(l *lease, o durable.Outcome) {
	l.mu.Lock()
	size := l.bytes
	l.mu.Unlock()
	s.mu.Lock()
	delete(s.leases, l)
	delete(s.orphans, l)
	if s.db.goesBack() && s.options.Renew > 0 && !s.closed {
		s.recent = append(s.recent, recent{l, o, time.Now(), size})
		s.recentSize += size
		n := 0
		for ; s.recentSize > maxRecentBytes || len(s.recent)-n > maxRecent; n++ {
			s.recentSize -= s.recent[n].size
		}
		s.recent = slices.Delete(s.recent, 0, n)
	}
	s.mu.Unlock()
	s.notify()
}

// review writes the ends again that the database has lost, and forgets those that it had for longer than recentFor.
func (s *Store) review(ctx context.Context) {
	began := time.Now()
	s.mu.Lock()
	last := map[string]recent{} // by run: the last one has everything
	for _, r := range s.recent {
		last[r.l.id] = r
	}
	for l := range s.leases {
		delete(last, l.id)
	}
	s.mu.Unlock()
	lost, err := s.lost(ctx, last)
	if err != nil {
		return
	}
	for _, r := range lost {
		r.l.writing.Lock()
		err := r.l.end(ctx, r.o)
		r.l.writing.Unlock()
		if errors.Is(err, durable.ErrUnavailable) {
			return
		}
		s.notify()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < len(s.recent) && began.Sub(s.recent[n].at) > recentFor; n++ {
		s.recentSize -= s.recent[n].size
	}
	s.recent = slices.Delete(s.recent, 0, n)
}

// lost returns those of the ends that the database does not have.
func (s *Store) lost(ctx context.Context, ended map[string]recent) (lost []recent, err error) {
	for ids := range slices.Chunk(slices.Collect(maps.Keys(ended)), 500) {
		args := make([]any, len(ids))
		missing := map[string]bool{}
		for i, id := range ids {
			args[i], missing[id] = id, true
		}
		err := s.db.read(ctx, func(t snapshot) error {
			return t.query(ctx, `SELECT id, epoch, owner FROM @runs WHERE id IN (?`+strings.Repeat(`, ?`, len(args)-1)+`)`, args, func(scan func(...any) error) error {
				var id, owner string
				var epoch int64
				err := scan(&id, &epoch, &owner)
				if l := ended[id].l; err == nil && epoch >= l.epoch && owner != l.token {
					delete(missing, id)
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		for id := range missing {
			lost = append(lost, ended[id])
		}
	}
	return lost, nil
}
