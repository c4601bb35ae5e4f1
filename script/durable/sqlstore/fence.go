package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// update is one transaction of an owner: the fence, all pending changes, and what follows them.
type update struct {
	state  durable.State // of the run afterwards; "": the one it has
	frees  bool          // the run has no owner afterwards
	renews bool          // the lease is renewed
	set    string        // further assignments of the fence, and their values
	args   []any
	then   []stmt // that end with guarded, without its arguments
	also   []stmt // with a condition of their own
	// outline replaces the entries by their durable.Outline.
	outline bool
}

// tries bounds how often one write is made anew because the database went back meanwhile.
const tries = 5

// flush writes all pending changes in one transaction.
func (l *lease) flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.write(ctx, update{})
}

// check writes the run anew if a renewal has not found it, unless another lease has it or it was cancelled.
func (l *lease) check(ctx context.Context) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.s.tracks(l) {
		_ = l.write(ctx, update{renews: true})
	}
}

// write writes w with all pending changes. It returns ErrCancelled, without w, when the run was cancelled; writing is held.
func (l *lease) write(ctx context.Context, w update) error {
	for range tries {
		l.mu.Lock()
		if l.err != nil {
			if !l.cancelled {
				defer l.mu.Unlock()
				return l.err
			}
			w = update{frees: l.ended}
			if w.frees {
				w.set = `, owner = '', lease = 0`
			}
		}
		if len(l.pending) == 0 && w.set == "" && w.then == nil && !w.renews {
			defer l.mu.Unlock()
			return l.err
		}
		began := time.Now()
		w.renews = w.renews || w.set == "" && !l.cancelled && began.After(l.until)
		if w.renews {
			w.set, w.args = `, lease = {now} + ?, wake = {now} + ?`, []any{l.s.options.Lease.Microseconds(), l.s.options.Lease.Microseconds()}
		}
		stmts, head, n := l.stmts(w)
		l.mu.Unlock()
		err := l.send(ctx, w, stmts)
		if errors.Is(err, errFenced) {
			if n, head, err = l.reconcile(ctx, w, head, n); errors.Is(err, errFenced) {
				continue
			}
		}
		if err == nil && w.renews {
			l.renewed(began)
		}
		return l.flushed(n, head, err)
	}
	return l.flushed(0, nil, fmt.Errorf("%w: it went back %d times during one write", durable.ErrUnavailable, tries))
}

// send writes the statements in one transaction.
func (l *lease) send(ctx context.Context, w update, stmts []stmt) error {
	if !w.outline {
		return l.s.batch(ctx, stmts)
	}
	return l.s.db.write(ctx, func(t tx) error { return l.s.outline(ctx, t, l.id, stmts) })
}

// flushed removes the first n pending changes, which were written with head, unless err says otherwise. writing is held.
func (l *lease) flushed(n int, head []byte, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = 0
	if err != nil {
		return err
	}
	l.head, l.pending = head, slices.Clone(l.pending[n:])
	return l.err
}

// state is the state of the run while this lease has it. mu is held.
func (l *lease) state() durable.State {
	if l.cancelled {
		return durable.Cancelled
	}
	return durable.Running
}

// stmts returns the statements of w, the head that they write, and the number of pending changes among them. writing and mu
// are held.
func (l *lease) stmts(w update) (stmts []stmt, head []byte, n int) {
	head = l.s.head(l.id, &l.chain)
	args := []any{int64(l.chain.count), l.bytes, head, l.header, strings.Join(l.keys, " ")}
	args = append(append(args, w.args...), l.id, l.epoch, l.token, string(l.state()), l.head)
	stmts = append(stmts, stmt{`UPDATE @runs SET entries = ?, bytes = ?, head = ?, header = COALESCE(header, CAST(? AS {blob})), keys = ?` + w.set + ` WHERE id = ? AND epoch = ? AND owner = ? AND state = ? AND head = ?`, args})
	for _, c := range l.pending {
		stmts = append(stmts, c.stmt)
	}
	l.inFlight = len(l.pending)
	stmts = append(stmts, w.then...)
	guard := []any{l.id, l.epoch, head}
	for i := range stmts[1:] {
		stmts[i+1].args = slices.Concat(stmts[i+1].args, guard)
	}
	stmts = append(stmts, w.also...)
	if a := l.s.db.announce(); w.frees && a.sql != "" {
		stmts = append(stmts, a)
	}
	return stmts, head, l.inFlight
}

// found is the row of a run as the fence did not expect it.
type found struct {
	state   durable.State
	epoch   int64
	owner   string
	head    []byte
	missing bool
}

// reconcile reads why the fence of w changed no row. It returns the number of pending changes that are written, and with which
// head; errFenced when w is to be tried again. head and n are those that w has tried. writing is held.
func (l *lease) reconcile(ctx context.Context, w update, head []byte, n int) (int, []byte, error) {
	var err error
	back := l.snapshot()
	verdict := ""
	began := time.Now()
	err = l.s.db.write(ctx, func(t tx) error {
		f, err := l.s.find(ctx, t, l.id)
		if err != nil {
			return err
		}
		if verdict = l.compare(f, back, w, head); verdict != wentBack {
			return nil
		}
		return l.s.restore(ctx, t, back, f.missing)
	})
	if errors.Is(err, durable.ErrExists) || errors.Is(err, errPruned) {
		verdict, err = taken, nil
	}
	switch {
	case err != nil:
		return 0, nil, err
	case verdict == written:
		return n, head, nil
	case verdict == wentBack:
		l.s.options.Log.Warn("the database of runs went back to an earlier state: the journal of a run was written again", "run", l.id, "tool", back.run.Tool, "entries", len(back.rows))
		_ = l.flushed(back.n, back.head, nil)
		l.renewed(began)
		return 0, nil, errFenced
	}
	l.lose()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = 0
	if verdict == taken {
		l.err, l.cancelled, l.pending = durable.ErrTaken, false, nil
		return 0, nil, l.err
	}
	l.err, l.cancelled = durable.ErrCancelled, true
	for _, c := range slices.Clone(l.pending) {
		if c.intent {
			l.release(c.key)
		}
	}
	return 0, nil, errFenced
}

// The verdicts of compare.
const (
	written   = "written"
	taken     = "taken"
	cancelled = "cancelled"
	wentBack  = "went back"
)

// compare says why the fence of w, which would have written head, changed no row.
func (l *lease) compare(f found, b back, w update, head []byte) string {
	want := w.state
	if want == "" {
		want = b.state
	}
	switch {
	case f.missing, f.epoch < l.epoch:
		return wentBack
	case f.epoch > l.epoch, f.owner != "" && f.owner != l.token:
		return taken
	case f.state == want && bytes.Equal(f.head, head) && (f.owner == "") == w.frees:
		return written
	case f.state == durable.Cancelled && (b.state != durable.Cancelled || f.owner == l.token && bytes.Equal(f.head, l.head)):
		return cancelled // in the second case this lease has been told of it since the fence was made
	case f.owner == "" && (f.state != b.state || !bytes.Equal(f.head, l.head)):
		return taken
	}
	return wentBack
}

// find reads the row of a run, and locks it.
func (s *Store) find(ctx context.Context, t tx, id string) (f found, err error) {
	var state string
	err = one(ctx, t, `SELECT state, epoch, owner, head FROM @runs WHERE id = ? {lock}`, []any{id}, &state, &f.epoch, &f.owner, &f.head)
	f.state = durable.State(state)
	if errors.Is(err, errNoRow) {
		f.missing, err = true, nil
	}
	return f, err
}

// back is all that an owner has of a run.
type back struct {
	run    durable.Run
	state  durable.State
	epoch  int64
	token  string
	header []byte
	head   []byte
	count  int
	bytes  int64
	keys   string
	rows   map[string]row
	asked  []durable.Question
	closed []string // keys of questions
	until  time.Time
	n      int // pending changes that this includes
}

func (l *lease) snapshot() back {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := back{
		run: l.taken, state: l.state(), epoch: l.epoch, token: l.token, header: l.header, head: l.s.head(l.id, &l.chain), count: l.chain.count, bytes: l.bytes,
		keys: strings.Join(l.keys, " "), rows: maps.Clone(l.rows), until: l.until, n: len(l.pending),
	}
	for _, q := range l.asked {
		if q.Answer == nil && !l.open[q.Key] {
			b.closed = append(b.closed, q.Key)
		} else {
			b.asked = append(b.asked, q)
		}
	}
	l.inFlight = b.n
	return b
}

// errPruned says that a run that is missing was pruned.
var errPruned = errors.New("the run was pruned")

// restore writes all that an owner has of a run over the row that the database has, or as a new one.
func (s *Store) restore(ctx context.Context, t tx, b back, missing bool) error {
	if missing {
		if err := s.missed(ctx, t, b); err != nil {
			return err
		}
	}
	var result []byte
	if b.state == durable.Cancelled {
		result = s.sealResult(b.run.ID, durable.Outcome{State: durable.Cancelled, Error: "it was cancelled before the database of runs went back to an earlier state"}, false)
	}
	lease := s.options.Lease.Microseconds()
	if _, err := t.exec(ctx, `UPDATE @runs SET state = ?, epoch = ?, owner = ?, lease = {now} + ?, wake = {now} + ?, entries = ?, bytes = ?, head = ?, header = COALESCE(header, CAST(? AS {blob})), keys = ?, doubts = '', result = ? WHERE id = ?`,
		string(b.state), b.epoch, b.token, lease, lease, int64(b.count), b.bytes, b.head, b.header, b.keys, result, b.run.ID); err != nil {
		return err
	}
	if _, err := t.exec(ctx, `DELETE FROM @entries WHERE run = ?`, b.run.ID); err != nil {
		return err
	}
	var stmts []stmt
	for key, r := range b.rows {
		stmts = append(stmts, stmt{putEntry, []any{b.run.ID, key, r.seq, r.ord, r.sealed}})
	}
	stmts = append(stmts, s.ask(b.run.ID, b.asked)...)
	for _, q := range b.asked {
		if q.Answer != nil {
			stmts = append(stmts, stmt{`UPDATE @questions SET answer = ? WHERE run = ? AND key = ? AND answer IS NULL AND ` + guarded, []any{s.seal(answerOf(b.run.ID, q.Key), q.Answer), b.run.ID, q.Key}})
		}
	}
	for _, key := range b.closed {
		stmts = append(stmts, stmt{closeQuestion, []any{b.run.ID, key}})
	}
	for _, st := range stmts {
		if _, err := t.exec(ctx, st.sql, append(st.args, b.run.ID, b.epoch, b.head)...); err != nil {
			return err
		}
	}
	return nil
}

// missed inserts the row of a run that has an owner, unless the run is missing because it was pruned: while this owner was
// stopped, another one may have ended it.
func (s *Store) missed(ctx context.Context, t tx, b back) error {
	pruned := false
	if err := t.query(ctx, `SELECT 1 FROM @outbox WHERE run = ? AND event = ?`, []any{b.run.ID, eventPruned}, func(func(...any) error) error { pruned = true; return nil }); err != nil {
		return err
	}
	if pruned || time.Now().Round(0).After(b.until.Round(0).Add(prunedAfter)) { // without the monotonic clock, which may stop while the machine is suspended
		return errPruned
	}
	return s.insert(ctx, t, b.run, b.token, b.head, b.count, b.bytes)
}
