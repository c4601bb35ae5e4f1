package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// Start implements [durable.Store].
func (s *Store) Start(ctx context.Context, r durable.Run) (durable.Run, bool, error) {
	n := s.fresh(r)
	err := s.db.write(ctx, func(t tx) error { return s.insert(ctx, t, n, "", s.head(n.ID, &chain{}), 0, 0) })
	if !errors.Is(err, durable.ErrExists) {
		if err != nil {
			n = durable.Run{}
		}
		return n, err == nil, err
	}
	old, err := s.same(ctx, n)
	return old, false, err
}

// Create implements [durable.Store].
func (s *Store) Create(ctx context.Context, r durable.Run, owner string, entries []script.Entry) (durable.Lease, error) {
	n := s.fresh(r)
	n.Owner, n.Epoch = owner, 1
	l := s.newLease(n, &chain{}, nil)
	for _, e := range entries {
		if err := l.put(e); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	l.head = s.head(n.ID, &l.chain)
	err := s.db.write(ctx, func(t tx) error {
		if err := s.insert(ctx, t, n, l.token, l.head, l.chain.count, l.bytes); err != nil {
			return err
		}
		for _, w := range l.pending {
			if _, err := t.exec(ctx, w.stmt.sql, slices.Concat(w.stmt.args, []any{l.id, l.epoch, l.head})...); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, durable.ErrExists) {
		if _, other := s.same(ctx, n); other != nil {
			err = other
		}
	}
	if err != nil {
		return nil, err
	}
	l.pending = nil
	l.renewed(began)
	s.track(l)
	return l, nil
}

// fresh returns r with the fields of a new run that the store sets.
func (s *Store) fresh(r durable.Run) durable.Run {
	now := time.Now().Truncate(time.Microsecond)
	r.ID = cmp.Or(r.ID, durable.NewID())
	r.State, r.Created, r.Updated = durable.Running, now, now
	r.Epoch, r.Owner, r.Entries, r.Bytes, r.Questions, r.Doubts, r.Result, r.Error, r.Damaged = 0, "", 0, 0, nil, nil, nil, "", false
	return r
}

// same returns the run with the id or the idempotency key of r; ErrOtherRequest where it was begun by another principal or
// with another tool or arguments. It reads all but the journal, which whoever acquires the run reads and verifies.
func (s *Store) same(ctx context.Context, r durable.Run) (got durable.Run, err error) {
	err = s.db.read(ctx, func(t snapshot) error {
		var id string
		err := one(ctx, t, `SELECT id FROM @runs WHERE id = ?`, []any{column(r.ID)}, &id)
		if errors.Is(err, errNoRow) && r.Dedupe != "" {
			err = one(ctx, t, `SELECT id FROM @runs WHERE principal = ? AND dedupe = ?`, []any{column(r.Principal), column(r.Dedupe)}, &id)
		}
		if errors.Is(err, errNoRow) {
			return fmt.Errorf("%w: the run that another request began was removed meanwhile", durable.ErrUnavailable)
		}
		if err != nil {
			return err
		}
		got = durable.Run{ID: id}
		j, err := s.loadRow(ctx, t, id, false)
		if err == nil {
			err = s.loadParts(ctx, t, j, s.outside())
		}
		if err != nil {
			return err
		}
		if j.run.Principal != r.Principal || j.run.Tool != r.Tool || !bytes.Equal(j.run.Args, r.Args) {
			return durable.ErrOtherRequest
		}
		got = j.run
		return nil
	})
	return got, err
}

// insert writes the row of a new run; ErrExists where there is one with its id or idempotency key. token is that of its
// lease, if it has one; entries, size and head are those of its journal.
func (s *Store) insert(ctx context.Context, t tx, r durable.Run, token string, head []byte, entries int, size int64) error {
	source, program := encodeProgram(r.Program)
	if _, err := t.exec(ctx, `INSERT INTO @programs (hash, engine, source) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING`, program, int64(r.Program.Engine), source); err != nil {
		return err
	}
	about := s.seal(aboutOf(r.ID), encodeAbout(r, program))
	var dedupe any
	if r.Dedupe != "" {
		dedupe = column(r.Dedupe)
	}
	var header []byte
	var err error
	if r.Header != nil {
		if header, err = s.sealHeader(r.ID, *r.Header); err != nil {
			return err
		}
	}
	n, err := t.exec(ctx, `INSERT INTO @runs (id, parent, tool, principal, dedupe, program, about, header, state, epoch, owner, lease, wake, expires, created, updated, entries, bytes, doubts, head, keys, result)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now} + ?, {now} + ?, ?, ?, ?, ?, ?, '', ?, ?, NULL) ON CONFLICT DO NOTHING`,
		r.ID, column(r.Parent), column(r.Tool), column(r.Principal), dedupe, program, about, header, string(r.State), r.Epoch, token,
		s.options.Lease.Microseconds(), s.options.Lease.Microseconds(), micros(r.Expires), micros(r.Created), micros(r.Updated),
		int64(entries), size, head, s.ring.First())
	if err == nil && n == 0 {
		err = durable.ErrExists
	}
	return err
}

// The contexts of sealed texts: table, key of the row, column.

func aboutOf(run string) string  { return "runs|" + run + "|about" }
func headerOf(run string) string { return "runs|" + run + "|header" }
func headOf(run string) string   { return "runs|" + run + "|head" }
func resultOf(run string, state durable.State) string {
	return "runs|" + run + "|result|" + string(state)
}
func entryOf(run, key string) string    { return "entries|" + run + "|" + key }
func questionOf(run, key string) string { return "questions|" + run + "|" + key }
func answerOf(run, key string) string   { return "questions|" + run + "|" + key + "|answer" }

// head is the seal of a chain, without the text of the chain.
func (s *Store) head(run string, c *chain) []byte {
	text := c.text()
	sealed := s.ring.Sign(durable.MAC, headOf(run), text)
	return sealed[:len(sealed)-len(text)]
}

// fits returns an error, as unseal does, unless head is that of the chain c.
func (s *Store) fits(run string, head []byte, c *chain) error {
	_, err := s.unseal(headOf(run), slices.Concat(head, c.text()))
	return err
}
