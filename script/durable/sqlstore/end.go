package sqlstore

import (
	"context"
	"errors"
	"strings"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Ask implements [durable.Lease].
func (l *lease) Ask(ctx context.Context, q ...durable.Question) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	l.note()
	for _, one := range q {
		l.open[one.Key] = true
	}
	stmts := l.stmts(l.fence(``))
	n := len(stmts) - 1
	l.mu.Unlock()
	err := l.s.batch(ctx, append(stmts, l.ask(q)...))
	if errors.Is(err, errFenced) {
		return l.fenced(ctx, false)
	}
	return l.flushed(n, err)
}

// ask returns the statements that add the questions whose keys the run does not have yet.
func (l *lease) ask(questions []durable.Question) []stmt {
	var stmts []stmt
	for i, q := range questions {
		sealed := l.s.seal(questionOf(l.id, q.Key), pack([]byte(q.Method), q.Params, encodeTime(q.Deadline)))
		stmts = append(stmts, stmt{`INSERT INTO @questions (run, key, ord, deadline, sealed) SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS {int}) + (SELECT COALESCE(MAX(ord) + 1, 0) FROM @questions WHERE run = ?), CAST(? AS {int}), CAST(? AS {blob})
			FROM @runs WHERE id = ? AND epoch = ? ON CONFLICT (run, key) DO NOTHING`, []any{l.id, q.Key, int64(i), l.id, micros(q.Deadline), sealed, l.id, l.epoch}})
	}
	return stmts
}

// Answers implements [durable.Lease].
func (l *lease) Answers(ctx context.Context) (found []durable.Question, err error) {
	err = l.s.db.read(ctx, func(t snapshot) error {
		found, err = l.s.questions(ctx, t, l.id)
		return err
	})
	return found, err
}

// End implements [durable.Lease].
func (l *lease) End(ctx context.Context, o durable.Outcome) error {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.ended = true
	l.mu.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	cancelled, err := l.end(ctx, o)
	if errors.Is(err, errFenced) {
		err = l.fenced(ctx, cancelled)
	}
	if errors.Is(err, durable.ErrCancelled) {
		err = l.abandon(ctx)
	}
	if errors.Is(err, durable.ErrUnavailable) {
		l.mu.Lock()
		l.orphan = true
		l.mu.Unlock()
		return err
	}
	l.s.untrack(l)
	l.s.notify()
	return err
}

// end writes all pending changes and the outcome, or, if the run is known to be cancelled, only the changes. writing is held.
func (l *lease) end(ctx context.Context, o durable.Outcome) (cancelled bool, err error) {
	l.mu.Lock()
	switch {
	case l.cancelled:
		stmts := l.stmts(l.fence(``))
		l.mu.Unlock()
		return true, l.flushed(len(stmts)-1, l.s.batch(ctx, stmts))
	case l.err != nil:
		defer l.mu.Unlock()
		return false, l.err
	}
	l.note()
	if o.State.Final() && l.s.options.Keep == durable.KeepNone {
		l.forget()
	}
	wake := micros(o.Wake)
	if o.State.Final() {
		wake = 0
		l.close("")
	}
	stmts := l.stmts(l.fence(`, state = ?, owner = '', lease = 0, wake = ?, updated = {now}, doubts = ?, result = ?`,
		string(o.State), wake, strings.Join(o.Doubts, " "), l.s.sealResult(l.id, o, false)))
	n := len(stmts) - 1
	stmts = append(stmts, l.after(o)...)
	l.mu.Unlock()
	if o.State.Final() && l.s.options.Keep == durable.KeepOutline {
		return false, l.flushed(n, l.s.db.write(ctx, func(t tx) error { return l.s.outline(ctx, t, l.id, stmts) }))
	}
	return false, l.flushed(n, l.s.batch(ctx, stmts))
}

// after returns the statements that follow the fence and the pending changes.
func (l *lease) after(o durable.Outcome) []stmt {
	var stmts []stmt
	if !o.State.Final() {
		stmts = l.ask(o.Questions)
	}
	for _, q := range o.Questions {
		// A question that was asked before may have its answer already.
		stmts = append(stmts, stmt{`UPDATE @runs SET wake = {now} WHERE id = ? AND epoch = ? AND state = 'waiting' AND EXISTS
			(SELECT 1 FROM @questions WHERE run = ? AND key = ? AND answer IS NOT NULL)`, []any{l.id, l.epoch, l.id, q.Key}})
	}
	if o.State.Final() && l.s.options.Keep != durable.KeepFull {
		stmts = append(stmts, stmt{`DELETE FROM @questions WHERE run = ? AND EXISTS (SELECT 1 FROM @runs WHERE id = ? AND epoch = ?)`, []any{l.id, l.id, l.epoch}})
	}
	stmts = append(stmts, l.s.enqueue(l.id, o.State, l.epoch)...)
	if a := l.s.db.announce(); a.sql != "" {
		stmts = append(stmts, a)
	}
	return stmts
}

// forget replaces all pending changes by the deletion of all entries. mu is held.
func (l *lease) forget() {
	l.chain, l.bytes = chain{}, 0
	l.pending = []change{{stmt: stmt{`DELETE FROM @entries WHERE run = ? AND EXISTS (SELECT 1 FROM @runs WHERE id = ? AND epoch = ?)`, []any{l.id, l.id, l.epoch}}}}
}

// outline runs statements, the first of which is a fence, and replaces the run's entries by their
// durable.Outline.
func (s *Store) outline(ctx context.Context, t tx, id string, stmts []stmt) error {
	for i, st := range stmts {
		n, err := t.exec(ctx, st.sql, st.args...)
		if err != nil {
			return err
		}
		if i == 0 && n == 0 {
			return errFenced
		}
	}
	j, err := s.loadLocked(ctx, t, id)
	if err != nil {
		return err
	}
	c := chain{}
	for i := range j.entries {
		j.entries[i] = durable.Outline(j.entries[i])
		if err := s.rewrite(ctx, t, id, &c, j.entries[i]); err != nil {
			return err
		}
	}
	_, err = t.exec(ctx, `UPDATE @runs SET bytes = 0, head = ? WHERE id = ?`, s.head(id, &c), id)
	return err
}

// handBack writes the pending changes of a run whose end could not be written, and makes the run due.
func (l *lease) handBack(ctx context.Context) error {
	l.mu.Lock()
	if errors.Is(l.err, durable.ErrUnavailable) {
		l.err = nil // the fence says whether the run is still this owner's
	}
	l.mu.Unlock()
	if err := l.flush(ctx); err != nil && !errors.Is(err, durable.ErrCancelled) {
		return err
	}
	return l.s.db.write(ctx, func(t tx) error {
		if _, err := t.exec(ctx, `UPDATE @runs SET owner = '', lease = 0, wake = CASE WHEN state = 'running' THEN {now} ELSE wake END WHERE id = ? AND epoch = ?`, l.id, l.epoch); err != nil {
			return err
		}
		return l.s.announce(ctx, t)
	})
}

// abandon removes the owner from the row of a run that was cancelled.
func (l *lease) abandon(ctx context.Context) error {
	return l.s.db.write(ctx, func(t tx) error {
		_, err := t.exec(ctx, `UPDATE @runs SET owner = '', lease = 0 WHERE id = ? AND epoch = ?`, l.id, l.epoch)
		return err
	})
}
