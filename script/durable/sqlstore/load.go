package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// stored is a run as it was read from the database and verified.
type stored struct {
	run      durable.Run
	entries  []script.Entry // as script.Journal returns them
	rows     map[string]row // the same, by key
	chain    chain
	recorded map[string]bool // keys of entries with an answer
	next     int64           // seq and ord of the next one
	keys     []string
	now      int64 // on the store's clock

	head, about, header, result []byte
	program                     string
	lease                       int64
	tool, principal, dedupe     string // columns of the row, see column
}

const columns = `tool, principal, COALESCE(dedupe, ''), program, about, header, state, epoch, owner, lease, wake, updated, entries, bytes, doubts, head, keys, result, {now}`

// load reads and verifies a run. The error is durable.ErrUnknown, durable.ErrDamaged or durable.ErrSealed; with the last
// two it returns the parts that were read, too.
func (s *Store) load(ctx context.Context, t snapshot, id string) (*stored, error) {
	return s.loadAll(ctx, t, id, false)
}

// loadLocked is load in a transaction that writes. It locks the row of the run, without which an owner's next change could
// come between the statements that read the row and the entries.
func (s *Store) loadLocked(ctx context.Context, t tx, id string) (*stored, error) {
	return s.loadAll(ctx, t, id, true)
}

func (s *Store) loadAll(ctx context.Context, t tx, id string, lock bool) (*stored, error) {
	j, err := s.loadRow(ctx, t, id, lock)
	if err != nil {
		return j, err
	}
	return j, s.loadParts(ctx, t, j, append(s.outside(), s.loadEntries))
}

// A part reads and verifies some of a run whose row was read.
type part func(context.Context, tx, *stored) error

// outside are the parts outside of the journal.
func (s *Store) outside() []part {
	return []part{s.openAbout, s.loadProgram, s.loadResult, s.loadQuestions}
}

func (s *Store) loadParts(ctx context.Context, t tx, j *stored, parts []part) error {
	for _, read := range parts {
		if err := read(ctx, t, j); err != nil {
			return fmt.Errorf("run %s: %w", j.run.ID, err)
		}
	}
	return nil
}

// loadRow reads the row of a run, not verified.
func (s *Store) loadRow(ctx context.Context, t tx, id string, lock bool) (*stored, error) {
	j := &stored{recorded: map[string]bool{}, rows: map[string]row{}}
	var state, doubts, keys, owner string
	var wake, updated, entries int64
	sql := `SELECT ` + columns + ` FROM @runs WHERE id = ?`
	if lock {
		sql += ` {lock}`
	}
	err := one(ctx, t, sql, []any{column(id)}, &j.tool, &j.principal, &j.dedupe, &j.program, &j.about, &j.header, &state, &j.run.Epoch, &owner,
		&j.lease, &wake, &updated, &entries, &j.run.Bytes, &doubts, &j.head, &keys, &j.result, &j.now)
	if errors.Is(err, errNoRow) {
		return j, durable.ErrUnknown
	}
	if err != nil {
		return j, err
	}
	j.run.ID, j.run.State, j.run.Owner = id, durable.State(state), ownerOf(owner)
	j.run.Tool, j.run.Principal = fromColumn(j.tool), fromColumn(j.principal)
	j.run.Lease, j.run.Wake, j.run.Updated = fromMicros(j.lease), fromMicros(wake), fromMicros(updated)
	j.run.Entries, j.run.Doubts, j.keys = int(entries), strings.Fields(doubts), strings.Fields(keys)
	if !slices.Contains(durable.States, j.run.State) {
		return j, fmt.Errorf("run %s: %w: no such state %q", id, durable.ErrDamaged, state)
	}
	return j, nil
}

// openAbout reads the sealed data that the run was begun with, and compares with it the columns by which the run is found.
func (s *Store) openAbout(_ context.Context, _ tx, j *stored) error {
	text, err := s.unseal(aboutOf(j.run.ID), j.about)
	if err != nil {
		return err
	}
	about, program, err := decodeAbout(text)
	if err != nil {
		return err
	}
	if column(about.Tool) != j.tool || column(about.Principal) != j.principal || about.Dedupe != "" && column(about.Dedupe) != j.dedupe || program != j.program {
		return fmt.Errorf("%w: its row is that of another run", durable.ErrDamaged)
	}
	r := &j.run
	r.Parent, r.Tool, r.Principal, r.Dedupe, r.Trace, r.Program.Hash = about.Parent, about.Tool, about.Principal, about.Dedupe, about.Trace, about.Program.Hash
	r.Limits, r.Args, r.Expires, r.Created = about.Limits, about.Args, about.Expires, about.Created
	if j.header == nil {
		return nil
	}
	if text, err = s.unseal(headerOf(r.ID), j.header); err != nil {
		return err
	}
	r.Header = &script.Header{}
	if err := json.Unmarshal(text, r.Header); err != nil {
		return fmt.Errorf("%w: %v", durable.ErrDamaged, err)
	}
	return nil
}

func (s *Store) sealHeader(id string, h script.Header) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return s.seal(headerOf(id), text), nil
}

func (s *Store) loadProgram(ctx context.Context, t tx, j *stored) error {
	var source []byte
	err := one(ctx, t, `SELECT source FROM @programs WHERE hash = ?`, []any{j.program}, &source)
	if errors.Is(err, errNoRow) {
		return fmt.Errorf("%w: its program is missing", durable.ErrDamaged)
	}
	if err != nil {
		return err
	}
	hash := j.run.Program.Hash
	j.run.Program, err = decodeProgram(source, j.program)
	j.run.Program.Hash = hash
	return err
}

func (s *Store) loadResult(_ context.Context, _ tx, j *stored) error { return s.openResult(j) }

func (s *Store) openResult(j *stored) error {
	if j.result == nil {
		if j.run.State.Final() {
			return fmt.Errorf("%w: its result is missing", durable.ErrDamaged)
		}
		return nil
	}
	text, err := s.unseal(resultOf(j.run.ID, j.run.State), j.result)
	if err != nil {
		return err
	}
	parts, err := unpack(text, 3)
	if err != nil {
		return err
	}
	j.run.Result, j.run.Error, j.run.Damaged = parts[0], string(parts[1]), len(parts[2]) > 0
	return nil
}

// sealResult seals the result and the error of an outcome.
func (s *Store) sealResult(id string, o durable.Outcome, damaged bool) []byte {
	mark := []byte{}
	if damaged {
		mark = []byte{1}
	}
	return s.seal(resultOf(id, o.State), pack(o.Result, []byte(o.Error), mark))
}

func (s *Store) loadEntries(ctx context.Context, t tx, j *stored) error {
	count, id := j.run.Entries, j.run.ID
	err := t.query(ctx, `SELECT key, COALESCE(seq, -1), ord, sealed FROM @entries WHERE run = ? ORDER BY CASE WHEN seq IS NULL THEN 1 ELSE 0 END, seq, ord`, []any{id}, func(scan func(...any) error) error {
		var key string
		var seq, ord int64
		var sealed []byte
		if err := scan(&key, &seq, &ord, &sealed); err != nil {
			return err
		}
		text, err := s.unseal(entryOf(id, key), sealed)
		if err != nil {
			return err
		}
		e, err := decodeEntry(key, text)
		if err != nil {
			return err
		}
		if e.Done != (seq >= 0) {
			return fmt.Errorf("%w: the order of the entry %s does not fit its answer", durable.ErrDamaged, key)
		}
		r := row{nil, ord, sealed}
		if e.Done {
			r.seq = seq
			j.chain.record(key, durable.Tag(sealed))
			j.recorded[key] = true
		} else {
			j.chain.begin(key, durable.Tag(sealed))
		}
		j.rows[key] = r
		j.entries, j.next = append(j.entries, e), max(j.next, seq+1, ord+1)
		return nil
	})
	if err != nil {
		return err
	}
	if len(j.entries) != count || j.chain.count != count {
		return fmt.Errorf("%w: it has %d entries, and %d were written", durable.ErrDamaged, len(j.entries), count)
	}
	if err := s.fits(id, j.head, &j.chain); err != nil {
		return err
	}
	return nil
}

func (s *Store) loadQuestions(ctx context.Context, t tx, j *stored) (err error) {
	j.run.Questions, err = s.questions(ctx, t, j.run.ID)
	return err
}

// questions reads the questions of a run in the order in which they were asked.
func (s *Store) questions(ctx context.Context, t tx, id string) (found []durable.Question, err error) {
	err = t.query(ctx, `SELECT key, deadline, sealed, answer FROM @questions WHERE run = ? ORDER BY ord, key`, []any{id}, func(scan func(...any) error) error {
		var q durable.Question
		var deadline int64
		var sealed, answer []byte
		if err := scan(&q.Key, &deadline, &sealed, &answer); err != nil {
			return err
		}
		text, err := s.unseal(questionOf(id, q.Key), sealed)
		if err != nil {
			return err
		}
		parts, err := unpack(text, 3)
		if err != nil {
			return err
		}
		q.Method, q.Params, q.Deadline = string(parts[0]), parts[1], decodeTime(parts[2])
		if answer != nil {
			if q.Answer, err = s.unseal(answerOf(id, q.Key), answer); err != nil {
				return err
			}
		}
		found = append(found, q)
		return nil
	})
	return found, err
}

// Get implements [durable.Store].
func (s *Store) Get(ctx context.Context, id string) (durable.Run, []script.Entry, error) {
	var j *stored
	err := s.db.read(ctx, func(t snapshot) (err error) {
		j, err = s.load(ctx, t, id)
		return err
	})
	if j == nil {
		return durable.Run{}, nil, err
	}
	return j.run, j.entries, err
}

// Acquire implements [durable.Store].
func (s *Store) Acquire(ctx context.Context, id, owner string) (durable.Lease, error) {
	s.handBack(ctx)
	var l *lease
	var refused error
	began := time.Now()
	err := s.db.write(ctx, func(t tx) error {
		j, err := s.loadLocked(ctx, t, id)
		l, refused = nil, nil
		switch {
		case errors.Is(err, durable.ErrDamaged) && !j.run.State.Final():
			refused = err
			return s.failDamaged(ctx, t, id, j.run.Epoch+1, err)
		case err != nil:
			return err
		case j.run.State.Final():
			return durable.ErrEnded
		case j.run.Owner != "" && j.lease+s.grace().Microseconds() > j.now:
			return durable.ErrBusy
		}
		j.run.Epoch, j.run.Owner, j.run.State, j.run.Error, j.run.Doubts = j.run.Epoch+1, owner, durable.Running, "", nil
		l = s.newLease(j.run, &j.chain, j)
		n, err := t.exec(ctx, `UPDATE @runs SET state = 'running', owner = ?, epoch = epoch + 1, lease = {now} + ?, wake = {now} + ?, doubts = '', result = NULL WHERE id = ? AND epoch = ?`,
			l.token, s.options.Lease.Microseconds(), s.options.Lease.Microseconds(), id, j.run.Epoch-1)
		if err == nil && n == 0 {
			return durable.ErrBusy
		}
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	l.renewed(began)
	s.track(l)
	return l, nil
}

// failDamaged ends a run whose rows do not fit their seals. Its entries are not changed.
func (s *Store) failDamaged(ctx context.Context, t tx, id string, epoch int64, why error) error {
	result := s.sealResult(id, durable.Outcome{State: durable.Failed, Error: why.Error()}, true)
	if _, err := t.exec(ctx, `UPDATE @runs SET state = 'failed', owner = '', epoch = ?, lease = 0, wake = 0, updated = {now}, doubts = '', result = ? WHERE id = ?`, epoch, result, id); err != nil {
		return err
	}
	var tool string // from the column: the sealed one may be unreadable
	if err := one(ctx, t, `SELECT tool FROM @runs WHERE id = ?`, []any{id}, &tool); err != nil {
		return err
	}
	for _, st := range append(s.enqueue(id, durable.Failed, epoch), s.uncounted(id, fromColumn(tool), durable.Failed, epoch)) {
		if _, err := t.exec(ctx, st.sql, st.args...); err != nil {
			return err
		}
	}
	return s.announce(ctx, t)
}
