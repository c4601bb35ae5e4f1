// Package runs keeps runs of scripted tools going. It begins a run in its store no earlier than
// the run needs it, lets requests join what is under way, and takes up by itself what can go on:
// after a restart, when a sleep ends, when an answer has come.
//
// The life of a run here is a sequence of parts. A [Part] begins when this process takes the
// run, which is when it has the lease of the store, and ends when the run has ended or waits for
// something. In between nothing of a run is in memory.
//
//	request ── Begin ──┐
//	request ── Join ───┼─ Part ── Program.Run over Part.Journal ── End ── Outcome ── every request that waits
//	store.Due ── take ─┘
package runs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/outcome"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// Options are what a Keeper takes from its surroundings.
type Options struct {
	Log *slog.Logger
	// Spawn runs f on a goroutine that is waited for at the end.
	Spawn func(f func()) bool
	// Execute executes a part that nobody asked for, and ends it.
	Execute func(*Part)
	// Wrote is told of every write of a journal: how long it took, and its error.
	Wrote func(took time.Duration, err error)
	// Over is told of every end of a run, once, by whatever process looks: of those that end here, and of those that nobody
	// runs. Runs that are not kept are counted by who executes them.
	Over func(tool string, o Outcome)
	// Resumed is told why a run goes on.
	Resumed func(Cause)
}

// Keeper keeps runs. Make one with New; before Use it has no store.
type Keeper struct {
	options Options
	owner   string
	life    context.Context
	end     context.CancelFunc
	away    bool // the store did not answer when loop looked last; for loop alone

	mu        sync.Mutex
	store     store.Store      // guarded by mu, as all below: what the configuration says
	apart     store.Store      // of runs that are never kept, in memory
	unwritten store.Options    // of journals of runs without a row
	keep      Keep             //
	active    map[string]*Part // by run
	stopping  bool             // nothing is taken up any more but by requests
	closed    bool             // nor by them
	drained   chan struct{}    // closed with stopping
	ready     bool             // what is due may be taken up
	looked    bool             // Due was asked once
}

// Keep says for how long runs are kept that are over.
type Keep struct{ Done, Failed time.Duration }

const (
	// look is how often the store is asked what is due: a sleep ends at most 1 s late.
	look = 500 * time.Millisecond
	// pause is between two looks at least: each run that ends is a change.
	pause = 20 * time.Millisecond
	// tidy is how often runs are forgotten.
	tidy = time.Minute
	// atOnce bounds the runs that go on by themselves at one time.
	atOnce = 64
	// retryAfter is when a run is tried again that found no room.
	retryAfter = time.Second
)

// New makes a Keeper.
func New(o Options) *Keeper {
	k := &Keeper{options: o, owner: store.NewID(), active: map[string]*Part{}, drained: make(chan struct{})}
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// Use gives the keeper its stores. apart is for runs that are never kept; unwritten bounds the journals of runs that have
// no row yet.
func (k *Keeper) Use(of, apart store.Store, unwritten store.Options) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store, k.apart, k.unwritten = of, apart, unwritten.WithDefaults()
}

// Ready lets the keeper take up what is due: there is a configuration to go on with.
func (k *Keeper) Ready() {
	k.mu.Lock()
	first := !k.ready
	k.ready = true
	k.mu.Unlock()
	if first {
		k.spawn(k.loop)
	}
}

// Retain says how long runs are kept that are over.
func (k *Keeper) Retain(keep Keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep = keep
}

// Store is the configured store; nil before there is one.
func (k *Keeper) Store() store.Store {
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
	if errors.Is(err, store.ErrTaken) || errors.Is(err, store.ErrCancelled) || errors.As(err, new(*store.LimitError)) {
		err = nil // what the store says of the run
	}
	k.options.Wrote(took, err)
}

func (k *Keeper) over(p *Part, o Outcome) { k.options.Over(p.run.Tool, o) }

// countEnds counts the runs that have ended and that no part has brought to their end: somebody has cancelled them, or
// their journals cannot be trusted.
func (k *Keeper) countEnds(of store.Store) {
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	for {
		ended, err := of.Uncounted(ctx, countAtOnce)
		if err != nil {
			return // Due says so
		}
		for _, e := range ended {
			k.options.Over(e.Tool, Outcome{State: e.State, How: outcome.Error})
		}
		if len(ended) < countAtOnce {
			return
		}
	}
}

// countAtOnce is how many ends are asked for at a time.
const countAtOnce = 100

// of is the store of a run.
func (k *Keeper) of(never bool) store.Store {
	k.mu.Lock()
	defer k.mu.Unlock()
	if never {
		return k.apart
	}
	return k.store
}

// Begin begins a run that has no row yet; its settings are put in when it gets one. The caller
// executes the part.
func (k *Keeper) Begin(run store.Run, s Settings, never bool) *Part {
	run.ID = store.NewID()
	p := k.newPart(run, k.of(never), Request)
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

// Start begins a run with a row, or finds the run of the same idempotency key.
func (k *Keeper) Start(ctx context.Context, run store.Run) (id string, isNew bool, err error) {
	began := time.Now()
	r, isNew, err := k.of(false).Start(ctx, run)
	k.wrote(began, err)
	return r.ID, isNew, storeError("", err)
}

// Answer stores an answer to a question of a run. One that nobody waits for is no error: a request
// may come twice.
func (k *Keeper) Answer(ctx context.Context, id, key string, answer []byte, never bool) error {
	err := k.of(never).Answer(ctx, id, key, answer)
	for _, harmless := range []error{store.ErrAnswered, store.ErrEnded, store.ErrNoQuestion, store.ErrLate} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	return storeError(id, err)
}

// Join waits for a run together with others. It returns the part that is under way here; one that
// has just been taken, which the caller executes (mine); or, where the run is over or waits for what only
// others can bring, how it stands; with force it goes on all the same. While another process has the run,
// it waits.
//
// Where a backend asks something in a part of another process, that run is Running; asks says which of its open questions
// the request is to be told.
func (k *Keeper) Join(ctx context.Context, id string, never, force bool, asks func(script.Question) bool) (p *Part, mine bool, at *Outcome, err error) {
	of := k.of(never)
	for {
		changed := of.Changed()
		if p := k.join(id); p != nil {
			return p, false, nil, nil
		}
		row, entries, err := of.Get(ctx, id)
		if err != nil {
			return nil, false, nil, storeError(id, err)
		}
		if row.State.Final() || rests(row) && !force {
			return nil, false, stands(row, entries), nil
		}
		l, err := k.take(ctx, of, id)
		if err == nil {
			k.options.Resumed(Request)
			return k.began(l, of, Request), true, nil, nil
		}
		if !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrEnded) {
			return nil, false, nil, storeError(id, err)
		}
		if at := stands(row, entries); slices.ContainsFunc(at.Questions, asks) {
			at.Questions = slices.DeleteFunc(at.Questions, func(q script.Question) bool { return !asks(q) })
			return nil, false, at, nil
		}
		if err := wait(ctx, changed, look); err != nil {
			return nil, false, nil, err
		}
	}
}

// rests reports whether there is nothing to do for a run now: it waits for what has not come.
func rests(r store.Run) bool {
	switch r.State {
	case store.Waiting, store.Sleeping, store.Doubt:
		return r.Wake.IsZero() || r.Wake.After(time.Now())
	}
	return false
}

// join joins the part of a run that is under way here; nil when there is none.
func (k *Keeper) join(id string) *Part {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.active[id]
	if p != nil {
		p.waiters++
	}
	return p
}

func (k *Keeper) take(ctx context.Context, of store.Store, id string) (store.Lease, error) {
	began := time.Now()
	l, err := of.Take(ctx, id, k.owner)
	if err == nil || !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrEnded) && !errors.Is(err, store.ErrUnknown) {
		k.wrote(began, err)
	}
	return l, err
}

// began makes a part of a run that was taken.
func (k *Keeper) began(l store.Lease, of store.Store, cause Cause) *Part {
	p := k.newPart(l.Run(), of, cause)
	if cause == Request {
		p.waiters = 1
	}
	p.taken(l)
	k.mu.Lock()
	k.active[p.ID] = p
	stop := k.closed || k.stopping && p.alone
	k.mu.Unlock()
	k.spawn(func() { p.watch(l) })
	if stop {
		p.Stop()
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

// wait waits for a change of the store, for a while at most.
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

// Changed is closed when something has changed in the store that may let a run go on.
func (k *Keeper) Changed(never bool) <-chan struct{} { return k.of(never).Changed() }

// Stop lets nothing begin by itself any more. What goes on by itself stops, and what sleeps is suspended; other
// requests have their runs until Close.
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

// closeWithin is how long what is under way has to end behind its present effect.
const closeWithin = 2 * time.Second

// Close stops all parts: behind their present effects if these end soon, else at once.
func (k *Keeper) Close() {
	k.Stop()
	k.mu.Lock()
	k.closed = true
	parts := make([]*Part, 0, len(k.active))
	for _, p := range k.active {
		parts = append(parts, p)
	}
	k.mu.Unlock()
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	for _, p := range parts {
		p.Stop()
		if !p.Kept() {
			p.Cut(context.Canceled)
		}
	}
	over := false
	for _, p := range parts {
		if !over {
			select {
			case <-p.ended:
				continue
			case <-late.C:
				over = true
			}
		}
		p.Cut(context.Canceled)
	}
	for _, p := range parts {
		<-p.ended
	}
	k.end()
}
