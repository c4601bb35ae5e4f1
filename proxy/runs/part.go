package runs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A Part is the execution of a run by this process from acquiring it until the run has ended or waits for something.
// Requests join the part that is in progress.
//
// # Who executes it, who waits for it, who ends it
//
// One goroutine executes a part (Program.Run over Journal) and calls End, once: that of the request which Begin or Join
// has made its leader, or one of the keeper for a run without a request (alone). All others wait for Ended and then
// read Outcome. Keeper.active has at most one part of a run.
//
//	Stop   the run stops after its current effects, which are recorded       it may be resumed later, by any process
//	Cut    the context of the run ends now                                   the current effect may have happened
//
// A request whose client cancels or disconnects calls Leave. If it was the last one (waiters) and the part is not alone,
// onDisconnect of the tool says what becomes of the run: it is stopped and cut, and has ended; or it is stopped; or it
// continues. A run without a row is stopped and cut in any case, since no request could name it again. A request that has
// answered its client with a question calls Detach instead, which stops nothing: the client will send another request, or the
// question reaches its deadline.
//
// The lease may be lost before the end: another process has acquired the run, or it was cancelled. Then watch stops the
// part, and End sets an Outcome in state Running with errTakenOver: those who wait read the run again. If the store
// does not answer at the end, endLater repeats the write as long as the lease lasts; after that the run is due, for any
// process.
//
// # Locks
//
// Keeper.mu guards waiters. journal.making is held while a row is made, and is locked before journal.mu, which guards
// the lease (journal.go). cut has its own mutex. Only making is held while the store is asked.
type Part struct {
	ID    string
	Cause Cause // why the run was begun or resumed

	k       *Keeper
	store   durable.Store
	run     durable.Run
	journal journal
	// settings are those of a run that was begun here; nil: they are in the row.
	settings *Settings
	asked    questions

	pause chan struct{} // closed by Stop
	once  sync.Once

	cut  cut         // ends the run at once
	gone atomic.Bool // the last client has left, and the run ends with that

	durable  chan struct{} // see Durable
	durables sync.Once

	ended   chan struct{}
	outcome Outcome // set before ended is closed

	waiters int  // number of requests that wait; guarded by k.mu
	counted bool // by the executor, since it has no row
	alone   bool // it continues without a request
	resumed bool // the run was begun by an earlier part
}

// cut is a cancellation for a part. The zero value is not cut. It replaces a context, which would cost each run several
// times as much.
type cut struct {
	mu     sync.Mutex
	done   bool                    // guarded by mu, like all below
	cause  error                   // of the first call
	cancel context.CancelCauseFunc // of the part's context; nil: there is none
}

// off cuts the part.
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

// follow sets the function to call when the part is cut; it is called at once if it is already.
func (c *cut) follow(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	done, cause := c.done, c.cause
	c.cancel = cancel
	c.mu.Unlock()
	if done && cancel != nil {
		cancel(cause)
	}
}

// A Cause is the reason why a run was resumed.
type Cause string

// The causes, as labels of metrics.
const (
	request  Cause = "request"
	start    Cause = "start"
	wake     Cause = "wake"
	answer   Cause = "answer"
	lease    Cause = "lease"
	operator Cause = "operator"
)

// An Outcome is how a part of a run has ended.
type Outcome struct {
	// State is the state of the run; Running if it was stopped and may be resumed at once, by any process.
	State durable.State
	// Result is a CallToolResult, if the run has ended.
	Result json.RawMessage
	// Error says why the run failed or was cancelled.
	Error string
	// Questions are the open questions.
	Questions []script.Question
	// Doubts are calls for which it is unknown whether they were executed.
	Doubts []script.Doubt
	// Wake is when the run is resumed without a request; zero: it is not.
	Wake time.Time
	// Err is the error for requests that wait for this part, if they get no result.
	Err error
	// How is the outcome for metrics.
	How observe.Outcome
	// Kept means that the run has a row, and can be named by later requests.
	Kept bool
}

func (k *Keeper) newPart(run durable.Run, of durable.Store, cause Cause) *Part {
	p := &Part{ID: run.ID, Cause: cause, k: k, store: of, run: run, pause: make(chan struct{}), durable: make(chan struct{}), ended: make(chan struct{}), alone: cause != request}
	p.journal.part = p
	p.asked.all, p.asked.opened = map[string]durable.Question{}, make(chan struct{})
	for _, q := range run.Questions {
		p.asked.all[q.Key] = q
		p.asked.bytes += len(q.Params) + len(q.Answer)
	}
	return p
}

// taken sets the lease of a run with a row.
func (p *Part) taken(l durable.Lease) {
	p.resumed = true
	p.journal.lease = l
}

// Run is the run as it was begun or acquired.
func (p *Part) Run() durable.Run { return p.run }

// Settings are the settings of the run.
func (p *Part) Settings() (Settings, error) {
	if p.settings != nil {
		return *p.settings, nil
	}
	return settingsOf(p.run)
}

// left is what becomes of the run when its last client has left.
func (p *Part) left() string {
	s, err := p.Settings()
	if err != nil {
		return "pause"
	}
	return p.k.left(p.run, s)
}

// SetArgs sets the arguments of a run without a row, before its program begins.
func (p *Part) SetArgs(args json.RawMessage) { p.run.Args = args }

// Journal is the journal for executing the run.
func (p *Part) Journal() script.Journal { return &p.journal }

// Paused is closed by Stop.
func (p *Part) Paused() <-chan struct{} { return p.pause }

// Drained is closed when the run must not sleep here any longer; nil for a run that is never kept, which cannot sleep
// elsewhere.
func (p *Part) Drained() <-chan struct{} {
	if p.Ephemeral() {
		return nil
	}
	return p.k.drained
}

// Ephemeral reports whether the run is never kept, so that no operator can find it.
func (p *Part) Ephemeral() bool { return p.store == p.k.of(true) }

// Alone reports whether the part continues without a request.
func (p *Part) Alone() bool { return p.alone }

// Resumed reports whether an earlier part began the run.
func (p *Part) Resumed() bool { return p.resumed }

// CutOff reports whether the part was ended by Cut.
func (p *Part) CutOff() bool { return p.cut.is() }

// Kept reports whether the run has a row.
func (p *Part) Kept() bool { return p.journal.current() != nil }

// Durable is closed when the run is admitted and has a row: it continues whatever becomes of its requests, and no error
// decides the status of their responses any more.
func (p *Part) Durable() <-chan struct{} { return p.durable }

// becomeDurable closes Durable.
func (p *Part) becomeDurable() { p.durables.Do(func() { close(p.durable) }) }

// Counted records that the executor has counted the run, which has ended without a row.
func (p *Part) Counted() { p.counted = true }

// Ended is closed when the part has ended.
func (p *Part) Ended() <-chan struct{} { return p.ended }

// Outcome is how the part has ended. Only after Ended.
func (p *Part) Outcome() Outcome { return p.outcome }

// Context is ctx, ended also by Cut.
func (p *Part) Context(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.cut.follow(cancel)
	return ctx, func() { p.cut.follow(nil); cancel(nil) }
}

// Stop stops the run after its current effects.
func (p *Part) Stop() { p.once.Do(func() { close(p.pause) }) }

// Cut ends the run at once. Its current effects may have happened.
func (p *Part) Cut(cause error) { p.cut.off(cause) }

// watch stops the run when the lease is lost.
func (p *Part) watch(l durable.Lease) {
	select {
	case <-l.Lost():
		p.Stop()
	case <-p.ended:
	}
}

// Leave is called when a request no longer waits.
func (p *Part) Leave(cause error) {
	p.k.mu.Lock()
	p.waiters--
	last := p.waiters == 0 && !p.alone
	p.k.mu.Unlock()
	if !last {
		return
	}
	how := p.left()
	p.gone.Store(how == "cancel")
	switch {
	case how == "cancel", !p.Kept():
		p.Stop()
		p.Cut(cause)
	case how == "pause":
		p.Stop()
	}
}

// Detach is called when a request no longer waits because it has answered its client with the run's questions.
func (p *Part) Detach() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.waiters--
}

// End ends the part, first in the store. It is called once.
func (p *Part) End(o Outcome) {
	if l := p.journal.current(); l != nil {
		if o.Kept = true; p.gone.Load() && !o.State.Final() {
			o = abandoned(o)
		}
		o = p.end(l, o)
	} else if o.Err == nil {
		switch o.State {
		case durable.Waiting, durable.Sleeping, durable.Doubt:
			o = p.createRow(o)
		case durable.Paused, durable.Running: // nothing is lost that could not be repeated
			o.Err = context.Canceled
			if o.State == durable.Running && !p.CutOff() {
				o.Err = Stopped(p.ID, false)
			}
			p.overUnkept(observe.Cancelled)
		}
	}
	p.k.leave(p)
	p.outcome = o
	p.cut.off(nil)
	close(p.ended)
}

// clientLeft says why a run was cancelled.
const clientLeft = "its client cancelled the request or disconnected"

// abandoned is the outcome of a run whose last client has left, and that would have stopped or waited.
func abandoned(o Outcome) Outcome {
	text := clientLeft
	for _, d := range o.Doubts {
		text += "; " + d.String()
	}
	return Outcome{State: durable.Cancelled, Error: text, Kept: true, How: observe.Cancelled}
}

// createRow makes the row of a run that has none and has to wait.
func (p *Part) createRow(o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	l, _, err := p.journal.row(ctx)
	if err != nil {
		p.overUnkept(observe.Error)
		return failed(p.ID, err, false)
	}
	o.Kept = true
	return p.end(l, o)
}

// overUnkept counts a run that has ended because it has no row.
func (p *Part) overUnkept(how observe.Outcome) {
	if !p.counted {
		p.k.over(p, Outcome{How: how})
	}
}

// endWithin bounds writing the end of a part.
const endWithin = 10 * time.Second

// end writes the outcome to the store.
func (p *Part) end(l durable.Lease, o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if o.State == durable.Running && p.k.Stopping() { // closing the store releases the lease
		return o
	}
	row := durable.Outcome{State: o.State, Result: o.Result, Error: o.Error, Wake: o.Wake}
	if o.State == durable.Running { // it is tried again soon
		row.State, row.Wake = durable.Sleeping, time.Now().Add(retryAfter)
	}
	for _, d := range o.Doubts {
		row.Doubts = append(row.Doubts, d.Key)
	}
	for _, q := range o.Questions {
		row.Questions = append(row.Questions, durable.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline})
	}
	began := time.Now()
	err := l.End(ctx, row)
	p.k.wrote(began, err)
	if errors.Is(err, durable.ErrUnavailable) {
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

// endLater repeats writing the outcome of a part until the store answers or the lease is lost.
func (p *Part) endLater(l durable.Lease, row durable.Outcome, o Outcome) {
	for wait(p.k.life, l.Lost(), retryAfter) == nil && !p.lost(l) {
		ctx, cancel := context.WithTimeout(p.k.life, endWithin)
		err := l.End(ctx, row)
		cancel()
		if err == nil && o.State.Final() && !p.lost(l) {
			p.k.over(p, o)
		}
		if !errors.Is(err, durable.ErrUnavailable) {
			return
		}
	}
}

// lost reports whether the lease is lost.
func (p *Part) lost(l durable.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// given is the outcome of a part whose lease was lost: requests that wait read the run again.
func (p *Part) given(o Outcome) Outcome {
	return Outcome{State: durable.Running, Err: errTakenOver, Kept: true, How: o.How}
}

// Failed is the outcome of a run that failed by an error of its store; false if err is not such an error.
func (p *Part) Failed(err error) (Outcome, bool) {
	var broken *script.JournalError
	if !errors.As(err, &broken) {
		return Outcome{}, false
	}
	return failed(p.ID, broken.Err, p.Kept()), true
}
