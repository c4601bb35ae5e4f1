package script

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// The worker's side of an isolated run: the interpreter with its builtins. A run here has no journal, no ledger and no
// turns; all of Run that is not computing is forwarded to the run in the process of the proxy.

// WorkerOptions configure the runs in a worker.
type WorkerOptions struct {
	// Builtins are the predeclared names of every file, those of the program's Options.
	Builtins starlark.StringDict
	// Host makes the host of a run; it forwards requests with Run.AskHost.
	Host func(*Run) any
	// Errors encodes and decodes errors.
	Errors ErrorCodec
}

// worker is the state of the process, which computes one run and the separate runs of its functions.
type worker struct {
	channel Channel
	options WorkerOptions
	program *Program

	mu       sync.Mutex // also orders the work of one branch before it sends and of another after it receives
	branches map[int64]*branch
}

// nearBranch is the state of a branch in a worker.
type nearBranch struct {
	worker *worker
	id     int64
	inbox  chan *Message
	cancel context.CancelCauseFunc
	group  *nearGroup    // its parallel() in progress
	answer []byte        // the host's answer in the present effect
	now    time.Time     // time at which the present effect is performed
	since  time.Duration // for how long a worker before this one has performed it
}

// nearGroup is a parallel() in a worker.
type nearGroup struct {
	call    func(t *starlark.Thread, i int) (starlark.Value, error)
	results map[int]starlark.Value
	errs    map[int]error
}

// mostFromProxy bounds a frame from the process of the proxy, in bytes.
const mostFromProxy = 1 << 30

// ServeRuns computes the runs that are requested on the channel, until it is closed.
func ServeRuns(c Channel, o WorkerOptions) error {
	w := &worker{channel: c, options: o, branches: map[int64]*branch{}}
	for {
		frame, err := c.Receive(mostFromProxy)
		if err != nil {
			return err
		}
		m, err := Decode(frame)
		if err == nil {
			err = w.dispatch(m)
		}
		if err != nil {
			return err
		}
	}
}

func (w *worker) dispatch(m *Message) error {
	switch m.Kind {
	case messageProgram:
		var b bundle
		if err := json.Unmarshal(m.Part(0), &b); err != nil {
			return err
		}
		p, err := b.Compile(w.options.Builtins)
		if err == nil {
			w.program = of(p, b.Entry)
		}
		return err
	case messageRun:
		return w.run(m)
	}
	w.mu.Lock()
	b := w.branches[m.Branch]
	parent := w.branches[m.Number(0)]
	w.mu.Unlock()
	switch {
	case m.Kind == messageBranch:
		w.branch(parent, m)
	case b == nil:
	case m.Kind == cancel:
		err := b.near.received(m.Part(0))
		b.near.cancel(err)
	default:
		b.near.inbox <- m
	}
	return nil
}

func (w *worker) send(m *Message) {
	parts := m.Encode()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.channel.Send(parts...); err != nil {
		select {} // the process is about to end
	}
}

// run starts a run.
func (w *worker) run(m *Message) error {
	r := &Run{program: w.program, worker: w, started: time.Now(), began: time.Unix(0, m.Number(1))}
	if err := json.Unmarshal(m.Part(2), &r.limits); err != nil {
		return err
	}
	if m.Number(0) == 1 {
		r.host = w.options.Host(r)
	}
	r.turns.run = r
	r.budget = meter.New(meter.Options{
		Ledger: nearAccount{r}, CallDepth: r.limits.CallDepth, Frames: r.program.compiled.Frames, Check: r.check, Final: Final,
	})
	b := w.newBranch(r, context.Background(), m, "")
	r.given(b, m)
	go func() {
		b.meter = r.budget.Attach(b.thread, 0)
		res, err := r.main(b, string(m.Part(0)), m.Part(1))
		b.meter.CountSteps()
		ended := r.message(b, Ended, 0)
		if err != nil {
			ended.Parts = [][]byte{w.options.Errors.EncodeError(r.describe(err))}
		} else {
			ended.Parts = [][]byte{nil, res.Structured, res.Content}
			ended.Numbers[Sent] = numberOf(res.IsError)
		}
		w.end(b, ended)
	}()
	return nil
}

// branch starts a branch of a parallel().
func (w *worker) branch(parent *branch, m *Message) {
	r, i := parent.run, int(m.Number(1))
	b := w.newBranch(r, parent.ctx, m, string(m.Part(0)))
	b.catch = parent.catch
	go func() {
		r.given(b, m)
		b.meter = r.budget.Attach(b.thread, parent.meter.Depth())
		g := parent.near.group
		v, err := callBranch(g.call, b.thread, i)
		b.meter.CountSteps()
		ended := r.message(b, Ended)
		if err != nil {
			g.errs[i] = err
			ended.Parts = [][]byte{w.options.Errors.EncodeError(err)}
		} else {
			g.results[i] = v
		}
		w.end(b, ended)
	}()
}

func callBranch(call func(t *starlark.Thread, i int) (starlark.Value, error), t *starlark.Thread, i int) (v starlark.Value, err error) {
	defer recovered(&err)
	return call(t, i)
}

func (w *worker) newBranch(r *Run, ctx context.Context, m *Message, path string) *branch {
	b := r.bareBranch(ctx, path)
	b.near = &nearBranch{worker: w, id: m.Branch, inbox: make(chan *Message, 2)}
	b.ctx, b.near.cancel = context.WithCancelCause(b.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.branches[m.Branch] = b
	return b
}

func (w *worker) end(b *branch, m *Message) {
	w.mu.Lock()
	delete(w.branches, b.near.id)
	w.mu.Unlock()
	w.send(m)
}

// received decodes an error that the process of the proxy sent.
func (n *nearBranch) received(data []byte) error {
	return n.worker.options.Errors.DecodeError(data, Known{Suspended: &Suspended{}})
}

// message makes a message that b sends in its turn: it begins with the counts of the meter.
func (r *Run) message(b *branch, kind Kind, numbers ...int64) *Message {
	s := r.budget.State()
	var depth, deepest int
	var weight, most int64
	if b.meter != nil { // else it is being attached
		depth, weight = b.meter.Weigh()
		most, deepest = b.meter.Weighed()
	}
	return &Message{Kind: kind, Branch: b.near.id, Numbers: append([]int64{s.Steps, s.Memory, s.Stack, s.Paid, int64(depth), weight, most, int64(deepest)}, numbers...)}
}

// given takes the turn: the last numbers of m are the counts of the meter, and what is granted.
func (r *Run) given(b *branch, m *Message) {
	n := m.Numbers[len(m.Numbers)-given:]
	s := r.budget.State()
	s.Steps, s.Memory, s.Granted, s.Stack, s.Paid = n[0], n[1], meter.Amount{Steps: n[2], Memory: n[3]}, n[4], n[5]
	r.budget.SetState(s)
	if b.meter != nil {
		b.meter.SetWeighed(n[6], int(n[7]))
	}
	r.turns.now = b
}

// call sends m and waits for the answer.
func (n *nearBranch) call(m *Message) *Message {
	n.worker.send(m)
	answer := <-n.inbox
	n.worker.mu.Lock() // see worker.mu
	defer n.worker.mu.Unlock()
	return answer
}

// nearAccount is the ledger of a run in a worker, as its meter uses it.
type nearAccount struct{ *Run }

// Grant reserves steps and memory in the process of the proxy.
func (a nearAccount) Grant(need, want meter.Amount) (meter.Amount, error) {
	b := a.turns.now
	m := b.near.call(a.message(b, Grant, need.Steps, need.Memory, want.Steps, want.Memory))
	err := b.near.received(m.Part(0))
	return meter.Amount{Steps: m.Number(0), Memory: m.Number(1)}, err
}

// Left returns what can still be granted.
func (a nearAccount) Left() meter.Amount {
	b := a.turns.now
	m := b.near.call(a.message(b, left))
	return meter.Amount{Steps: m.Number(0), Memory: m.Number(1)}
}

// Return does nothing: the proxy's side returns what was not spent.
func (a nearAccount) Return(meter.Amount) {}

// nearDo is Do in a worker.
func (r *Run) nearDo(b *branch, e Effect, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	near := b.near
	b.counter++
	flags := numberOf(e.Instant) | numberOf(e.Free)<<1 | numberOf(e.Repeatable)<<2 | numberOf(e.Sleep)<<3 | numberOf(e.Tells)<<4 | numberOf(b.catch > 0)<<5 | numberOf(e.Adaptable)<<6
	m := r.message(b, Do, int64(len(e.Args)), flags, int64(e.Lasts))
	m.Parts = [][]byte{[]byte(e.Kind), []byte(e.Name), nil, []byte(innermost(b.thread).String())}
	if int64(len(e.Args)) <= int64(r.limits.Output) {
		m.Parts[2] = e.Args
	}
	var res json.RawMessage
	var failed error
	answer := near.call(m)
	for answer.Kind == messagePerform {
		near.answer = nil
		near.now, near.since = time.Unix(0, answer.Number(performNow)), time.Duration(answer.Number(performSince))
		res, failed = b.performNear(time.Duration(answer.Number(performLasts)), perform)
		var failure *Failure
		if errors.As(failed, &failure) {
			failure.Message = Clip(failure.Message)
		}
		m := &Message{Kind: Performed, Branch: near.id, Numbers: []int64{0}, Parts: [][]byte{nil, near.worker.options.Errors.EncodeError(failed)}}
		switch {
		case failed != nil:
		case same(res, near.answer):
			m.Numbers[0] = 1
		default:
			m.Parts[0] = res
		}
		answer = near.call(m)
	}
	r.given(b, answer)
	b.unsure = int(answer.Number(1))
	err := near.received(answer.Part(1))
	switch {
	case answer.Number(0) == ownError:
		return nil, failed
	case err != nil:
		return nil, err
	case answer.Number(0) == ownResult:
		return res, nil
	}
	return answer.Part(0), nil
}

// performNear performs an effect, within the given time if it is not 0.
func (b *branch) performNear(within time.Duration, perform performer) (json.RawMessage, error) {
	ctx := b.ctx
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, ErrOver)
		defer cancel()
	}
	return called(ctx, perform)
}

// nearParallel is Parallel in a worker.
func (r *Run) nearParallel(b *branch, n, width int, call func(t *starlark.Thread, i int) (starlark.Value, error)) ([]starlark.Value, error) {
	b.counter++
	g := &nearGroup{call: call, results: map[int]starlark.Value{}, errs: map[int]error{}}
	b.near.group = g
	ask := r.message(b, Parallel, int64(n), int64(width), numberOf(b.catch > 0))
	ask.Parts = [][]byte{[]byte(innermost(b.thread).String())}
	m := b.near.call(ask)
	b.near.group = nil
	r.given(b, m)
	b.unsure = int(m.Number(1))
	if i := int(m.Number(0)); i > 0 {
		return nil, &branchError{index: i - 1, err: g.errs[i-1]}
	}
	if err := b.near.received(m.Part(0)); err != nil || n == 0 {
		return nil, err
	}
	results := make([]starlark.Value, n)
	for i := range results {
		results[i] = g.results[i]
	}
	return results, nil
}

// nearPrinted is what print() does in a worker.
func (r *Run) nearPrinted(b *branch, pos, text string) error {
	m := r.message(b, Printed, int64(len(text)))
	if m.Parts = [][]byte{[]byte(pos), nil}; int64(len(text)) <= int64(r.limits.LogBytes) {
		m.Parts[1] = []byte(text)
	}
	err := b.near.received(b.near.call(m).Part(0))
	return err
}

// nearChargeLog is ChargeLog in a worker.
func (r *Run) nearChargeLog(n int) error {
	b := r.turns.now
	err := b.near.received(b.near.call(r.message(b, Logged, int64(n))).Part(0))
	return err
}

// nearAlone is CallAlone in a worker.
func (b *branch) nearAlone(fn string, arg json.RawMessage) (json.RawMessage, error) {
	m := b.near.call(&Message{Kind: messageApart, Branch: b.near.id, Parts: [][]byte{[]byte(fn), arg}})
	err := b.near.received(m.Part(0))
	return m.Part(1), err
}

// AskHost forwards a request to the host of the run in the process of the proxy. Inside an effect, ctx is that of the
// effect or derived from it.
func (r *Run) AskHost(ctx context.Context, method string, parts ...[]byte) ([][]byte, error) {
	b := r.turns.now
	var m *Message
	if inside := callerOf(ctx); inside != nil {
		b = inside
		m = &Message{Kind: Host, Branch: b.near.id, Numbers: []int64{within(ctx)}}
	} else {
		m = r.message(b, Host, 0)
	}
	m.Parts = append([][]byte{[]byte(method)}, parts...)
	answer := b.near.call(m)
	if answer.Number(0) == 1 {
		<-ctx.Done() // the request timed out there by the deadline of ctx
	}
	err := b.near.received(answer.Part(0))
	if err == nil && len(answer.Parts) > 1 {
		b.near.answer = answer.Parts[1]
		return answer.Parts[1:], nil
	}
	return nil, err
}

// within returns the time until ctx's deadline in nanoseconds, at least 1; 0 for no deadline.
func within(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, int64(time.Until(deadline)))
}
