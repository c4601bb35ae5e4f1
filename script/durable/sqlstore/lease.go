package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// recordWithin is how long a recorded entry waits at most before a flush writes it.
const recordWithin = 2 * time.Millisecond

// retryAfter is when a flush is retried after the database did not answer.
const retryAfter = 100 * time.Millisecond

func timeNow() time.Time { return time.Now() }

// lease implements runs.lease. Only its owner changes the entries of the run, so their chain is kept
// in memory.
//
// Changes are added to pending and written by flush, one flush at a time, which writes all pending
// changes with the head that results. A flush that fails leaves them there: each replaces or deletes
// one row by its key, so writing it twice does no harm.
//
// # States
//
//	owned      err == nil                          Begin waits for its flush; Record is flushed within recordWithin
//	cancelled  err == ErrCancelled, cancelled      nothing begins any more; what is recorded is still written
//	taken      err == ErrTaken                     the fence found another epoch: pending is dropped
//	expired    err is ErrUnavailable               the store did not renew it in time (loseIfOver): another owner may have
//	                                               the run by now, so nothing more is written
//	ended      ended                               End was called; no timer is started any more
//	orphan     ended, orphan                       the end could not be written: Store.renewAll retries to release the run
//
// lost is closed when the lease is cancelled, taken or expired, or when a renewal finds that the run has another epoch or
// state (err is then set by the next flush). The fence is the first statement of every transaction: an UPDATE of the
// run's row WHERE epoch is this one and state is running (cancelled, once that is known). If it changes no row, the
// transaction has no effect (errFenced); fenced then reads whether the run was taken or cancelled.
//
// # Locks
//
// writing is held during a whole flush, Ask or End, including the access to the database; mu only while the fields below it
// are read or changed. writing is locked before mu. inFlight is how many of pending the present flush is writing: a later
// change of the same row is appended behind these, and does not replace one of them.
type lease struct {
	s     *Store
	id    string
	epoch int64
	taken durable.Run
	first []script.Entry // the entries when the run was acquired

	lost chan struct{}
	once sync.Once

	writing sync.Mutex // locked before mu, see above

	mu        sync.Mutex // guards the fields below
	header    []byte     // sealed; nil before Open
	pinned    *script.Header
	chain     chain
	recorded  map[string]bool
	begun     map[string]attempt
	next      int64
	bytes     int64
	keys      []string
	open      map[string]bool // key -> the question may have no answer
	pending   []change
	inFlight  int // of pending, from the front
	timer     *time.Timer
	until     time.Time // the lease is valid at least until then, on this process's clock
	cancelled bool
	ended     bool
	orphan    bool
	err       error
}

// attempt is an entry that was begun and has no answer yet.
type attempt struct {
	number int
	ord    int64
	size   int64
}

// change is a row to be written.
type change struct {
	key    string
	stmt   stmt
	intent bool // from Begin: the effect is not performed unless this is written
}

// newLease returns the lease of a run that was read as j; nil for a new run.
func (s *Store) newLease(r durable.Run, c *chain, j *stored) *lease {
	l := &lease{
		s: s, id: r.ID, epoch: r.Epoch, taken: r, lost: make(chan struct{}), chain: *c, pinned: r.Header,
		recorded: map[string]bool{}, begun: map[string]attempt{}, bytes: r.Bytes, keys: []string{s.ring.First()}, open: map[string]bool{},
	}
	for _, q := range r.Questions {
		l.open[q.Key] = q.Answer == nil
	}
	if j == nil {
		return l
	}
	l.first, l.recorded, l.next, l.keys, l.header = j.entries, j.recorded, j.next, j.keys, j.header
	for i, e := range j.entries {
		if !e.Done {
			l.begun[e.Key] = attempt{e.Attempt, int64(i), durable.Size(e)}
		}
	}
	return l
}

// Run implements [durable.Lease].
func (l *lease) Run() durable.Run { return l.taken }

// Lost implements [durable.Lease].
func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) lose() { l.once.Do(func() { close(l.lost) }) }

// cancel notes that the run was cancelled: no effect begins any more, recorded entries are still written.
func (l *lease) cancel() {
	l.mu.Lock()
	if l.err == nil {
		l.err, l.cancelled = durable.ErrCancelled, true
	}
	l.mu.Unlock()
	l.lose()
}

// renewed notes that the lease was renewed at the time began or later.
func (l *lease) renewed(began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = began.Add(l.s.options.Lease)
}

// loseIfOver marks the lease as lost when it has expired, because the database did not answer for as long as after.
func (l *lease) loseIfOver(after time.Duration) {
	l.mu.Lock()
	over := time.Now().After(l.until)
	if over && l.err == nil {
		l.err = fmt.Errorf("%w: the lease was not renewed within %s", durable.ErrUnavailable, after)
	}
	l.mu.Unlock()
	if over {
		l.lose()
	}
}

// Open implements [script.Journal].
func (l *lease) Open(_ context.Context, h script.Header) ([]script.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pinned == nil {
		sealed, err := l.s.sealHeader(l.id, h)
		if err != nil {
			return nil, err
		}
		l.pinned, l.header = &h, sealed
	}
	return slices.Clone(l.first), l.pinned.Admit(h)
}

// Begin implements [script.Journal].
func (l *lease) Begin(ctx context.Context, e script.Entry) error {
	e.Done = false
	if err := l.put(e); err != nil {
		return err
	}
	err := l.flush(ctx)
	if err != nil {
		l.mu.Lock()
		l.release(e.Key) // it is not performed
		l.mu.Unlock()
	}
	return err
}

// Record implements [script.Journal].
func (l *lease) Record(e script.Entry) error {
	e.Done = true
	if err := l.put(e); err != nil {
		return err
	}
	l.later(recordWithin)
	return nil
}

// Release implements [script.Journal].
func (l *lease) Release(key string) error {
	l.mu.Lock()
	if l.err != nil && !l.cancelled {
		defer l.mu.Unlock()
		return l.err
	}
	l.release(key)
	l.mu.Unlock()
	l.later(recordWithin)
	return nil
}

// Close implements [script.Journal].
func (l *lease) Close() error { return nil }

const putEntry = `INSERT INTO @entries (run, key, seq, ord, sealed) SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS {int}), CAST(? AS {int}), CAST(? AS {blob}) FROM @runs WHERE id = ? AND epoch = ?
	ON CONFLICT (run, key) DO UPDATE SET seq = excluded.seq, ord = excluded.ord, sealed = excluded.sealed`

// put seals an entry and adds it to pending.
func (l *lease) put(e script.Entry) error {
	text, err := encodeEntry(e)
	if err != nil {
		return err
	}
	sealed := l.s.seal(entryOf(l.id, e.Key), text)
	l.mu.Lock()
	defer l.mu.Unlock()
	old, err := l.admit(e)
	if err != nil {
		return err
	}
	l.note()
	l.bytes += durable.Size(e) - old.size
	ord := l.next
	if old.number > 0 || old.size > 0 {
		ord = old.ord
	}
	l.next++
	var seq any
	if e.Done {
		seq = l.next
		delete(l.begun, e.Key)
		l.recorded[e.Key] = true
		l.chain.record(e.Key, durable.Tag(sealed))
	} else {
		l.begun[e.Key] = attempt{e.Attempt, ord, durable.Size(e)}
		l.chain.begin(e.Key, durable.Tag(sealed))
	}
	l.push(change{key: e.Key, intent: !e.Done, stmt: stmt{putEntry, []any{l.id, e.Key, seq, ord, sealed, l.id, l.epoch}}})
	if e.Done {
		l.close(e.Key)
	}
	return nil
}

// close deletes the open questions of an effect that has ended, "" for all effects. mu is held.
func (l *lease) close(effect string) {
	for key, open := range l.open {
		if open && (effect == "" || durable.Asked(effect, durable.Question{Key: key})) {
			l.open[key] = false
			l.push(change{key: "question " + key, stmt: stmt{closeQuestion, []any{l.id, key, l.id, l.epoch}}})
		}
	}
}

const closeQuestion = `DELETE FROM @questions WHERE run = ? AND key = ? AND answer IS NULL AND EXISTS (SELECT 1 FROM @runs WHERE id = ? AND epoch = ?)`

// admit checks whether an entry may be written, and returns the attempt that it replaces. mu is held.
func (l *lease) admit(e script.Entry) (old attempt, err error) {
	if l.err != nil && !(e.Done && l.cancelled) {
		return old, l.err
	}
	old, begun := l.begun[e.Key]
	o := l.s.options
	switch {
	case l.recorded[e.Key], begun && !e.Done && e.Attempt <= old.number:
		return old, fmt.Errorf("%s: is in the journal already", e.Key)
	case begun:
		return old, o.Admit(l.chain.count, l.bytes+durable.Size(e)-old.size)
	}
	return old, o.Admit(l.chain.count+1, l.bytes+durable.Size(e))
}

// note adds the key of the ring that seals now to keys. mu is held.
func (l *lease) note() {
	if first := l.s.ring.First(); !slices.Contains(l.keys, first) {
		l.keys = append(slices.Clone(l.keys), first)
	}
}

// release removes an entry that was begun and not recorded. mu is held.
func (l *lease) release(key string) {
	old, ok := l.begun[key]
	if !ok {
		return
	}
	delete(l.begun, key)
	l.chain.release(key)
	l.bytes -= old.size
	l.push(change{key: key, stmt: stmt{`DELETE FROM @entries WHERE run = ? AND key = ? AND EXISTS (SELECT 1 FROM @runs WHERE id = ? AND epoch = ?)`, []any{l.id, key, l.id, l.epoch}}})
}

// push adds a change, which replaces an earlier one of the same row that is not being written. mu is held.
func (l *lease) push(c change) {
	for i := l.inFlight; i < len(l.pending); i++ {
		if l.pending[i].key == c.key {
			l.pending[i] = c
			return
		}
	}
	l.pending = append(l.pending, c)
}

// later starts a timer for a flush, unless one is running.
func (l *lease) later(after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil && !l.ended {
		l.timer = time.AfterFunc(after, l.background)
	}
}

// background is the flush of the timer. It is retried until it succeeds or the lease is lost.
func (l *lease) background() {
	l.mu.Lock()
	l.timer = nil
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), l.s.options.Lease)
	defer cancel()
	if err := l.flush(ctx); errors.Is(err, durable.ErrUnavailable) {
		select {
		case <-l.lost:
		default:
			l.later(retryAfter)
		}
	}
}

// flush writes all pending changes in one transaction.
func (l *lease) flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.err != nil && !l.cancelled || len(l.pending) == 0 {
		defer l.mu.Unlock()
		return l.err
	}
	stmts, cancelled := l.stmts(l.fence(``)), l.cancelled
	l.mu.Unlock()
	err := l.s.batch(ctx, stmts)
	if errors.Is(err, errFenced) {
		return l.fenced(ctx, cancelled)
	}
	return l.flushed(len(stmts)-1, err)
}

// flushed removes the first n pending changes, which were written, unless err says otherwise.
func (l *lease) flushed(n int, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = 0
	if err != nil {
		return err
	}
	l.pending = slices.Clone(l.pending[n:])
	return l.err
}

// stmts returns the fence and the statements of all pending changes. mu is held.
func (l *lease) stmts(fence stmt) []stmt {
	stmts := []stmt{fence}
	for _, c := range l.pending {
		stmts = append(stmts, c.stmt)
	}
	l.inFlight = len(l.pending)
	return stmts
}

// fence is the UPDATE of the run's row that changes no row when this lease does not have the run any more. set are further
// assignments, args their values. mu is held.
func (l *lease) fence(set string, args ...any) stmt {
	state := durable.Running
	if l.cancelled {
		state = durable.Cancelled
	}
	all := []any{int64(l.chain.count), l.bytes, l.s.head(l.id, &l.chain), l.header, strings.Join(l.keys, " ")}
	all = append(append(all, args...), l.id, l.epoch, string(state))
	return stmt{`UPDATE @runs SET entries = ?, bytes = ?, head = ?, header = COALESCE(header, CAST(? AS {blob})), keys = ?` + set + ` WHERE id = ? AND epoch = ? AND state = ?`, all}
}

// fenced reads why the fence changed no row: the run was taken or cancelled. Of a cancelled run it writes
// the recorded entries and drops those that were only begun. cancelled says that the fence was that of a run
// that is known to be cancelled.
func (l *lease) fenced(ctx context.Context, cancelled bool) error {
	var state string
	var epoch int64
	err := l.s.db.read(ctx, func(t snapshot) error {
		return one(ctx, t, `SELECT state, epoch FROM @runs WHERE id = ?`, []any{l.id}, &state, &epoch)
	})
	if err != nil && !errors.Is(err, errNoRow) {
		return l.flushed(0, err)
	}
	defer l.lose()
	l.mu.Lock()
	l.inFlight = 0
	if epoch != l.epoch || durable.State(state) != durable.Cancelled || cancelled {
		defer l.mu.Unlock()
		l.err, l.cancelled, l.pending = durable.ErrTaken, false, nil
		return l.err
	}
	l.err, l.cancelled = durable.ErrCancelled, true
	for _, c := range slices.Clone(l.pending) {
		if c.intent {
			l.release(c.key)
		}
	}
	stmts := l.stmts(l.fence(``))
	l.mu.Unlock()
	return l.flushed(len(stmts)-1, l.s.batch(ctx, stmts))
}
