package runs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/outcome"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// A Part is what this process does of a run, from taking it to letting it go: until it has
// ended, or waits for something. Requests join the part that is under way.
type Part struct {
	ID    string
	Cause Cause // why the run goes on

	k       *Keeper
	store   store.Store
	run     store.Run
	journal journal
	// settings are those that the run was begun with here; nil: they are in its row.
	settings *Settings
	asked    questions

	pause chan struct{} // closed to stop the run behind its present effects
	once  sync.Once

	cut cut // ends the run at once

	ended   chan struct{}
	outcome Outcome // set before ended closes

	waiters int  // requests that wait for it; guarded by k.mu
	counted bool // by who executes it, since it has no row
	alone   bool // it goes on when nobody waits
	resumed bool // the run had begun before
}

// cut is the end of a part before its time. The zero value is none yet. A context would cost each run several times as
// much, with another one made of it.
type cut struct {
	mu     sync.Mutex
	done   bool                    // guarded by mu, like all below
	cause  error                   // of the first
	cancel context.CancelCauseFunc // of the context that the part runs in; nil: it runs in none
}

// off cuts the part off.
func (c *cut) off(cause error) {
	c.mu.Lock()
	if !c.done {
		c.done, c.cause = true, cause
	}
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

func (c *cut) is() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// follow has cancel called when the part is cut off: at once, if it is.
func (c *cut) follow(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	done, cause := c.done, c.cause
	c.cancel = cancel
	c.mu.Unlock()
	if done && cancel != nil {
		cancel(cause)
	}
}

// A Cause says why a run goes on.
type Cause string

// What makes a run go on, as metrics have it.
const (
	Request  Cause = "request"
	Start    Cause = "start"
	Wake     Cause = "wake"
	Answer   Cause = "answer"
	Lease    Cause = "lease"
	Operator Cause = "operator"
)

// An Outcome is how a part of a run has ended.
type Outcome struct {
	// State is that of the run now; Running when it was stopped and may go on at once, here or elsewhere.
	State store.State
	// Result is a CallToolResult, of a run that is over.
	Result json.RawMessage
	// Error says why the run failed or was cancelled.
	Error string
	// Questions are open.
	Questions []script.Question
	// Doubts are calls whose outcome is not known.
	Doubts []script.Doubt
	// Wake is when the run goes on by itself; zero: it does not.
	Wake time.Time
	// Err is what a request gets that waits for this part, where it is no result.
	Err error
	// How is the same in the words of metrics.
	How outcome.Outcome
	// Kept says that the run has a row, and can be asked for again.
	Kept bool
}

func (k *Keeper) newPart(run store.Run, of store.Store, cause Cause) *Part {
	p := &Part{ID: run.ID, Cause: cause, k: k, store: of, run: run, pause: make(chan struct{}), ended: make(chan struct{}), alone: cause != Request}
	p.journal.part = p
	p.asked.all, p.asked.opened = map[string]store.Question{}, make(chan struct{})
	for _, q := range run.Questions {
		p.asked.all[q.Key] = q
		p.asked.bytes += len(q.Params) + len(q.Answer)
	}
	return p
}

// taken gives the part a run that has a row.
func (p *Part) taken(l store.Lease) {
	p.resumed = true
	p.journal.lease = l
}

// Run is the run as it was begun or taken.
func (p *Part) Run() store.Run { return p.run }

// Settings are what the run goes on with.
func (p *Part) Settings() (Settings, error) {
	if p.settings != nil {
		return *p.settings, nil
	}
	return settingsOf(p.run)
}

// goesOn reports whether the run goes on without a client that waits.
func (p *Part) goesOn() bool {
	s, err := p.Settings()
	return err == nil && s.OnDisconnect == "continue"
}

// SetArgs sets what the run was begun with, before its program begins. It has no row yet.
func (p *Part) SetArgs(args json.RawMessage) { p.run.Args = args }

// Journal is the journal that the run is executed over.
func (p *Part) Journal() script.Journal { return &p.journal }

// Paused is closed when the run shall stop behind its present effects.
func (p *Part) Paused() <-chan struct{} { return p.pause }

// Drained is closed when the run shall not sleep here any more. A run that is never kept may: its sleep ends here or never.
func (p *Part) Drained() <-chan struct{} {
	if p.store == p.k.of(true) {
		return nil
	}
	return p.k.drained
}

// Alone reports whether the part goes on without a request that waits for it.
func (p *Part) Alone() bool { return p.alone }

// Resumed reports whether the run had begun before this part.
func (p *Part) Resumed() bool { return p.resumed }

// CutOff reports whether the part was ended by Cut.
func (p *Part) CutOff() bool { return p.cut.is() }

// Kept reports whether the run has a row.
func (p *Part) Kept() bool { return p.journal.held() != nil }

// Counted says that the run is over without a row, and was counted by who executes it.
func (p *Part) Counted() { p.counted = true }

// Ended is closed when the part has ended.
func (p *Part) Ended() <-chan struct{} { return p.ended }

// Outcome is how it has ended. It must have.
func (p *Part) Outcome() Outcome { return p.outcome }

// Context is ctx, and ends when the part is cut off.
func (p *Part) Context(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.cut.follow(cancel)
	return ctx, func() { p.cut.follow(nil); cancel(nil) }
}

// Stop lets the run stop behind its present effects.
func (p *Part) Stop() { p.once.Do(func() { close(p.pause) }) }

// Cut ends the run at once. What it was doing may have been done.
func (p *Part) Cut(cause error) { p.cut.off(cause) }

// watch stops the run when it has another owner or was cancelled.
func (p *Part) watch(l store.Lease) {
	select {
	case <-l.Lost():
		p.Stop()
	case <-p.ended:
	}
}

// Leave says that a request waits no longer. A run that nobody waits for stops, unless it goes on
// by itself; what was not written down yet is cut off.
func (p *Part) Leave(cause error) {
	p.k.mu.Lock()
	p.waiters--
	last := p.waiters == 0 && !p.alone
	p.k.mu.Unlock()
	switch {
	case !last:
	case !p.Kept():
		p.Stop()
		p.Cut(cause)
	case !p.goesOn():
		p.Stop()
	}
}

// Detach says that a request waits no longer, and will be back: it has the questions that the run waits for.
func (p *Part) Detach() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.waiters--
}

// End ends the part, in the store first. It is called once.
func (p *Part) End(o Outcome) {
	if l := p.journal.held(); l != nil {
		o.Kept = true
		o = p.end(l, o)
	} else if o.Err == nil {
		switch o.State {
		case store.Waiting, store.Sleeping, store.Doubt:
			o = p.keep(o)
		case store.Paused, store.Running: // nothing is lost that could not be done again
			o.Err = context.Canceled
			p.overUnkept(outcome.Cancelled)
		}
	}
	p.k.leave(p)
	p.outcome = o
	p.cut.off(nil)
	close(p.ended)
}

// keep gives a row to a run that has none and has to wait.
func (p *Part) keep(o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	l, _, err := p.journal.row(ctx)
	if err != nil {
		p.overUnkept(outcome.Error)
		return failed(p.ID, err, false)
	}
	o.Kept = true
	return p.end(l, o)
}

// overUnkept counts a run that was to go on, and is over because it is not kept.
func (p *Part) overUnkept(how outcome.Outcome) {
	if !p.counted {
		p.k.over(p, Outcome{How: how})
	}
}

// endWithin is how long the store has to take the end of a part.
const endWithin = 10 * time.Second

// end writes the outcome down.
func (p *Part) end(l store.Lease, o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if o.State == store.Running && p.k.Stopping() { // the store gives the lease back when it is closed
		return o
	}
	row := store.Outcome{State: o.State, Result: o.Result, Error: o.Error, Wake: o.Wake}
	if o.State == store.Running { // it is tried again soon
		row.State, row.Wake = store.Sleeping, time.Now().Add(retryAfter)
	}
	for _, d := range o.Doubts {
		row.Doubts = append(row.Doubts, d.Key)
	}
	for _, q := range o.Questions {
		row.Questions = append(row.Questions, store.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline})
	}
	began := time.Now()
	err := l.End(ctx, row)
	p.k.wrote(began, err)
	if errors.Is(err, store.ErrUnavailable) {
		p.k.spawn(func() { p.endLater(l, row, o) })
	}
	switch {
	case err != nil && o.Err == nil:
		return failed(p.ID, err, true)
	case p.lost(l):
		return p.given(o)
	case o.State.Final():
		p.k.over(p, o)
	}
	return o
}

// endLater ends a part whose store did not answer when it was to be told, so that the run goes on when it does again.
func (p *Part) endLater(l store.Lease, row store.Outcome, o Outcome) {
	for wait(p.k.life, l.Lost(), retryAfter) == nil && !p.lost(l) {
		ctx, cancel := context.WithTimeout(p.k.life, endWithin)
		err := l.End(ctx, row)
		cancel()
		if err == nil && o.State.Final() && !p.lost(l) {
			p.k.over(p, o)
		}
		if !errors.Is(err, store.ErrUnavailable) {
			return
		}
	}
}

// lost reports whether the run has another owner, or was cancelled.
func (p *Part) lost(l store.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// given is the outcome of a part whose run was taken away: who waits for it looks again.
func (p *Part) given(o Outcome) Outcome {
	return Outcome{State: store.Running, Err: errTakenOver, Kept: true, How: o.How}
}

// Failed is the outcome of a run that its store has stopped, and whether err is the store's.
func (p *Part) Failed(err error) (Outcome, bool) {
	var broken *script.JournalError
	if !errors.As(err, &broken) {
		return Outcome{}, false
	}
	return failed(p.ID, broken.Err, p.Kept()), true
}
