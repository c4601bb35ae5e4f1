package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

func encodeTime(t time.Time) []byte { return strconv.AppendInt(nil, micros(t), 10) }

// change runs f in a transaction, with the row of a run that has not ended locked, and announces the change.
func (s *Store) change(ctx context.Context, id string, f func(t tx, j *stored) error) error {
	err := s.db.write(ctx, func(t tx) error {
		j, err := s.loadRow(ctx, t, id, true)
		if err != nil {
			return err
		}
		if j.run.State.Final() {
			return durable.ErrEnded
		}
		if err := f(t, j); err != nil {
			return err
		}
		return s.announce(ctx, t)
	})
	if err == nil {
		s.notify()
	}
	return err
}

// Answer implements [durable.Store].
func (s *Store) Answer(ctx context.Context, id, key string, answer json.RawMessage) error {
	s.writeLocal(ctx, id)
	return s.change(ctx, id, func(t tx, j *stored) error {
		var deadline, answered int64
		err := one(ctx, t, `SELECT deadline, CASE WHEN answer IS NULL THEN 0 ELSE 1 END FROM @questions WHERE run = ? AND key = ?`, []any{id, column(key)}, &deadline, &answered)
		switch {
		case errors.Is(err, errNoRow):
			return durable.ErrNoQuestion
		case err != nil:
			return err
		case answered == 1:
			return durable.ErrAnswered
		case deadline != 0 && deadline <= j.now:
			return durable.ErrLate
		}
		sealed := s.seal(answerOf(id, key), answer)
		if _, err := t.exec(ctx, `UPDATE @questions SET answer = ? WHERE run = ? AND key = ?`, sealed, id, key); err != nil {
			return err
		}
		_, err = t.exec(ctx, `UPDATE @runs SET updated = {now}, keys = ?, wake = CASE WHEN state = 'waiting' THEN {now} ELSE wake END WHERE id = ?`, s.withKey(j.keys), id)
		return err
	})
}

// withKey returns the ids of keys, separated by spaces, with that of the key that seals now.
func (s *Store) withKey(keys []string) string {
	if first := s.ring.First(); !slices.Contains(keys, first) {
		keys = append(keys, first)
	}
	return strings.Join(keys, " ")
}

// Resolve implements [durable.Store].
func (s *Store) Resolve(ctx context.Context, id, key string, to durable.Resolution) error {
	return s.change(ctx, id, func(t tx, _ *stored) error {
		j, err := s.loadLocked(ctx, t, id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(j.entries, func(e script.Entry) bool { return e.Key == key && !e.Done })
		if i < 0 || j.run.State != durable.Doubt || !slices.Contains(j.run.Doubts, key) {
			return durable.ErrNoDoubt
		}
		resolved := to.Entry(j.entries[i])
		size := j.run.Bytes + durable.Size(resolved) - durable.Size(j.entries[i])
		if resolved.Done {
			if err := s.options.Admit(len(j.entries), size); err != nil {
				return err
			}
		}
		text, err := encodeEntry(resolved)
		if err != nil {
			return err
		}
		sealed := s.seal(entryOf(id, key), text)
		var seq any
		if resolved.Done {
			seq = j.next
			j.chain.record(key, durable.Tag(sealed))
		} else {
			j.chain.begin(key, durable.Tag(sealed))
		}
		if _, err := t.exec(ctx, `UPDATE @entries SET seq = ?, sealed = ? WHERE run = ? AND key = ?`, seq, sealed, id, key); err != nil {
			return err
		}
		if resolved.Done {
			if err := s.closeQuestions(ctx, t, id, func(q durable.Question) bool { return durable.Asked(key, q) }); err != nil {
				return err
			}
		}
		left := slices.DeleteFunc(j.run.Doubts, func(d string) bool { return d == key })
		state, wake, result := durable.Running, j.now, []byte(nil)
		if len(left) > 0 {
			state, wake, result = durable.Doubt, micros(j.run.Wake), j.result
		}
		_, err = t.exec(ctx, `UPDATE @runs SET state = ?, wake = ?, updated = {now}, doubts = ?, result = ?, bytes = ?, head = ?, keys = ? WHERE id = ?`,
			string(state), wake, strings.Join(left, " "), result, size, s.head(id, &j.chain), s.withKey(j.keys), id)
		return err
	})
}

// closeQuestions deletes the open questions of a run that match.
func (s *Store) closeQuestions(ctx context.Context, t tx, id string, match func(durable.Question) bool) error {
	all, err := s.questions(ctx, t, id)
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.Answer == nil && match(q) {
			if _, err := t.exec(ctx, `DELETE FROM @questions WHERE run = ? AND key = ? AND answer IS NULL`, id, q.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite replaces an entry of the table, and adds it to a chain.
func (s *Store) rewrite(ctx context.Context, t tx, id string, c *chain, e script.Entry) error {
	text, err := encodeEntry(e)
	if err != nil {
		return err
	}
	sealed := s.seal(entryOf(id, e.Key), text)
	if e.Done {
		c.record(e.Key, durable.Tag(sealed))
	} else {
		c.begin(e.Key, durable.Tag(sealed))
	}
	_, err = t.exec(ctx, `UPDATE @entries SET sealed = ? WHERE run = ? AND key = ?`, sealed, id, e.Key)
	return err
}

// Cancel implements [durable.Store].
func (s *Store) Cancel(ctx context.Context, id, reason string) error {
	err := s.change(ctx, id, func(t tx, j *stored) error {
		result := s.sealResult(id, durable.Outcome{State: durable.Cancelled, Error: reason}, false)
		if _, err := t.exec(ctx, `DELETE FROM @questions WHERE run = ? AND answer IS NULL`, id); err != nil {
			return err
		}
		_, err := t.exec(ctx, `UPDATE @runs SET state = 'cancelled', wake = 0, updated = {now}, doubts = '', result = ?, keys = ? WHERE id = ?`, result, s.withKey(j.keys), id)
		if err != nil {
			return err
		}
		ended := s.uncounted(id, j.run.Tool, durable.Cancelled, j.run.Epoch)
		_, err = t.exec(ctx, ended.sql, ended.args...)
		return err
	})
	if err == nil {
		s.loseLocal(id)
	}
	return err
}

// Resume implements [durable.Store].
func (s *Store) Resume(ctx context.Context, id string) error {
	return s.change(ctx, id, func(t tx, j *stored) error {
		if j.run.Owner != "" && j.lease > j.now {
			return durable.ErrBusy
		}
		_, err := t.exec(ctx, `UPDATE @runs SET state = 'running', owner = '', lease = 0, wake = {now}, updated = {now}, result = NULL WHERE id = ?`, id)
		return err
	})
}

// Prune implements [durable.Store].
func (s *Store) Prune(ctx context.Context, o durable.Old) (int, error) {
	total := 0
	for {
		n, err := s.pruneSome(ctx, o)
		if total += n; err != nil {
			return total, err
		}
		if n < pruneAtOnce {
			break
		}
	}
	if total == 0 {
		return 0, nil
	}
	return total, s.prunePrograms(ctx)
}

// prunePrograms removes programs that no run has. While it looks no run begins: one that has found its program in the table
// would begin without it.
func (s *Store) prunePrograms(ctx context.Context) error {
	return s.db.write(ctx, func(t tx) error {
		if _, err := t.exec(ctx, `{alone}`); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `DELETE FROM @programs WHERE NOT EXISTS (SELECT 1 FROM @runs WHERE program = hash)`); err != nil {
			return err
		}
		_, err := t.exec(ctx, `DELETE FROM @outbox WHERE event = ? AND at < {now} - ?`, eventPruned, 4*prunedAfter.Microseconds())
		return err
	})
}

// eventPruned is the event of a row of the outbox that says that a run was pruned soon after its end. It is never sent.
const eventPruned = "-"

// prunedAfter is how long after its lease was renewed last an owner writes a run anew that is missing in the database. A run
// that ended within twice that time leaves a row when it is pruned.
const prunedAfter = time.Hour

// pruneAtOnce bounds the runs that one transaction deletes, because other writes wait for it.
const pruneAtOnce = 200

func (s *Store) pruneSome(ctx context.Context, o durable.Old) (n int, err error) {
	states := o.States
	if states == nil {
		states = []durable.State{durable.Done, durable.Failed, durable.Cancelled}
	}
	err = s.db.write(ctx, func(t tx) error {
		w := where{}
		w.in("state", slices.DeleteFunc(slices.Clone(states), func(s durable.State) bool { return !s.Final() }))
		w.and(`updated < ?`, micros(o.Before))
		if o.Principal != nil {
			w.and(`principal = ?`, column(*o.Principal))
		}
		var ids []string
		if err := t.query(ctx, `SELECT id FROM @runs`+w.text()+` LIMIT ?`, append(w.args, int64(pruneAtOnce)), func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := t.exec(ctx, `INSERT INTO @outbox (run, event, epoch, at, attempts, next) SELECT id, CAST(? AS TEXT), 0, {now}, 0, CAST(? AS {int}) FROM @runs WHERE id = ? AND updated > {now} - ?`,
				eventPruned, int64(math.MaxInt64), id, 2*prunedAfter.Microseconds()); err != nil {
				return err
			}
			for _, sql := range []string{`DELETE FROM @entries WHERE run = ?`, `DELETE FROM @questions WHERE run = ?`, `DELETE FROM @outbox WHERE run = ? AND event NOT LIKE '#%' AND event <> '-'`, `DELETE FROM @runs WHERE id = ?`} {
				if _, err := t.exec(ctx, sql, id); err != nil {
					return err
				}
			}
		}
		n = len(ids)
		return nil
	})
	return n, err
}
