package script

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/message"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/session"
)

// This is the side of an isolated run that stays here. For every branch that computes in
// the worker a branch of ours does what it asks for, by the same methods that builtins
// call in a run that is not isolated: so turns, journal, ledger, limits and traces are
// those of any run.
//
// The worker is not trusted. What it says it has used can only grow, and what it is
// granted comes from the ledger; kinds of effects have their flags from a table; a tool is
// called once for an effect that is in the journal, with the name and the arguments that
// are there; whatever does not belong where it comes ends the run with a *WorkerError. A
// worker that lies can cheat the accounts of its own run of the work that it has done
// itself, and nobody else.

// Channel carries frames between a run and its worker.
type Channel = session.Channel

// A WorkerError says that the process that computed an isolated run did not bring it to its
// end.
type WorkerError = session.WorkerError

// An ErrorCodec carries errors between a run and its worker: the text, and what Final and its
// callers look for.
type ErrorCodec interface {
	// EncodeError makes the form of err that crosses; nil for nil.
	EncodeError(err error) []byte
	// DecodeError makes the error again. It is a *WorkerError for what cannot be one.
	DecodeError(data []byte, known Known) error
}

// Known is what the receiver of an error knows of it.
type Known struct {
	// Suspended is what a suspension is, for its questions stay here; nil: there can be none.
	Suspended *Suspended
	// Cause is why the context of the branch ended, if it did.
	Cause error
}

// Isolation computes runs in worker processes. Package script/isolate has it.
type Isolation interface {
	ErrorCodec
	// Open starts a worker for runs with such limits.
	Open(ctx context.Context, l Limits) (Channel, error)
	// Check refuses effects that no builtin has.
	Check(e Effect) error
	// Ask does what a builtin in the worker asks of the host of its run. The error is that
	// of the host; one that is a *WorkerError ends the run.
	Ask(ctx context.Context, host any, q Asked) ([][]byte, error)
}

// Asked is what a worker asks of a host.
type Asked struct {
	// Method and Parts are what is asked for.
	Method string
	Parts  [][]byte
	// Effect is the one that is being performed, at the position Key; nil outside of effects.
	Effect *Effect
	Key    string
	// Run identifies the run, as RunOptions.ID; Until is when the effect is over.
	Run   string
	Until time.Time
	// Logged is how many bytes of log the run has paid for and not written.
	Logged int64
}

const (
	// WorkerMemory is what a worker weighs in the pool besides what its run is charged.
	WorkerMemory = 24 << 20
	// mostText bounds the texts of a message that name something.
	mostText = 4 << 10
)

// workerSession is the worker of a run, and what carries errors there.
type workerSession struct {
	*session.Session
	isolation Isolation
}

// farBranch is a branch that computes in a worker.
type farBranch struct {
	*session.Branch
	suspended *Suspended   // what it last waited for
	failed    map[int]bool // branches of its parallel() whose errors the worker has
	logged    int64        // bytes of log that it has paid for and not written
	answer    []byte       // of the host, in the present effect
	performed error        // what the worker made of the present effect
	result    json.RawMessage
}

// isolate starts the worker of r, or joins that of the run which called it.
func (r *Run) isolate(ctx context.Context, o RunOptions, end context.CancelCauseFunc) error {
	if o.session != nil {
		r.session = o.session
		return nil
	}
	channel, err := o.Isolation.Open(ctx, r.limits)
	if err != nil {
		return err
	}
	r.session = &workerSession{session.Open(ctx, session.Options{Channel: channel, Encode: o.Isolation.EncodeError, End: end, Answers: int64(r.limits.Result)}), o.Isolation}
	r.request().Weigh(WorkerMemory)
	program, err := json.Marshal(r.program.compiled.Bundle(r.program.Function()))
	if err != nil {
		return err
	}
	return r.session.Send(&message.Message{Kind: message.Program, Parts: [][]byte{program}})
}

// closeSession ends the worker, unless it is that of the run which called r.
func (r *Run) closeSession(o RunOptions) {
	if r.session == nil || o.session != nil {
		return
	}
	r.session.Close()
	r.request().Weigh(-WorkerMemory)
}

// received makes the error that the worker has sent for b.
func (b *branch) received(data []byte) error {
	return b.run.session.isolation.DecodeError(data, Known{Suspended: b.far.suspended, Cause: context.Cause(b.ctx)})
}

// farMain is main of an isolated run.
func (r *Run) farMain(b *branch, entry string, args json.RawMessage) (*Result, error) {
	limits, err := json.Marshal(r.limits)
	if err != nil {
		return nil, err
	}
	if err := r.grow(); err != nil {
		return nil, err
	}
	m, err := r.drive(b, &message.Message{Kind: message.Run, Numbers: []int64{numberOf(r.host != nil), r.began.UnixNano()}, Parts: [][]byte{[]byte(entry), args, limits}})
	if err != nil {
		return nil, err
	}
	if err := b.received(m.Part(0)); err != nil {
		return nil, err
	}
	res := &Result{Structured: m.Part(1), Content: m.Part(2), IsError: m.Number(message.Sent) == 1}
	for _, part := range []json.RawMessage{res.Structured, res.Content} {
		if part != nil && (!goodJSON(part) || int64(len(part)) > int64(r.limits.Output)) {
			return nil, r.session.Refuse(session.Wrong("a result that cannot be one"))
		}
	}
	if res.Content != nil && bytes.TrimSpace(res.Content)[0] != '[' || res.Structured == nil && res.Content == nil {
		return nil, r.session.Refuse(session.Wrong("a result that cannot be one"))
	}
	return res, nil
}

func goodJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }

// farBranch runs branch i of the parallel() of parent.
func (r *Run) farBranch(b, parent *branch, i int) error {
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	m, err := r.drive(b, &message.Message{Kind: message.Branch, Numbers: []int64{parent.far.ID, int64(i)}, Parts: [][]byte{[]byte(b.path)}})
	if err != nil {
		return err
	}
	err = b.received(m.Part(0))
	parent.far.failed[i] = err != nil
	return err
}

// give appends what the worker needs to go on.
func (r *Run) give(b *branch, m *message.Message) {
	s := r.budget.State()
	stack, deepest := b.meter.Weighed()
	m.Numbers = append(m.Numbers, s.Steps, s.Memory, s.Granted.Steps, s.Granted.Memory, s.Stack, s.Paid, stack, int64(deepest))
}

// took notes what the worker has used in its turn.
func (r *Run) took(b *branch, m *message.Message) error {
	s := r.budget.State()
	steps, memory, stack, paid := m.Number(0), m.Number(1), m.Number(2), m.Number(3)
	depth, weight, most, deepest := m.Number(4), m.Number(5), m.Number(6), m.Number(7)
	switch {
	case len(m.Numbers) < message.Sent:
		return session.Wrong("a message without its numbers")
	case memory < s.Memory || paid < s.Paid:
		return session.Wrong("an account that shrinks")
	case steps < math.MinInt32 || steps > s.Granted.Steps+meter.MostUnseen || memory > s.Granted.Memory:
		return session.Wrong("an account of more than it was granted")
	case min(depth, stack, paid, weight, most, deepest) < 0 || max(depth, deepest) > math.MaxInt32 || max(stack, paid, weight, most) > math.MaxInt64/4 || most > stack:
		return session.Wrong("a stack that cannot be")
	}
	s.Steps, s.Memory, s.Stack, s.Paid = steps, memory, stack, paid
	r.budget.SetState(s)
	b.meter.SetFar(int(depth), weight)
	b.meter.SetWeighed(most, int(deepest))
	return nil
}

// drive lets b compute in the worker, from its first message to its last, and does what it
// asks for.
func (r *Run) drive(b *branch, m *message.Message) (*message.Message, error) {
	b.far = &farBranch{Branch: r.session.Join(), failed: map[int]bool{}}
	defer r.session.Leave(b.far.Branch)
	r.give(b, m)
	for {
		asked, err := r.turn(b, m)
		if err != nil {
			return nil, err
		}
		if err := r.took(b, asked); err != nil {
			return nil, r.session.Refuse(err)
		}
		if asked.Kind == message.Ended {
			return asked, nil
		}
		if m, err = r.serve(b, asked); err != nil {
			return nil, r.session.Refuse(err)
		}
	}
}

// turn sends m to the worker and waits for what it sends next. When the context of b ends
// meanwhile, the worker is told; one that does not stop is ended.
func (r *Run) turn(b *branch, m *message.Message) (*message.Message, error) {
	r.session.Granted(r.budget.State().Granted.Memory)
	if err := b.sendFar(m); err != nil {
		return nil, err
	}
	var pause func()
	if r.pool != nil {
		pause = func() { r.pool.Pause(&r.seat) }
	}
	asked, err := b.receiveFar(pause)
	if err == nil {
		b.compute()
	}
	return asked, err
}

// sendFar sends a message to the worker. When the context of b has ended, that is the error.
func (b *branch) sendFar(m *message.Message) error {
	err := b.far.Send(b.ctx, m)
	if err != nil && b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	return err
}

// receiveFar waits for the next message of the worker. While a branch computes there, pause gives others its slot
// after a while.
func (b *branch) receiveFar(pause func()) (*message.Message, error) {
	m, err := b.far.Receive(b.ctx, pause)
	if err != nil && b.ctx.Err() != nil {
		return nil, ended(b.ctx)
	}
	return m, err
}

// serve does what a branch asks for in its turn, and returns the answer.
func (r *Run) serve(b *branch, m *message.Message) (*message.Message, error) {
	codec := r.session.isolation
	arg := func(i int) int64 { return m.Number(message.Sent + i) }
	switch m.Kind {
	case message.Grant:
		need, want := meter.Amount{Steps: arg(0), Memory: arg(1)}, meter.Amount{Steps: arg(2), Memory: arg(3)}
		if min(need.Steps, need.Memory, want.Steps, want.Memory) < 0 {
			return nil, session.Wrong("a grant of less than nothing")
		}
		got, err := account{r}.Grant(need, want)
		s := r.budget.State()
		s.Granted.Steps += got.Steps
		s.Granted.Memory += got.Memory
		r.budget.SetState(s)
		r.pool.Share(b.ctx, &r.seat)
		return &message.Message{Kind: message.Granted, Numbers: []int64{got.Steps, got.Memory}, Parts: [][]byte{codec.EncodeError(err)}}, nil
	case message.Left:
		left := account{r}.Left()
		return &message.Message{Kind: message.Granted, Numbers: []int64{left.Steps, left.Memory}}, nil
	case message.Logged:
		n := arg(0)
		if n < 0 || n > math.MaxInt32 {
			return nil, session.Wrong("a line of %d bytes", n)
		}
		err := r.ChargeLog(int(n))
		if err == nil {
			b.far.logged += n
		}
		return &message.Message{Kind: message.Reply, Parts: [][]byte{codec.EncodeError(err)}}, nil
	case message.Printed:
		return &message.Message{Kind: message.Reply, Parts: [][]byte{codec.EncodeError(r.farPrinted(m, arg(0)))}}, nil
	case message.Host:
		return r.ask(b.ctx, b, m, message.Sent, nil, "")
	case message.Parallel:
		b.catch = int(arg(2))
		return r.farParallel(b, arg(0), arg(1))
	case message.Do:
		return r.farDo(b, m)
	}
	return nil, session.Wrong("a message of kind %d", m.Kind)
}

// farPrinted is what print() does: n is the length of a text, which is not sent when it is
// longer than any log.
func (r *Run) farPrinted(m *message.Message, n int64) error {
	pos, text := m.Part(0), m.Part(1)
	if len(pos) > mostText || n < int64(len(text)) || n > math.MaxInt32 {
		return r.session.Refuse(session.Wrong("a line that cannot be"))
	}
	if err := r.ChargeLog(int(n)); err != nil {
		return err
	}
	if r.print != nil {
		r.print(string(pos), string(text))
	}
	return nil
}

// farParallel is a parallel() whose branches compute in the worker.
func (r *Run) farParallel(b *branch, n, width int64) (*message.Message, error) {
	if n < 0 || n > math.MaxInt32 || width < 1 {
		return nil, session.Wrong("a parallel() of %d branches", n)
	}
	clear(b.far.failed)
	_, err := r.Parallel(b.thread, int(n), int(min(width, math.MaxInt32)), func(t *starlark.Thread, i int) (starlark.Value, error) {
		return starlark.None, r.farBranch(branchOf(t), b, i)
	})
	if s, ok := suspended(err); ok {
		b.far.suspended = s
	}
	answer := &message.Message{Kind: message.Done, Numbers: []int64{0, int64(b.unsure)}}
	if one, ok := err.(*branchError); ok && b.far.failed[one.index] {
		answer.Numbers[0] = int64(one.index) + 1
	} else {
		answer.Parts = [][]byte{r.session.isolation.EncodeError(err)}
	}
	r.give(b, answer)
	return answer, nil
}

// farDo performs an effect.
func (r *Run) farDo(b *branch, m *message.Message) (*message.Message, error) {
	e := Effect{Kind: string(m.Part(0)), Name: string(m.Part(1)), Args: m.Part(2)}
	flags := m.Number(message.Sent + 1)
	e.Instant, e.Free, e.Repeatable, e.Sleep, e.Tells = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 != 0
	e.Lasts = time.Duration(m.Number(message.Sent + 2))
	if err := r.session.isolation.Check(e); err != nil {
		return nil, session.Wrong("%v", err)
	}
	switch n := m.Number(message.Sent); {
	case n > int64(r.limits.Output): // it was not sent, for it is too long whatever it is
		e.Args = make([]byte, r.limits.Output+1)
	case e.Args != nil && !goodJSON(e.Args):
		return nil, session.Wrong("arguments that are no JSON")
	}
	far, key := b.far, b.key()
	far.answer, far.performed, far.result = nil, nil, nil
	b.catch = int(flags >> 5 & 1)
	res, err := r.Do(b.thread, e, func(ctx context.Context) (json.RawMessage, error) {
		far.result, far.performed = r.farPerform(ctx, b, e, key)
		return far.result, far.performed
	})
	answer := &message.Message{Kind: message.Done, Numbers: []int64{0, int64(b.unsure)}, Parts: [][]byte{nil, nil}}
	if s, ok := suspended(err); ok {
		far.suspended = s
	}
	switch {
	case err != nil && err == far.performed:
		answer.Numbers[0] = ownError
	case err != nil:
		answer.Parts[1] = r.session.isolation.EncodeError(err)
	case same(res, far.result):
		answer.Numbers[0] = ownResult
	default:
		answer.Parts[0] = res
	}
	far.answer, far.performed, far.result = nil, nil, nil
	r.give(b, answer)
	return answer, nil
}

// What an effect comes to where it is what the worker has said: that is not sent back.
const (
	ownResult = 1
	ownError  = 2
)

// same reports whether a and b are the same bytes in memory.
func same(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

// farPerform lets the worker perform an effect: what of it the host does, is done here. The worker knows how long it
// lasts; it is told when the context of the branch ends.
func (r *Run) farPerform(ctx context.Context, b *branch, e Effect, key string) (json.RawMessage, error) {
	asked, apart := false, false
	lasts := int64(0)
	if e.Lasts > 0 {
		lasts = within(ctx)
	}
	answer := &message.Message{Kind: message.Perform, Numbers: []int64{lasts, r.clock.Now().UnixNano()}}
	for {
		if err := b.sendFar(answer); err != nil {
			return nil, err
		}
		m, err := b.receiveFar(nil)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Kind == message.Performed:
			res, err := r.farOutcome(b, e, m, apart)
			return res, err
		case m.Kind == message.Host && !asked:
			asked = true
			if answer, err = r.ask(ctx, b, m, 0, &e, key); err != nil {
				return nil, r.session.Refuse(err)
			}
		case m.Kind == message.Apart && !apart && e.Kind == "call":
			apart = true
			answer = r.farApart(ctx, m)
		default:
			return nil, r.session.Refuse(session.Wrong("a message of kind %d in an effect", m.Kind))
		}
	}
}

// farOutcome is what the worker made of an effect. What it says a tool has returned is
// what the tool has returned, unless a function of the script has worked on it.
func (r *Run) farOutcome(b *branch, e Effect, m *message.Message, apart bool) (json.RawMessage, error) {
	if err := b.received(m.Part(1)); err != nil {
		return nil, err
	}
	res := json.RawMessage(m.Part(0))
	switch {
	case m.Number(0) == 1 && b.far.answer != nil:
		return b.far.answer, nil
	case e.Kind == "call" && !apart:
		return nil, r.session.Refuse(session.Wrong("a result that the tool has not returned"))
	case res != nil && !goodJSON(res):
		return nil, r.session.Refuse(session.Wrong("a result that is no JSON"))
	}
	return res, nil
}

// farApart runs a function of the script in a run of its own.
func (r *Run) farApart(ctx context.Context, m *message.Message) *message.Message {
	res, err := r.apart(ctx, string(m.Part(0)), m.Part(1))
	return &message.Message{Kind: message.Reply, Parts: [][]byte{r.session.isolation.EncodeError(err), res}}
}

// ask asks the host. e is the effect that is being performed, if one is. The first number
// of the message, behind those of the turn, is how much time there is, in nanoseconds.
func (r *Run) ask(ctx context.Context, b *branch, m *message.Message, skip int, e *Effect, key string) (*message.Message, error) {
	if len(m.Parts) == 0 || r.host == nil {
		return nil, session.Wrong("a call of the host")
	}
	if within := m.Number(skip); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(within))
		defer cancel()
	}
	if e != nil {
		limit := max(r.limits.CallTimeout.Std(), e.Lasts) + session.StopWithin
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	parts, err := r.session.isolation.Ask(ctx, r.host, Asked{
		Method: string(m.Part(0)), Parts: m.Parts[1:], Effect: e, Key: key, Run: r.id, Until: b.until, Logged: b.far.logged,
	})
	if bad, ok := err.(*WorkerError); ok {
		return nil, bad
	}
	if e != nil && e.Instant {
		b.far.logged = 0
	}
	if s, ok := suspended(err); ok {
		b.far.suspended = s
	}
	if err == nil && len(parts) > 0 {
		b.far.answer = parts[0]
	}
	late := numberOf(err != nil && ctx.Err() == context.DeadlineExceeded)
	return &message.Message{Kind: message.Reply, Numbers: []int64{late}, Parts: append([][]byte{r.session.isolation.EncodeError(err)}, parts...)}, nil
}

func numberOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
