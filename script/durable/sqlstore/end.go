package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Ask implements [durable.Lease].
func (l *lease) Ask(ctx context.Context, q ...durable.Question) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.note()
	l.know(q)
	l.mu.Unlock()
	return l.write(ctx, update{then: l.s.ask(l.id, q)})
}

// know adds questions to those that the run has asked, and their answers. mu is held.
func (l *lease) know(questions []durable.Question) {
	for _, q := range questions {
		i := slices.IndexFunc(l.asked, func(a durable.Question) bool { return a.Key == q.Key })
		switch {
		case i < 0:
			l.asked = append(l.asked, q)
		case l.asked[i].Answer == nil:
			l.asked[i].Answer = q.Answer
		}
		l.open[q.Key] = i < 0 || l.asked[i].Answer == nil
	}
}

// ask returns the statements that add the questions whose keys the run does not have yet. They end with guarded.
func (s *Store) ask(id string, questions []durable.Question) []stmt {
	var stmts []stmt
	for i, q := range questions {
		sealed := s.seal(questionOf(id, q.Key), pack([]byte(q.Method), q.Params, encodeTime(q.Deadline)))
		stmts = append(stmts, stmt{`INSERT INTO @questions (run, key, ord, deadline, sealed) SELECT * FROM (SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS {int}) + (SELECT COALESCE(MAX(ord) + 1, 0) FROM @questions WHERE run = ?), CAST(? AS {int}), CAST(? AS {blob})) AS asked
			WHERE ` + guarded + ` ON CONFLICT (run, key) DO NOTHING`, []any{id, q.Key, int64(i), id, micros(q.Deadline), sealed}})
	}
	return stmts
}

// Answers implements [durable.Lease].
func (l *lease) Answers(ctx context.Context) (found []durable.Question, err error) {
	err = l.s.db.read(ctx, func(t snapshot) error {
		found, err = l.s.questions(ctx, t, l.id)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range found {
		if q.Answer != nil {
			l.know([]durable.Question{q})
		}
	}
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
	err := l.end(ctx, o)
	if errors.Is(err, durable.ErrUnavailable) {
		l.s.orphaned(l)
		return err
	}
	l.s.over(l, o)
	return err
}

// end writes all pending changes and the outcome, or, if the run was cancelled, only the changes. writing is held.
func (l *lease) end(ctx context.Context, o durable.Outcome) error {
	l.mu.Lock()
	l.note()
	w := update{
		state: o.State, frees: true, set: `, state = ?, owner = '', lease = 0, wake = ?, updated = {now}, doubts = ?, result = ?`,
		args: []any{string(o.State), micros(o.Wake), strings.Join(o.Doubts, " "), l.s.sealResult(l.id, o, false)}, outline: o.State.Final() && l.s.options.Keep == durable.KeepOutline,
	}
	if o.State.Final() && l.err == nil {
		w.args[1] = int64(0)
		if l.s.options.Keep == durable.KeepNone {
			l.forget()
		}
		l.close("")
	}
	l.mu.Unlock()
	w.then, w.also = l.after(o), l.s.enqueue(l.id, o.State, l.epoch)
	err := l.write(ctx, w)
	if errors.Is(err, durable.ErrCancelled) {
		return nil
	}
	return err
}

// after returns the statements that follow the fence and the pending changes. They end with guarded.
func (l *lease) after(o durable.Outcome) []stmt {
	var stmts []stmt
	if !o.State.Final() {
		stmts = l.s.ask(l.id, o.Questions)
	}
	for _, q := range o.Questions {
		// A question that was asked before may have its answer already.
		stmts = append(stmts, stmt{`UPDATE @runs SET wake = {now} WHERE id = ? AND state = 'waiting' AND EXISTS
			(SELECT 1 FROM @questions WHERE run = ? AND key = ? AND answer IS NOT NULL) AND ` + guarded, []any{l.id, l.id, q.Key}})
	}
	if o.State.Final() && l.s.options.Keep != durable.KeepFull {
		stmts = append(stmts, stmt{`DELETE FROM @questions WHERE run = ? AND ` + guarded, []any{l.id}})
	}
	return stmts
}

// forget replaces all pending changes by the deletion of all entries. mu is held.
func (l *lease) forget() {
	l.chain, l.bytes, l.rows = chain{}, 0, map[string]row{}
	l.pending = []change{{stmt: stmt{`DELETE FROM @entries WHERE run = ? AND ` + guarded, []any{l.id}}}}
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
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.s.tracks(l) {
		return nil // it was ended meanwhile
	}
	return l.write(ctx, update{frees: true, set: `, owner = '', lease = 0, wake = {now}`})
}
