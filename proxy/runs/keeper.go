// Package runs executes runs of scripted tools over a store. It creates the row of a run only when the run needs it,
// lets several requests wait for one run, and resumes runs by itself: after a restart, when a sleep ends, when an
// answer was stored.
//
// The life of a run here is a sequence of parts. A [Part] begins when this process acquires the run (the lease of the
// store), and ends when the run has ended or waits for something. In between nothing of a run is in memory.
//
//	request ── Begin ──┐
//	request ── Join ───┼─ Part ── Program.Run over Part.Journal ── End ── Outcome ── all waiting requests
//	store.Due ── resume ┘
package runs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// Options configure a Keeper.
type Options struct {
	Log *slog.Logger
	// Spawn runs f on a goroutine that Close of the proxy waits for.
	Spawn func(f func()) bool
	// Execute executes a part that no request leads, and ends it.
	Execute func(*Part)
	// Wrote is called after every write of a journal, with its duration and error.
	Wrote func(took time.Duration, err error)
	// Over is called once for every run that has ended, by one of the processes: the one in which it ended, or any for
	// a run that no part has ended. Runs without a row are counted by their executor.
	Over func(tool string, o Outcome)
	// Resumed is called with the cause when a run is resumed.
	Resumed func(Cause)
}

// Keeper executes the runs of one process. Make one with New; before Use it has no store.
type Keeper struct {
	options Options
	owner   string
	life    context.Context
	end     context.CancelFunc
	orphans orphans
	silent  bool // the store did not answer the last query; only loop uses it

	lookedAway time.Time // when away was looked through; only loop uses it

	mu        sync.Mutex
	store     durable.Store            // the configured one; guarded by mu, like all below
	ephemeral durable.Store            // for runs that are never kept, in memory
	unwritten durable.Options          // bounds of journals of runs without a row
	keep      Keep                     //
	active    map[string]*Part         // by run id
	taking    map[string]chan struct{} // runs that this process is about to acquire; closed afterwards
	away      map[string]absence       // runs in memory whose client was told to come back, by id
	stopping  bool                     // only requests begin parts
	closed    bool                     // nothing begins a part
	drained   chan struct{}            // closed when stopping is set
	ready     bool                     // due runs may be resumed
	looked    bool                     // Due was called once
}

// Keep is how long ended runs are kept, and for how long equal calls are told of a run whose process has ended.
type Keep struct{ Done, Failed, Equal time.Duration }

const (
	// look is when due runs are queried again if some were due, and how often a run in another process is read.
	look = 500 * time.Millisecond
	// lookLate is when they are queried again if none is due before and nothing changes.
	lookLate = 5 * time.Second
	// countLate is how late the end of a run is counted that another process has written, if that is not noticed as a change.
	countLate = 15 * time.Second
	// pause is the shortest time between two queries: every run that ends is a change.
	pause = 20 * time.Millisecond
	// tidy is the interval at which expired runs are deleted.
	tidy = time.Minute
	// atOnce bounds the runs without a request that are executed at one time.
	atOnce = 64
	// retryAfter is when a run is tried again for which there was no room.
	retryAfter = time.Second
)

// New makes a Keeper.
func New(o Options) *Keeper {
	k := &Keeper{options: o, owner: durable.NewID(), active: map[string]*Part{}, taking: map[string]chan struct{}{}, away: map[string]absence{}, drained: make(chan struct{})}
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// Use sets the stores. ephemeral is for runs that are never kept; unwritten bounds the journals of runs that have no
// row yet.
func (k *Keeper) Use(of, ephemeral durable.Store, unwritten durable.Options) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store, k.ephemeral, k.unwritten = of, ephemeral, unwritten.WithDefaults()
}

// Ready starts resuming due runs: a configuration is applied.
func (k *Keeper) Ready() {
	k.mu.Lock()
	first := !k.ready
	k.ready = true
	k.mu.Unlock()
	if first {
		k.spawn(k.loop)
	}
}

// Retain sets how long ended runs are kept.
func (k *Keeper) Retain(keep Keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep = keep
}

// Store is the configured store; nil before there is one.
func (k *Keeper) Store() durable.Store {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store
}

func (k *Keeper) spawn(f func()) { k.options.Spawn(f) }

func (k *Keeper) wrote(began time.Time, err error) {
	took := time.Duration(-1)
	if !began.IsZero() {
		took = time.Since(began)
	}
	if errors.Is(err, durable.ErrTaken) || errors.Is(err, durable.ErrCancelled) || errors.As(err, new(*durable.LimitError)) {
		err = nil // not a failure of the store
	}
	k.options.Wrote(took, err)
}

func (k *Keeper) over(p *Part, o Outcome) { k.options.Over(p.run.Tool, o) }

// countEnds counts the runs that have ended without a part: they were cancelled, or their journal is damaged.
func (k *Keeper) countEnds(of durable.Store) {
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	for {
		ended, err := of.Uncounted(ctx, countAtOnce)
		if err != nil {
			return // Due reports it
		}
		for _, e := range ended {
			k.options.Over(e.Tool, Outcome{State: e.State, How: observe.Error})
		}
		if len(ended) < countAtOnce {
			return
		}
	}
}

// countAtOnce is the number of ended runs that one query returns.
const countAtOnce = 100

// of is the store of kept runs, or with never that of runs that are never kept.
func (k *Keeper) of(never bool) durable.Store {
	k.mu.Lock()
	defer k.mu.Unlock()
	if never {
		return k.ephemeral
	}
	return k.store
}

// Begin begins a run that has no row yet; s is stored with the row when it gets one. The caller executes the part.
func (k *Keeper) Begin(run durable.Run, s Settings, never bool) *Part {
	run.ID = durable.NewID()
	p := k.newPart(run, k.of(never), request)
	p.settings = &s
	p.waiters = 1
	k.mu.Lock()
	defer k.mu.Unlock()
	p.journal.kept.bounds = k.unwritten
	k.active[p.ID] = p
	if k.closed {
		p.Stop()
	}
	return p
}

// Start creates a run with a row, or finds the run with the same idempotency key.
func (k *Keeper) Start(ctx context.Context, run durable.Run) (id string, isNew bool, err error) {
	began := time.Now()
	r, isNew, err := k.of(false).Start(ctx, run)
	k.wrote(began, err)
	return r.ID, isNew, storeError(r.ID, err)
}

// Answer stores an answer to a question of a run. If the question is not open any more, that is no error: a request may
// be repeated.
func (k *Keeper) Answer(ctx context.Context, id, key string, answer []byte, never bool) error {
	err := k.of(never).Answer(ctx, id, key, answer)
	for _, harmless := range []error{durable.ErrAnswered, durable.ErrEnded, durable.ErrNoQuestion, durable.ErrLate} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	return storeError(id, err)
}

// Join waits for a run. It returns the part that is in progress in this process; or a new part, which the caller
// executes (mine); or the state of a run that has ended, or that waits for something else. With force it begins a part
// in the latter case, too. While another process has the run, it waits.
//
// A question of a backend in a part of another process leaves that run Running; asks reports which of the open
// questions the request's client is to be asked.
func (k *Keeper) Join(ctx context.Context, id string, never, force bool, asks func(script.Question) bool) (p *Part, mine bool, at *Outcome, err error) {
	of := k.of(never)
	for {
		changed := of.Changed()
		p, mine, at, err := k.joinOrTake(ctx, of, id, force)
		if err != nil || p != nil {
			return p, mine, nil, err
		}
		if at.State != durable.Running {
			return nil, false, at, nil
		}
		if slices.ContainsFunc(at.Questions, asks) {
			at.Questions = slices.DeleteFunc(at.Questions, func(q script.Question) bool { return !asks(q) })
			return nil, false, at, nil
		}
		if err := wait(ctx, changed, look); err != nil {
			return nil, false, nil, err
		}
	}
}

// joinOrTake joins the part of a run, acquires the run, or returns its state: Running while another process has it.
func (k *Keeper) joinOrTake(ctx context.Context, of durable.Store, id string, force bool) (p *Part, mine bool, at *Outcome, err error) {
	p, done, err := k.enter(ctx, id)
	if err != nil || p != nil {
		return p, false, nil, err
	}
	defer done()
	row, entries, err := of.Get(ctx, id)
	if err != nil {
		return nil, false, nil, storeError(id, err)
	}
	if row.State.Final() || rests(row) && !force {
		return nil, false, stands(row, entries), nil
	}
	l, err := k.acquire(ctx, of, id)
	switch {
	case err == nil:
		k.options.Resumed(request)
		return k.began(l, of, request), true, nil, nil
	case errors.Is(err, durable.ErrBusy), errors.Is(err, durable.ErrEnded): // since it was read
		at = stands(row, entries)
		at.State = durable.Running
		return nil, false, at, nil
	}
	return nil, false, nil, storeError(id, err)
}

// rests reports whether a run waits for something that has not happened.
func rests(r durable.Run) bool {
	switch r.State {
	case durable.Waiting, durable.Sleeping, durable.Doubt:
		return r.Wake.IsZero() || r.Wake.After(time.Now())
	}
	return false
}

// enter joins the part of a run that is in progress in this process. If there is none, the caller may acquire the run
// until it calls done; only one caller at a time may, so that ErrBusy means another process. After Close has begun it
// is refused.
func (k *Keeper) enter(ctx context.Context, id string) (p *Part, done func(), err error) {
	for {
		k.mu.Lock()
		delete(k.away, id)
		if p := k.active[id]; p != nil {
			p.waiters++
			k.mu.Unlock()
			return p, nil, nil
		}
		if k.closed {
			k.mu.Unlock()
			return nil, nil, refusal("stopping", id, "the server is shutting down; send the request again later")
		}
		other, done := k.reserve(id)
		k.mu.Unlock()
		if other == nil {
			return nil, done, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// reserve prevents others in this process from acquiring a run until done is called. If another one has reserved it,
// other is closed when that is done. mu is held.
func (k *Keeper) reserve(id string) (other <-chan struct{}, done func()) {
	if other := k.taking[id]; other != nil {
		return other, nil
	}
	mine := make(chan struct{})
	k.taking[id] = mine
	return nil, func() {
		k.mu.Lock()
		delete(k.taking, id)
		k.mu.Unlock()
		close(mine)
	}
}

func (k *Keeper) acquire(ctx context.Context, of durable.Store, id string) (durable.Lease, error) {
	began := time.Now()
	l, err := of.Acquire(ctx, id, k.owner)
	if err == nil || !errors.Is(err, durable.ErrBusy) && !errors.Is(err, durable.ErrEnded) && !errors.Is(err, durable.ErrUnknown) {
		k.wrote(began, err)
	}
	return l, err
}

// began makes the part of an acquired run.
func (k *Keeper) began(l durable.Lease, of durable.Store, cause Cause) *Part {
	p := k.newPart(l.Run(), of, cause)
	if cause == request {
		p.waiters = 1
	}
	p.taken(l)
	k.mu.Lock()
	k.active[p.ID] = p
	closed, stop := k.closed, k.closed || k.stopping && p.alone
	k.mu.Unlock()
	k.spawn(func() { p.watch(l) })
	if stop {
		p.Stop()
	}
	if closed { // Close may not wait for it, and no effect of it is in progress
		p.Cut(context.Canceled)
	}
	return p
}

func (k *Keeper) leave(p *Part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.active[p.ID] == p {
		delete(k.active, p.ID)
	}
}

// left is what becomes of a run when its last client has left: cancel, pause or continue, see config.Runs.
func (k *Keeper) left(r durable.Run, s Settings) string {
	switch {
	case s.OnDisconnect == "continue":
		return s.OnDisconnect
	case k.Stopping(), s.OnDisconnect == "auto" && r.Dedupe != "", s.OnDisconnect == "":
		return "pause" // this process ends the requests, or the same request may come again
	case s.OnDisconnect == "auto":
		return "cancel"
	}
	return s.OnDisconnect
}

// An absence is a run in memory that only its client can continue, which was told to come back.
type absence struct {
	until time.Time
	never bool // the run is never kept
}

// maxAway bounds the number of absences, about as many as there can be runs in memory. A run beyond is kept until there is no
// room for it.
const maxAway = 1 << 16

// Away is called when the client of a run in memory was told to come back: the run ends if it has not by then.
func (k *Keeper) Away(id string, never bool, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.away) < maxAway {
		k.away[id] = absence{until, never}
	}
}

// endAbsent cancels runs whose clients have not come back in time.
func (k *Keeper) endAbsent() {
	now := time.Now()
	if now.Sub(k.lookedAway) < look {
		return
	}
	k.lookedAway = now
	k.mu.Lock()
	late := map[string]absence{}
	for id, a := range k.away {
		if p := k.active[id]; a.until.Before(now) && (p == nil || p.waiters == 0) {
			late[id] = a
			delete(k.away, id)
		}
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	for id, a := range late {
		_ = k.of(a.never).Cancel(ctx, id, clientAway) // it may have ended
	}
}

// clientAway says why a run was cancelled.
const clientAway = "its client did not come back within runs.answerWithin"

// Abandon is called when a request that waited for a run at rest has ended before the run did.
func (k *Keeper) Abandon(id string, never bool) {
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	of := k.of(never)
	row, _, err := of.Get(ctx, id)
	if err != nil || row.State.Final() || row.State == durable.Running {
		return
	}
	if s, err := settingsOf(row); err == nil && k.left(row, s) == "cancel" {
		_ = of.Cancel(ctx, id, clientLeft) // it ends at its deadline otherwise
	}
}

// wait waits for a change of the store, at most for d.
func wait(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Changed is closed at the next change of the store after which a run may continue.
func (k *Keeper) Changed(never bool) <-chan struct{} { return k.of(never).Changed() }

// Stop ends resuming runs. Parts without a request are stopped, and sleeping runs suspended; the parts of requests
// continue until Close.
func (k *Keeper) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopping {
		close(k.drained)
	}
	k.stopping = true
	for _, p := range k.active {
		if p.alone {
			p.Stop()
		}
	}
}

// Stopping reports whether Stop was called.
func (k *Keeper) Stopping() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopping
}

// UntilStop is closed by Stop. It is nil once Stop was called, so that nobody waits for it in a loop.
func (k *Keeper) UntilStop() <-chan struct{} {
	if k.Stopping() {
		return nil
	}
	return k.drained
}

// closeWithin is how long the effects in progress have to end.
const closeWithin = 2 * time.Second

// Close stops all parts after their current effects, and cuts them off if these take longer than closeWithin. Parts of
// runs that were about to be acquired are stopped and waited for, too.
func (k *Keeper) Close() {
	k.Stop()
	late, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	k.mu.Lock()
	k.closed = true
	taking := slices.Collect(maps.Values(k.taking))
	k.mu.Unlock()
	for _, taken := range taking {
		await(late, taken)
	}
	k.mu.Lock()
	parts := slices.Collect(maps.Values(k.active))
	k.mu.Unlock()
	for _, p := range parts {
		p.Stop()
		if !p.Kept() {
			p.Cut(context.Canceled)
		}
	}
	for _, p := range parts {
		await(late, p.ended)
	}
	for _, p := range parts {
		p.Cut(context.Canceled)
	}
	for _, p := range parts {
		<-p.ended
	}
	k.end()
}

// await waits for over, as long as ctx lasts.
func await(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
	case <-ctx.Done():
	}
}
