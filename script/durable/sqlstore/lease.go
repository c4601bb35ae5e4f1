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

// lease implements durable.Lease. Only its owner changes the entries of the run, so their chain and their sealed rows are kept
// in memory.
//
// Changes are added to pending and written by write, one transaction at a time, which has all pending changes and the head that
// results. The fence is the first statement: an UPDATE of the run's row WHERE epoch and owner are those of this lease, state is
// running (cancelled, once that is known), and head is the one that was written last. All others have the new head in their
// condition, so that the transaction has no effect if the fence changes no row. Then reconcile reads why:
//
//	written    the row is as this transaction would have left it: its acknowledgement was lost
//	cancelled  the recorded changes are written, those that were only begun are dropped
//	taken      another lease has the run, or the run has ended: pending is dropped
//	went back  else: the database is in an earlier state, by a crash, a failover or a restored backup, or has a transaction of
//	           this lease that was given up. The whole run is written anew from memory
//
// A transaction that fails leaves pending as it is. One that arrives late finds another head.
//
// # States
//
//	owned      err == nil                          Begin waits for its flush; Record is flushed within recordWithin
//	cancelled  err == ErrCancelled, cancelled      nothing begins any more; what is recorded is still written
//	taken      err == ErrTaken                     nothing is written any more
//	ended      ended                               End was called; no timer is started any more
//	orphan     ended, in Store.orphans             the end could not be written: Store.handBack retries to release the run
//
// lost is closed when the lease is cancelled or taken, or was not renewed in time. In the last case it is still this owner's if
// nobody has acquired the run meanwhile, which the fence finds out.
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
	token string // the column owner: of this lease only, even if the database goes back and the epoch is used twice
	taken durable.Run
	first []script.Entry // the entries when the run was acquired

	lost chan struct{}
	once sync.Once

	writing sync.Mutex // locked before mu, see above
	head    []byte     // that was written last; guarded by writing

	mu        sync.Mutex // guards the fields below
	header    []byte     // sealed; nil before Open
	pinned    *script.Header
	chain     chain
	rows      map[string]row // the entries by key
	recorded  map[string]bool
	begun     map[string]attempt
	next      int64
	bytes     int64
	keys      []string
	asked     []durable.Question // with the answers that are known
	open      map[string]bool    // key -> the question may have no answer
	pending   []change
	inFlight  int // of pending, from the front
	timer     *time.Timer
	until     time.Time // the lease is valid at least until then, on this process's clock
	cancelled bool
	ended     bool
	err       error
}

// row is the row of an entry.
type row struct {
	seq    any // nil: without an answer
	ord    int64
	sealed []byte
}

// attempt is an entry that was begun and has no answer yet.
type attempt struct {
	number int
	ord    int64
	size   int64
}

// change is a row to be written: a statement that ends with guarded, without the arguments of that.
type change struct {
	key    string
	stmt   stmt
	intent bool // from Begin: the effect is not performed unless this is written
}

// guarded is the condition that the run has the epoch and the head that the fence has written.
const guarded = `EXISTS (SELECT 1 FROM @runs WHERE id = ? AND epoch = ? AND head = ?)`

// newLease returns the lease of a run that was read as j; nil for a new run.
func (s *Store) newLease(r durable.Run, c *chain, j *stored) *lease {
	l := &lease{
		s: s, id: r.ID, epoch: r.Epoch, token: newToken(r.Owner), taken: r, lost: make(chan struct{}), chain: *c, pinned: r.Header, rows: map[string]row{},
		recorded: map[string]bool{}, begun: map[string]attempt{}, bytes: r.Bytes, keys: []string{s.ring.First()}, asked: slices.Clone(r.Questions), open: map[string]bool{},
	}
	for _, q := range r.Questions {
		l.open[q.Key] = q.Answer == nil
	}
	if j == nil {
		return l
	}
	l.first, l.rows, l.recorded, l.next, l.keys, l.header, l.head = j.entries, j.rows, j.recorded, j.next, j.keys, j.header, j.head
	for i, e := range j.entries {
		if !e.Done {
			l.begun[e.Key] = attempt{e.Attempt, int64(i), durable.Size(e)}
		}
	}
	return l
}

// newToken returns a value of the column owner, which tells two leases of an owner apart. ownerOf is the owner.
func newToken(owner string) string { return column(owner + "/" + durable.NewID()) }

func ownerOf(token string) string {
	owner := fromColumn(token)
	if i := strings.LastIndexByte(owner, '/'); i >= 0 {
		owner = owner[:i]
	}
	return owner
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

// over reports whether the lease was not renewed in time: another owner may have the run by now.
func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().After(l.until)
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
	ctx, cancel := context.WithTimeout(ctx, max(l.s.options.Lease, time.Second))
	defer cancel()
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

const putEntry = `INSERT INTO @entries (run, key, seq, ord, sealed) SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS {int}), CAST(? AS {int}), CAST(? AS {blob}) WHERE ` + guarded + `
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
	l.rows[e.Key] = row{seq, ord, sealed}
	l.push(change{key: e.Key, intent: !e.Done, stmt: stmt{putEntry, []any{l.id, e.Key, seq, ord, sealed}}})
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
			l.push(change{key: "question " + key, stmt: stmt{closeQuestion, []any{l.id, key}}})
		}
	}
}

const closeQuestion = `DELETE FROM @questions WHERE run = ? AND key = ? AND answer IS NULL AND ` + guarded

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
	delete(l.rows, key)
	l.chain.release(key)
	l.bytes -= old.size
	l.push(change{key: key, stmt: stmt{`DELETE FROM @entries WHERE run = ? AND key = ? AND ` + guarded, []any{l.id, key}}})
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
