package script

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/message"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
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
type Channel interface {
	// Send writes one frame. It may be called by several goroutines.
	Send(parts ...[]byte) error
	// Receive returns the next frame, of at most so many bytes, or says why there will be
	// none. The frame belongs to the caller.
	Receive(most int64) ([]byte, error)
	// Close ends the worker and waits until it has ended.
	Close()
}

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
	// stopWithin is how long a worker may go on when its run is to end.
	stopWithin = time.Second
	// lookAfter is how long a branch computes without a sign before others get its slot.
	lookAfter = 50 * time.Millisecond
	// WorkerMemory is what a worker weighs in the pool besides what its run is charged.
	WorkerMemory = 24 << 20
	// mostText bounds the texts of a message that name something.
	mostText = 4 << 10
)

// session is one worker and the runs that it computes: an isolated run, and those of its
// functions that run apart.
type session struct {
	isolation Isolation
	channel   Channel
	end       context.CancelCauseFunc // ends the run
	granted   atomic.Int64            // bytes of memory, to all its runs
	answers   int64                   // what an answer may have: the worker hands parts of it to runs apart
	done      chan struct{}           // the reader has ended
	dead      chan struct{}           // closed when err is set

	mu       sync.Mutex
	last     int64                // number of a branch
	branches map[int64]*farBranch // that have not ended
	err      error
}

// farBranch is a branch that computes in a worker.
type farBranch struct {
	session   *session
	id        int64
	inbox     chan *message.Message
	told      bool         // that its context has ended
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
	s := &session{
		isolation: o.Isolation, channel: channel, end: end, answers: int64(r.limits.Result),
		done: make(chan struct{}), dead: make(chan struct{}), branches: map[int64]*farBranch{},
	}
	r.session = s
	r.request().Weigh(WorkerMemory)
	go s.read()
	context.AfterFunc(ctx, s.stopLate)
	program, err := json.Marshal(r.program.bundle())
	if err != nil {
		return err
	}
	return s.send(&message.Message{Kind: message.Program, Parts: [][]byte{program}})
}

// stopLate ends a worker that has not ended soon after its run was to.
func (s *session) stopLate() {
	select {
	case <-s.done:
	case <-time.After(stopWithin + stopWithin/2):
		s.fail(&WorkerError{Why: "it did not stop when its run was over"})
	}
}

// closeSession ends the worker, unless it is that of the run which called r.
func (r *Run) closeSession(o RunOptions) {
	if r.session == nil || o.session != nil {
		return
	}
	r.session.channel.Close()
	<-r.session.done
	r.request().Weigh(-WorkerMemory)
}

// fail ends the run: the worker is not what it should be.
func (s *session) fail(err error) {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
		close(s.dead)
	}
	s.mu.Unlock()
	if first {
		s.end(err)
		s.channel.Close()
	}
}

// wrong is the error of a worker that says what it may not.
func wrong(format string, args ...any) error {
	return &WorkerError{Why: fmt.Sprintf("it sent what does not belong here: "+format, args...)}
}

// read passes messages on to the branches that they are about.
func (s *session) read() {
	defer close(s.done)
	for {
		frame, err := s.channel.Receive(max(s.granted.Load(), s.answers) + 64<<10)
		if err != nil {
			s.fail(&WorkerError{Why: err.Error()})
			return
		}
		m, err := message.Decode(frame)
		if err != nil {
			s.fail(wrong("%v", err))
			return
		}
		if err := s.dispatch(m); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *session) dispatch(m *message.Message) error {
	s.mu.Lock()
	far := s.branches[m.Branch]
	s.mu.Unlock()
	if far == nil {
		return wrong("a message about a branch that there is not")
	}
	select {
	case far.inbox <- m:
		return nil
	default:
		return wrong("a message before the last one was answered")
	}
}

func (s *session) send(m *message.Message) error {
	if err := s.channel.Send(m.Encode()...); err == nil {
		return nil
	}
	select {
	case <-s.done: // the reader has found out why
	case <-time.After(stopWithin):
		s.fail(&WorkerError{Why: "it does not read what it is sent"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// join makes b one of the branches that compute in the worker.
func (s *session) join(b *branch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b.far = &farBranch{session: s, id: s.last, inbox: make(chan *message.Message, 1), failed: map[int]bool{}}
	s.branches[s.last] = b.far
}

func (s *session) leave(b *branch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.branches, b.far.id)
}

// received makes the error that the worker has sent for b.
func (b *branch) received(data []byte) error {
	return b.far.session.isolation.DecodeError(data, Known{Suspended: b.far.suspended, Cause: context.Cause(b.ctx)})
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
	res := &Result{Structured: m.Part(1), Content: m.Part(2), IsError: m.Number(sentNumbers) == 1}
	for _, part := range []json.RawMessage{res.Structured, res.Content} {
		if part != nil && (!goodJSON(part) || int64(len(part)) > int64(r.limits.Output)) {
			return nil, r.session.refuse(wrong("a result that cannot be one"))
		}
	}
	if res.Content != nil && bytes.TrimSpace(res.Content)[0] != '[' || res.Structured == nil && res.Content == nil {
		return nil, r.session.refuse(wrong("a result that cannot be one"))
	}
	return res, nil
}

// refuse ends the run, and returns why.
func (s *session) refuse(err error) error {
	s.fail(err)
	return err
}

func goodJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }

// farBranch runs branch i of the parallel() of parent.
func (r *Run) farBranch(b, parent *branch, i int) error {
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	m, err := r.drive(b, &message.Message{Kind: message.Branch, Numbers: []int64{parent.far.id, int64(i)}, Parts: [][]byte{[]byte(b.path)}})
	if err != nil {
		return err
	}
	err = b.received(m.Part(0))
	parent.far.failed[i] = err != nil
	return err
}

// Numbers at the end of messages to the worker that give it the turn, and at the
// beginning of those that it sends in its turn.
const (
	givenNumbers = 8
	sentNumbers  = 8
)

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
	case len(m.Numbers) < sentNumbers:
		return wrong("a message without its numbers")
	case memory < s.Memory || paid < s.Paid:
		return wrong("an account that shrinks")
	case steps < math.MinInt32 || steps > s.Granted.Steps+meter.MostUnseen || memory > s.Granted.Memory:
		return wrong("an account of more than it was granted")
	case min(depth, stack, paid, weight, most, deepest) < 0 || max(depth, deepest) > math.MaxInt32 || max(stack, paid, weight, most) > math.MaxInt64/4 || most > stack:
		return wrong("a stack that cannot be")
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
	r.session.join(b)
	defer r.session.leave(b)
	r.give(b, m)
	for {
		asked, err := r.turn(b, m)
		if err != nil {
			return nil, err
		}
		if err := r.took(b, asked); err != nil {
			return nil, r.session.refuse(err)
		}
		if asked.Kind == message.Ended {
			return asked, nil
		}
		if m, err = r.serve(b, asked); err != nil {
			return nil, r.session.refuse(err)
		}
	}
}

// turn sends m to the worker and waits for what it sends next. When the context of b ends
// meanwhile, the worker is told; one that does not stop is ended.
func (r *Run) turn(b *branch, m *message.Message) (*message.Message, error) {
	far := b.far
	r.session.granted.Store(max(r.session.granted.Load(), r.budget.State().Granted.Memory))
	if err := far.send(b.ctx, m); err != nil {
		return nil, err
	}
	asked, err := far.receive(b.ctx, r)
	if err == nil {
		b.compute()
	}
	return asked, err
}

// send sends m, behind the news that the context has ended if it has.
func (far *farBranch) send(ctx context.Context, m *message.Message) error {
	m.Branch = far.id
	var err error
	if ctx.Err() != nil && !far.told {
		err = far.tell(ctx)
	}
	if err == nil {
		err = far.session.send(m)
	}
	if err != nil && ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}

// tell tells the worker that the context of the branch has ended.
func (far *farBranch) tell(ctx context.Context) error {
	far.told = true
	return far.session.send(&message.Message{Kind: message.Cancel, Branch: far.id, Parts: [][]byte{far.session.isolation.EncodeError(context.Cause(ctx))}})
}

// receive waits for the next message of the worker. When the context ends meanwhile, the
// worker is told; one that does not go on then is ended. While a branch of r computes, which
// is when r is given, others get its slot after a while.
func (far *farBranch) receive(ctx context.Context, r *Run) (*message.Message, error) {
	var look, late <-chan time.Time
	if r != nil && r.pool != nil {
		ticker := time.NewTicker(lookAfter)
		defer ticker.Stop()
		look = ticker.C
	}
	over := ctx.Done()
	for {
		if far.told && late == nil {
			over, late = nil, time.After(stopWithin)
		}
		select {
		case m := <-far.inbox:
			return m, nil
		case <-far.session.dead:
			if ctx.Err() != nil {
				return nil, ended(ctx)
			}
			return nil, far.session.err
		case <-over:
			if err := far.tell(ctx); err != nil {
				return nil, ended(ctx)
			}
		case <-late:
			far.session.fail(&WorkerError{Why: "it did not stop when its run was over"})
			return nil, ended(ctx)
		case <-look:
			r.pool.Pause(&r.seat)
		}
	}
}

// serve does what a branch asks for in its turn, and returns the answer.
func (r *Run) serve(b *branch, m *message.Message) (*message.Message, error) {
	codec := r.session.isolation
	arg := func(i int) int64 { return m.Number(sentNumbers + i) }
	switch m.Kind {
	case message.Grant:
		need, want := meter.Amount{Steps: arg(0), Memory: arg(1)}, meter.Amount{Steps: arg(2), Memory: arg(3)}
		if min(need.Steps, need.Memory, want.Steps, want.Memory) < 0 {
			return nil, wrong("a grant of less than nothing")
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
			return nil, wrong("a line of %d bytes", n)
		}
		err := r.ChargeLog(int(n))
		if err == nil {
			b.far.logged += n
		}
		return &message.Message{Kind: message.Reply, Parts: [][]byte{codec.EncodeError(err)}}, nil
	case message.Printed:
		return &message.Message{Kind: message.Reply, Parts: [][]byte{codec.EncodeError(r.farPrinted(m, arg(0)))}}, nil
	case message.Host:
		return r.ask(b.ctx, b, m, sentNumbers, nil, "")
	case message.Parallel:
		b.catch = int(arg(2))
		return r.farParallel(b, arg(0), arg(1))
	case message.Do:
		return r.farDo(b, m)
	}
	return nil, wrong("a message of kind %d", m.Kind)
}

// farPrinted is what print() does: n is the length of a text, which is not sent when it is
// longer than any log.
func (r *Run) farPrinted(m *message.Message, n int64) error {
	pos, text := m.Part(0), m.Part(1)
	if len(pos) > mostText || n < int64(len(text)) || n > math.MaxInt32 {
		return r.session.refuse(wrong("a line that cannot be"))
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
		return nil, wrong("a parallel() of %d branches", n)
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
	flags := m.Number(sentNumbers + 1)
	e.Instant, e.Free, e.Repeatable, e.Sleep, e.Tells = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 != 0
	e.Lasts = time.Duration(m.Number(sentNumbers + 2))
	if err := r.session.isolation.Check(e); err != nil {
		return nil, wrong("%v", err)
	}
	switch n := m.Number(sentNumbers); {
	case n > int64(r.limits.Output): // it was not sent, for it is too long whatever it is
		e.Args = make([]byte, r.limits.Output+1)
	case e.Args != nil && !goodJSON(e.Args):
		return nil, wrong("arguments that are no JSON")
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
	far := b.far
	asked, apart := false, false
	lasts := int64(0)
	if e.Lasts > 0 {
		lasts = within(ctx)
	}
	answer := &message.Message{Kind: message.Perform, Numbers: []int64{lasts, r.clock.Now().UnixNano()}}
	for {
		if err := far.send(b.ctx, answer); err != nil {
			return nil, err
		}
		m, err := far.receive(b.ctx, nil)
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
				return nil, r.session.refuse(err)
			}
		case m.Kind == message.Apart && !apart && e.Kind == "call":
			apart = true
			answer = r.farApart(ctx, m)
		default:
			return nil, r.session.refuse(wrong("a message of kind %d in an effect", m.Kind))
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
		return nil, r.session.refuse(wrong("a result that the tool has not returned"))
	case res != nil && !goodJSON(res):
		return nil, r.session.refuse(wrong("a result that is no JSON"))
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
		return nil, wrong("a call of the host")
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
	return &message.Message{Kind: message.Reply, Numbers: []int64{late}, Parts: append([][]byte{r.session.isolation.EncodeError(err)}, parts...)}, nil
}

func numberOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
