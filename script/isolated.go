package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// The proxy's side of an isolated run. For every branch that computes in the worker, a branch here performs what it
// asks for, by the same methods that builtins call in a run that is not isolated: so turns, journal, ledger, limits
// and traces are those of any run.
//
// The worker is not trusted. The usage that it reports can only grow, and is bounded by what the ledger granted; the
// flags of an effect come from a table by its kind; a tool is called at most once for an effect that is in the
// journal, with the recorded name and arguments; a message out of order ends the run with a *WorkerError. A worker
// that lies can misreport the work that it has done itself, and affect no other run.

// An ErrorCodec encodes errors between a run and its worker: the text, and the types that Final and callers look for.
type ErrorCodec interface {
	// EncodeError encodes err; nil for nil.
	EncodeError(err error) []byte
	// DecodeError decodes an error. It returns a *WorkerError for invalid data.
	DecodeError(data []byte, known Known) error
}

// Known is what the receiver of an error knows about it.
type Known struct {
	// Suspended is what a suspension is decoded as, for questions are not sent to workers; nil: there can be none.
	Suspended *Suspended
	// Cause is the cause with which the context of the branch ended, if it did.
	Cause error
}

// Isolation runs scripts in worker processes. Package proxy/isolate implements it.
type Isolation interface {
	ErrorCodec
	// Open starts a worker for runs with these limits.
	Open(ctx context.Context, l Limits) (Channel, error)
	// Patience is how long a run may wait for others before its worker may be given to a run that has none.
	Patience() time.Duration
	// Check returns an error for an effect that no builtin has.
	Check(e Effect) error
	// Ask does what a builtin in the worker asks of the host of its run, and returns the host's answer. An error that
	// is a *WorkerError ends the run; others are the host's.
	Ask(ctx context.Context, host any, q Asked) ([][]byte, error)
}

// Asked is a request of a worker to the host.
type Asked struct {
	// Method and Parts are the request.
	Method string
	Parts  [][]byte
	// Effect is the effect in progress, at the position Key; nil outside of effects.
	Effect *Effect
	Key    string
	// Run is RunOptions.ID; Until is when the effect is over.
	Run   string
	Until time.Time
	// Logged is how many bytes of log the run has been charged for and not written.
	Logged int64
}

const (
	// WorkerMemory is what a worker counts in the pool besides the charges of its run, in bytes.
	WorkerMemory = 24 << 20
	// MostWorkers bounds the workers of the runs in a pool.
	MostWorkers = 256
	// fewWorkers is how many workers a run may have had, one after the other, before it keeps one for longer.
	fewWorkers = 5
	// mostText bounds the names in a message, in bytes.
	mostText = 4 << 10
)

// workerSession is the session of a run's worker, with the codec for its errors and what the pool knows of it.
type workerSession struct {
	*session
	isolation Isolation
	holder    holder
}

// farBranch is a branch that computes in a worker.
type farBranch struct {
	*sessionBranch
	suspended *Suspended   // its last suspension
	failed    map[int]bool // branches of its parallel() whose errors the worker has
	logged    int64        // bytes of log charged and not written
	answer    []byte       // the host's answer in the present effect
	performed error        // the worker's error for the present effect
	result    json.RawMessage
	pos       string // where the present effect was called from, as the worker says
}

// isolate makes the session of r, or joins that of the run that called it.
func (r *Run) isolate(ctx context.Context, o RunOptions, end context.CancelCauseFunc) error {
	if o.session != nil {
		r.session = o.session
		r.seat.holder = &r.session.holder
		return nil
	}
	program, err := json.Marshal(r.program.compiled.Bundle(r.program.Function()))
	if err != nil {
		return err
	}
	r.session = &workerSession{isolation: o.Isolation, holder: holder{tenant: r.request().Tenant, idle: r.spares}}
	r.session.session = Open(ctx, sessionOptions{
		Open: r.openWorker, Closed: r.workerClosed, Encode: o.Isolation.EncodeError, End: end, Answers: int64(r.limits.Result),
	}, &Message{Kind: messageProgram, Parts: [][]byte{program}})
	r.session.holder.giveBack = r.session.GiveBack
	r.seat.holder = &r.session.holder
	return nil
}

// openWorker waits for room in the pool, starts a worker, and brings it to where the session is.
func (r *Run) openWorker(ctx context.Context, seat *Seat, ready func(Channel) error) error {
	q := r.request()
	if seat == nil {
		seat = &Seat{}
		defer func() { r.pool.Release(seat) }()
	}
	q.Weigh(WorkerMemory)
	if err := r.pool.Staff(ctx, seat, &r.session.holder, q.Charged()); err != nil {
		q.Weigh(-WorkerMemory)
		return err
	}
	c, err := r.session.isolation.Open(ctx, r.limits)
	if err != nil {
		r.workerClosed()
		return err
	}
	r.pool.Compute(ctx, seat)
	if err := ready(c); err != nil {
		c.Close()
		r.workerClosed()
		return err
	}
	return nil
}

// workerClosed returns the room of a worker that has ended.
func (r *Run) workerClosed() {
	r.request().Weigh(-WorkerMemory)
	r.pool.Dismiss(&r.session.holder)
}

// spares reports whether the worker of r may be given to another run: r waits for a person or for the end of a sleep, or
// has waited for something else for longer than Isolation.Patience. Each further worker repeats what was computed before,
// so from the fifth on r keeps it for much longer.
func (r *Run) spares() bool {
	patience := r.session.isolation.Patience()
	switch n := r.session.workers.Load(); {
	case n >= fewWorkers:
		patience <<= 2 * min(n-1, 10)
	case r.turns.watch.Asleep():
		patience = 0
	}
	idle := r.session.Idle()
	return idle > 0 && idle >= patience
}

// closeSession ends the worker, unless it belongs to the run that called r.
func (r *Run) closeSession(o RunOptions) {
	if r.session == nil || o.session != nil {
		return
	}
	r.session.holder.returning.Wait()
	r.session.Close()
}

// received decodes an error that the worker sent for b.
func (b *branch) received(data []byte) error {
	return b.run.session.isolation.DecodeError(data, Known{Suspended: b.far.suspended, Cause: context.Cause(b.ctx)})
}

// farMain is main for an isolated run.
func (r *Run) farMain(b *branch, entry string, args json.RawMessage) (*Result, error) {
	limits, err := json.Marshal(r.limits)
	if err != nil {
		return nil, err
	}
	m, err := r.drive(b, 0, &Message{Kind: messageRun, Numbers: []int64{numberOf(r.host != nil), r.began.UnixNano()}, Parts: [][]byte{[]byte(entry), args, limits}})
	if err != nil {
		return nil, b.far.placed(err)
	}
	if err := b.received(m.Part(0)); err != nil {
		return nil, err
	}
	res := &Result{Structured: m.Part(1), Content: m.Part(2), IsError: m.Number(Sent) == 1}
	for _, part := range []json.RawMessage{res.Structured, res.Content} {
		if part != nil && (!goodJSON(part) || int64(len(part)) > int64(r.limits.Output)) {
			return nil, r.session.Refuse(wrong("a result that is invalid or too long"))
		}
	}
	if res.Content != nil && bytes.TrimSpace(res.Content)[0] != '[' || res.Structured == nil && res.Content == nil {
		return nil, r.session.Refuse(wrong("a result that is neither a value nor content blocks"))
	}
	return res, nil
}

// placed adds the place of the present effect to an error that the worker does not know: it was given back.
func (f *farBranch) placed(err error) error {
	at := strings.Split(f.pos, ":")
	n := len(at) - 2
	if n < 1 || isSuspended(err) || errors.As(err, new(*Error)) {
		return err
	}
	line, bad := strconv.ParseInt(at[n], 10, 32)
	col, worse := strconv.ParseInt(at[n+1], 10, 32)
	if bad != nil || worse != nil {
		return err
	}
	file := strings.Join(at[:n], ":")
	e := &Error{Msg: Clip(err.Error()), Pos: syntax.MakePosition(&file, int32(line), int32(col)), Err: err}
	var limit *LimitError
	if errors.As(err, &limit) && !limit.Pos.IsValid() {
		limit.Pos = e.Pos
	}
	return e
}

func goodJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }

// farBranch runs branch i of the parallel() of parent in the worker.
func (r *Run) farBranch(b, parent *branch, i int) error {
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	m, err := r.drive(b, parent.far.root, &Message{Kind: messageBranch, Numbers: []int64{parent.far.ID, int64(i)}, Parts: [][]byte{[]byte(b.path)}})
	if err != nil {
		return err
	}
	err = b.received(m.Part(0))
	parent.far.failed[i] = err != nil
	return err
}

// appendState appends the counts that the worker needs to continue.
func (r *Run) appendState(b *branch, m *Message) {
	s := r.budget.State()
	stack, deepest := b.meter.Weighed()
	m.Numbers = append(m.Numbers, s.Steps, s.Memory, s.Granted.Steps, s.Granted.Memory, s.Stack, s.Paid, stack, int64(deepest))
}

// took checks and stores the counts that the worker sent with its turn.
func (r *Run) took(b *branch, m *Message) error {
	s := r.budget.State()
	steps, memory, stack, paid := m.Number(0), m.Number(1), m.Number(2), m.Number(3)
	depth, weight, most, deepest := m.Number(4), m.Number(5), m.Number(6), m.Number(7)
	switch {
	case len(m.Numbers) < Sent:
		return wrong("counts are missing")
	case memory < s.Memory || paid < s.Paid:
		return wrong("counts of memory that decrease")
	case steps < math.MinInt32 || steps > s.Granted.Steps+meter.MostUnseen || memory > s.Granted.Memory:
		return wrong("counts of more than it was granted")
	case min(depth, stack, paid, weight, most, deepest) < 0 || max(depth, deepest) > math.MaxInt32 || max(stack, paid, weight, most) > math.MaxInt64/4 || most > stack:
		return wrong("invalid counts of the stack")
	}
	s.Steps, s.Memory, s.Stack, s.Paid = steps, memory, stack, paid
	r.budget.SetState(s)
	b.meter.SetFar(int(depth), weight)
	b.meter.SetWeighed(most, int(deepest))
	return nil
}

// drive sends m and performs what the worker asks for b, until the branch has ended; it returns the last message. root is
// the first branch of the run; 0: b is that.
func (r *Run) drive(b *branch, root int64, m *Message) (*Message, error) {
	b.far = &farBranch{sessionBranch: r.session.Join(root), failed: map[int]bool{}}
	defer r.session.Leave(b.far.sessionBranch)
	r.appendState(b, m)
	for {
		asked, err := r.turn(b, m)
		if err != nil {
			return nil, err
		}
		if err := r.took(b, asked); err != nil {
			return nil, r.session.Refuse(err)
		}
		if asked.Kind == Ended {
			return asked, nil
		}
		if m, err = r.serve(b, asked); err != nil {
			return nil, r.session.Refuse(err)
		}
	}
}

// turn sends m to the worker and waits for its next message. When the context of b ends meanwhile, the worker is asked
// to stop, and is ended if it does not.
func (r *Run) turn(b *branch, m *Message) (*Message, error) {
	r.session.Granted(r.budget.State().Granted.Memory)
	if r.session.Away() {
		r.pool.Release(&r.seat)
		if err := r.session.Attach(b.ctx, &r.seat); err != nil {
			return nil, b.orEnded(err)
		}
		b.compute() // another branch may have attached it
	}
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

// sendFar sends a message to the worker. The error is that of b's context if it has ended.
func (b *branch) sendFar(m *Message) error {
	return b.orEnded(b.far.Send(b.ctx, m))
}

// orEnded returns the error of b's context if that has ended, and err otherwise; nil for nil.
func (b *branch) orEnded(err error) error {
	if err != nil && b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	return err
}

// receiveFar waits for the next message of the worker. pause is called at intervals to offer the slot to other runs;
// nil for never.
func (b *branch) receiveFar(pause func()) (*Message, error) {
	m, err := b.far.Receive(b.ctx, pause)
	return m, b.orEnded(err)
}

// serve does what a branch asks for in its turn, and returns the answer.
func (r *Run) serve(b *branch, m *Message) (*Message, error) {
	codec := r.session.isolation
	arg := func(i int) int64 { return m.Number(Sent + i) }
	switch m.Kind {
	case Grant:
		need, want := meter.Amount{Steps: arg(0), Memory: arg(1)}, meter.Amount{Steps: arg(2), Memory: arg(3)}
		if min(need.Steps, need.Memory, want.Steps, want.Memory) < 0 {
			return nil, wrong("a request for a negative grant")
		}
		got, err := account{r}.Grant(need, want)
		s := r.budget.State()
		s.Granted.Steps += got.Steps
		s.Granted.Memory += got.Memory
		r.budget.SetState(s)
		r.pool.Share(b.ctx, &r.seat)
		return &Message{Kind: granted, Numbers: []int64{got.Steps, got.Memory}, Parts: [][]byte{codec.EncodeError(err)}}, nil
	case left:
		left := account{r}.Left()
		return &Message{Kind: granted, Numbers: []int64{left.Steps, left.Memory}}, nil
	case Logged:
		n := arg(0)
		if n < 0 || n > math.MaxInt32 {
			return nil, wrong("a log line of %d bytes", n)
		}
		err := r.ChargeLog(int(n))
		if err == nil {
			b.far.logged += n
		}
		return &Message{Kind: reply, Parts: [][]byte{codec.EncodeError(err)}}, nil
	case Printed:
		return &Message{Kind: reply, Parts: [][]byte{codec.EncodeError(r.farPrinted(m, arg(0)))}}, nil
	case Host:
		return r.ask(b.ctx, b, m, Sent, nil, "")
	case Parallel:
		b.catch = int(arg(2))
		return r.farParallel(b, arg(0), arg(1), string(m.Part(0)))
	case Do:
		return r.farDo(b, m)
	}
	return nil, wrong("an unexpected kind %d", m.Kind)
}

// farPrinted implements print() for a worker: n is the length of the text, which is not sent when it is longer than
// limits.logBytes.
func (r *Run) farPrinted(m *Message, n int64) error {
	pos, text := m.Part(0), m.Part(1)
	if len(pos) > mostText || n < int64(len(text)) || n > math.MaxInt32 {
		return r.session.Refuse(wrong("an invalid line of print()"))
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
func (r *Run) farParallel(b *branch, n, width int64, pos string) (*Message, error) {
	if n < 0 || n > math.MaxInt32 || width < 1 {
		return nil, wrong("a parallel() of %d branches", n)
	}
	clear(b.far.failed)
	b.far.pos = Clip(pos)
	_, err := r.Parallel(b.thread, int(n), int(min(width, math.MaxInt32)), func(t *starlark.Thread, i int) (starlark.Value, error) {
		return starlark.None, r.farBranch(branchOf(t), b, i)
	})
	if s, ok := suspended(err); ok {
		b.far.suspended = s
	}
	answer := &Message{Kind: Done, Numbers: []int64{0, int64(b.unsure)}}
	if one, ok := err.(*branchError); ok && b.far.failed[one.index] {
		answer.Numbers[0] = int64(one.index) + 1
	} else {
		answer.Parts = [][]byte{r.session.isolation.EncodeError(err)}
	}
	b.far.pos = ""
	r.appendState(b, answer)
	return answer, nil
}

// farDo performs an effect for the worker.
func (r *Run) farDo(b *branch, m *Message) (*Message, error) {
	e := Effect{Kind: string(m.Part(0)), Name: string(m.Part(1)), Args: m.Part(2)}
	flags := m.Number(Sent + 1)
	e.Instant, e.Free, e.Repeatable, e.Sleep, e.Tells = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 != 0
	e.Adaptable = flags&64 != 0
	e.Lasts = time.Duration(m.Number(Sent + 2))
	if err := r.session.isolation.Check(e); err != nil {
		return nil, wrong("%v", err)
	}
	switch n := m.Number(Sent); {
	case n > int64(r.limits.Output): // too long in any case, so the worker did not send it
		e.Args = make([]byte, r.limits.Output+1)
	case e.Args != nil && !goodJSON(e.Args):
		return nil, wrong("arguments that are not JSON")
	}
	far, key := b.far, b.key()
	far.pos = Clip(string(m.Part(3)))
	far.answer, far.performed, far.result = nil, nil, nil
	b.catch = int(flags >> 5 & 1)
	res, err := r.Do(b.thread, e, func(ctx context.Context) (json.RawMessage, error) {
		if b.args != nil {
			e.Args = b.args
		}
		far.result, far.performed = r.farPerform(ctx, b, e, key)
		return far.result, far.performed
	})
	answer := &Message{Kind: Done, Numbers: []int64{0, int64(b.unsure)}, Parts: [][]byte{nil, nil}}
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
	own := answer.Numbers[0] != 0
	r.appendState(b, answer)
	if own { // a further worker has not performed it
		again := *answer
		again.Numbers = slices.Clone(answer.Numbers)
		again.Numbers[0] = 0
		again.Parts = [][]byte{res, r.session.isolation.EncodeError(err)}
		answer.again = &again
	}
	far.answer, far.performed, far.result, far.pos = nil, nil, nil, ""
	return answer, nil
}

// Instead of a result or error that the worker itself produced, an answer has one of these.
const (
	ownResult = 1
	ownError  = 2
)

// same reports whether a and b are the same bytes in memory.
func same(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

// farPerform lets the worker perform an effect, and does the host's part of it. The worker gets the time that the
// effect may last, and a Cancel message when the context of the branch ends.
func (r *Run) farPerform(ctx context.Context, b *branch, e Effect, key string) (json.RawMessage, error) {
	asked, apart := false, false
	lasts := int64(0)
	if e.Lasts > 0 {
		lasts = within(ctx)
	}
	answer := &Message{Kind: messagePerform, Numbers: []int64{lasts, r.clock.Now().UnixNano(), 0}}
	for {
		if err := b.sendFar(answer); err != nil {
			return nil, err
		}
		m, err := b.receiveFar(nil)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Kind == Performed:
			res, err := r.farOutcome(b, e, m, apart)
			return res, err
		case m.Kind == Host && !asked:
			asked = true
			if answer, err = r.ask(ctx, b, m, 0, &e, key); err != nil {
				return nil, r.session.Refuse(err)
			}
		case m.Kind == messageApart && !apart && e.Kind == "call":
			apart = true
			answer = r.farApart(ctx, m)
		default:
			return nil, r.session.Refuse(wrong("an unexpected kind %d in an effect", m.Kind))
		}
	}
}

// farOutcome returns the outcome of an effect that the worker performed. The result of a call must be what the tool
// returned, unless a function of the script has processed it.
func (r *Run) farOutcome(b *branch, e Effect, m *Message, apart bool) (json.RawMessage, error) {
	if err := b.received(m.Part(1)); err != nil {
		return nil, err
	}
	res := json.RawMessage(m.Part(0))
	switch {
	case m.Number(0) == 1 && b.far.answer != nil:
		return b.far.answer, nil
	case e.Kind == "call" && !apart:
		return nil, r.session.Refuse(wrong("a result that the tool did not return"))
	case res != nil && !goodJSON(res):
		return nil, r.session.Refuse(wrong("a result that is not JSON"))
	}
	return res, nil
}

// farApart calls a function of the script in a separate run.
func (r *Run) farApart(ctx context.Context, m *Message) *Message {
	res, err := r.callAlone(ctx, string(m.Part(0)), m.Part(1))
	return &Message{Kind: reply, Parts: [][]byte{r.session.isolation.EncodeError(err), res}}
}

// ask passes a request of the worker to the host. e is the effect in progress, or nil. Number skip of the message,
// after the counts, is the time until its deadline in nanoseconds, 0 for none.
func (r *Run) ask(ctx context.Context, b *branch, m *Message, skip int, e *Effect, key string) (*Message, error) {
	if len(m.Parts) == 0 || r.host == nil {
		return nil, wrong("a call of the host without a method, or in a run without a host")
	}
	if within := m.Number(skip); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(within))
		defer cancel()
	}
	if e != nil {
		limit := max(r.limits.CallTimeout.Std(), e.Lasts) + stopWithin
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
	return &Message{Kind: reply, Numbers: []int64{late}, Parts: append([][]byte{r.session.isolation.EncodeError(err)}, parts...)}, nil
}

func numberOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
