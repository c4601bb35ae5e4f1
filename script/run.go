package script

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/clock"
	"github.com/vmcp-dev/vmcp/script/internal/compile"
	"github.com/vmcp-dev/vmcp/script/internal/ending"
	"github.com/vmcp-dev/vmcp/script/internal/ledger"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/pool"
	"github.com/vmcp-dev/vmcp/script/internal/value"
	"github.com/vmcp-dev/vmcp/script/journal"
	"github.com/vmcp-dev/vmcp/script/source"
)

// RunOptions say what one run works with. Only Args is usually needed; a zero
// Limits has the program's.
type RunOptions struct {
	// Args is the JSON value that run(params), or the function in its place, gets; nothing is {}.
	Args json.RawMessage
	// Entry is a function to run instead of that of the program, without arguments.
	Entry string
	// entry is the function to run instead of that of the program.
	entry string
	// Host is what the builtins reach the world through; package builtins knows its type.
	Host any
	// Journal makes the run resumable; nil does without.
	Journal Journal
	// ID identifies the run for those outside of it; "" for one that has no identity. A run that is started
	// inside of an effect has that of its caller. With the key of an effect it makes the idempotency key.
	ID string
	// Repeat says what is known of doing an effect once more, when it is first attempted; the answer is stored
	// with the effect and not asked for again. nil: nothing is known, so none may be repeated.
	Repeat func(Effect) Repeat
	// FailInDoubt makes a run fail, with *Interrupted, that would wait for somebody to resolve a doubt.
	FailInDoubt bool
	// Hold is how long a sleep may keep the run here; a longer one suspends it. 0: any. Only a run with a journal
	// is suspended.
	Hold time.Duration
	// Pause stops the run when it is closed, in the way of a suspension: effects under way end and are recorded, and
	// nothing else begins. nil: it does not. Only a run with a journal is stopped so.
	Pause <-chan struct{}
	// Drain lets no sleep keep the run here any more when it is closed: one that is under way suspends the run.
	// nil: any may. Only a run with a journal is suspended.
	Drain <-chan struct{}
	// Accept looks at the result before the run is done; with its error the run fails. nil takes any.
	Accept func(*Result) error
	// Clock is the time that the run has; nil: that of the machine. What it measures is what scripts see and what is in
	// the journal: limits.time and the timeouts of calls are real time.
	Clock Clock
	// Whole has limits.time be the time from the beginning of the run to its end, whatever it waits for, and not the
	// time that it is awake.
	Whole bool
	// Limits override the program's, field by field.
	Limits Limits
	// Trace is called with every effect when it has ended. Calls do not overlap.
	Trace func(Event)
	// Places wants the Pos of events.
	Places bool
	// Around is called instead of every effect that the journal does not answer; perform performs
	// it, if it is called. Effects that are not instant may overlap. nil: all are performed.
	Around func(ctx context.Context, a Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// Idle is called when no branch can compute until an effect ends, with how many are under
	// way. It must neither wait nor call the run. May be nil.
	Idle func(flying int)
	// Print gets what print() writes. Nil drops it.
	Print func(pos, text string)
	// Pool is what the run shares with others; nil sets no bounds. A run that is started
	// inside of an effect of another one has that one's.
	Pool *Pool
	// Stats gets what the run has used, however it ends. May be nil.
	Stats *Stats
	// Isolation computes the run in a process of its own; nil: here.
	Isolation Isolation
	// session is the worker of the run that calls this one, where it runs too.
	session *workerSession
}

// A Clock says what time it is, and waits.
type Clock interface {
	Now() time.Time
	// Wait returns nil when it is t or later, and the cause of ctx when that ends before.
	Wait(ctx context.Context, t time.Time) error
}

// Repeat says whether an effect may be done twice.
type Repeat int

const (
	// Once: a second time is another effect. It is attempted once.
	Once Repeat = iota
	// Idempotent: a second time with the same idempotency key changes nothing.
	Idempotent
	// ReadOnly: it changes nothing, or what it does is in the same journal. That it was begun is not written.
	ReadOnly
)

// Event is one effect of a run, for whoever watches.
type Event struct {
	Key      string // position, as in the journal: what is inside of what
	Kind     string // "call", "elicit", ...
	Name     string // of the tool
	Start    time.Time
	Duration time.Duration
	Replayed bool // answered by the journal
	Bytes    int  // size of the result
	Err      error

	// Args and Result are as in Effect and Entry; they must not be changed.
	Args, Result json.RawMessage
	// Pos is the innermost place in a script that the effect comes from. It is only known with
	// RunOptions.Places, and not of isolated runs.
	Pos syntax.Position
}

// Attempt is an effect that is about to be performed.
type Attempt struct {
	Effect
	Key string          // position, as in the journal
	Pos syntax.Position // as in Event, always asked for
}

// Result is what a run returned.
type Result struct {
	// Structured is the returned value as JSON, null included; nil when the script
	// gave content only.
	Structured json.RawMessage
	// Content is a JSON array of MCP content blocks that the script made itself; nil otherwise.
	Content json.RawMessage
	// IsError says that the script itself declared its result an error.
	IsError bool
	// Stats says what the run used.
	Stats Stats
}

// Stats is what a run used.
type Stats struct {
	Steps    uint64
	Memory   int64
	Calls    int // effects that count as calls, answered by the journal or not
	Replayed int // of all effects, answered by the journal
	Branches int
	Duration time.Duration
}

// Run is one execution of a program. Builtins find theirs with RunOf.
type Run struct {
	program *Program
	limits  Limits
	host    any
	print   func(pos, text string)
	trace   func(Event)
	repeat  func(Effect) Repeat // RunOptions.Repeat; may be nil
	places  bool
	bare    bool                                                                                                    // its function takes no arguments
	around  func(context.Context, Attempt, func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) // may be nil
	idle    func(flying int)                                                                                        // may be nil
	id      string
	above   *clock.Watch // of the run that has called this one; nil for none
	path    string       // of its main branch: "", or "3/" for the run that the effect at 3 has called
	clock   Clock
	hold    time.Duration
	pause   <-chan struct{} // may be nil
	drain   <-chan struct{} // may be nil
	log     *journal.Log    // nil: what it does is written nowhere
	unsure  bool            // when it has ended: see Entry.Unsure
	ledger  *ledger.Ledger
	budget  *meter.Budget
	turns   turns
	wg      sync.WaitGroup // branches
	started time.Time      // here
	began   time.Time      // for the first time, by its clock

	// The branch that has the turn owns these.
	known   map[string]*Entry // of the journal, by key
	loaded  map[string]starlark.StringDict
	loading *compile.Unit // the file whose top level runs
	stats   Stats
	memos   map[any]any
	groups  []*group // parallel() that have not ended, oldest first
	free    int      // places that no branch has
	effects int64    // so far

	inner atomic.Int64 // effects of runs that it has called

	session *workerSession // computes the run; nil: it computes here
	worker  *worker        // the run is one of a worker; nil: it is not

	pool *Pool
	seat pool.Seat
}

const branchKey = "vmcp.branch"

func branchOf(t *starlark.Thread) *branch {
	b, _ := t.Local(branchKey).(*branch)
	return b
}

// RunOf returns the run that t belongs to.
func RunOf(t *starlark.Thread) *Run {
	b := branchOf(t)
	if b == nil {
		panic("script: a builtin was called outside of a run")
	}
	return b.run
}

// ID returns what identifies the run outside, or "": RunOptions.ID of the run that has no caller.
func (r *Run) ID() string { return r.id }

// Began is when the run began, however often it has been resumed since.
func (r *Run) Began() time.Time { return r.began }

// Host returns the host that the run was started with.
func (r *Run) Host() any { return r.host }

// Limits returns the limits that hold for the run.
func (r *Run) Limits() Limits { return r.limits }

// Thread returns the thread that computes at the moment: for values that are handed
// from branch to branch and have no thread of their own, such as iterators. Only
// builtins may ask.
func (r *Run) Thread() *starlark.Thread { return r.turns.now.thread }

// maxMemos bounds what a run keeps for its builtins.
const maxMemos = 64

// Memo returns what the run keeps under key; if there is nothing, what make returns,
// which is kept while there is room. make charges for what it makes.
func (r *Run) Memo(key any, make func() (any, error)) (any, error) {
	if v, ok := r.memos[key]; ok {
		return v, nil
	}
	v, err := make()
	if err != nil || len(r.memos) >= maxMemos {
		return v, err
	}
	if r.memos == nil {
		r.memos = map[any]any{}
	}
	r.memos[key] = v
	return v, nil
}

// Context returns the context of the branch that t runs.
func (r *Run) Context(t *starlark.Thread) context.Context { return branchOf(t).ctx }

// Charge takes n bytes from the run's memory budget; what a builtin hands to a script,
// it charges first.
func (r *Run) Charge(n int64) error { return r.budget.Charge(n) }

// Run runs the program's run(params) and returns its result. When ctx is that of an effect
// of another run, that run pays: this one has the smaller of its own limits and of what
// the other has left.
//
// The error is a *Suspended when the run waits for an answer, that of the journal when
// it cannot be opened, and else an *Error with the place in the script. Nothing that a script does gets out of here: a panic comes
// back as an error, and no goroutine is left behind.
func (p *Program) Run(ctx context.Context, o RunOptions) (res *Result, err error) {
	limits, caller := o.Limits.Or(p.compiled.Limits), callerOf(ctx)
	if caller != nil {
		limits = caller.within(limits)
		caller.leave()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := newRun(p, o, limits, caller)
	defer r.close(caller)
	if caller == nil {
		r.request().Tenant = o.Pool.Join(end)
	}
	r.pool = r.request().Tenant.Pool()
	if err := r.open(ctx, o, caller); err != nil {
		return nil, err
	}
	ctx, stop := r.measure(ctx, end, o.Whole)
	defer stop()
	if o.Journal != nil {
		defer func() {
			if err = r.log.Close(err); err != nil {
				res = nil
			}
		}()
	}
	if o.Isolation != nil || o.session != nil {
		defer r.closeSession(o)
		if err := r.isolate(ctx, o, end); err != nil {
			return nil, r.describe(err)
		}
	}
	return r.execute(ctx, o)
}

// measure has limits.time end the run, until stop is called.
func (r *Run) measure(ctx context.Context, end context.CancelCauseFunc, whole bool) (_ context.Context, stop func()) {
	limit, over, cancel := r.limits.Time.Std(), reached("time", r.limits.Time), func() {}
	if whole {
		ctx, cancel = context.WithTimeoutCause(ctx, limit-r.clock.Now().Sub(r.began), over)
		limit = math.MaxInt64
	}
	r.turns.watch = clock.New(r.above, limit, r.awakeBefore(), func() { end(over) })
	r.turns.look()
	return ctx, func() { r.turns.watch.End(); cancel() }
}

// awakeBefore is how long the run was awake in earlier parts. Of a run that was called it is known from its first entry on.
func (r *Run) awakeBefore() time.Duration {
	if r.log != nil && r.above == nil {
		return r.log.Awake
	}
	if keys := r.turns.replay; len(keys) > 0 {
		return r.known[keys[len(keys)-1]].Awake - r.known[keys[0]].Awake
	}
	return 0
}

// Resting says that the effect that ctx belongs to waits for a person until done is called, so that its run is not awake for it.
func Resting(ctx context.Context) (done func()) {
	b := callerOf(ctx)
	if b == nil {
		return func() {}
	}
	b.run.turns.watch.Rest(1)
	return func() { b.run.turns.watch.Rest(-1) }
}

// newRun makes the run of a program; that of caller, if there is one, pays for it.
func newRun(p *Program, o RunOptions, l Limits, caller *branch) *Run {
	var above *ledger.Ledger
	if caller != nil {
		above = caller.run.ledger
	}
	r := &Run{
		program: p, limits: l, host: o.Host, print: o.Print, trace: o.Trace, repeat: o.Repeat,
		places: o.Places, around: o.Around, idle: o.Idle, bare: o.Entry != "",
		ledger: ledger.New(above, l), started: time.Now(),
	}
	r.budget = meter.New(meter.Options{
		Ledger: account{r}, CallDepth: l.CallDepth, Frames: p.compiled.Frames, Check: r.check, Final: Final, Cover: p.compiled.Cover,
	})
	r.id, r.clock, r.hold, r.pause, r.drain = o.ID, o.Clock, o.Hold, o.Pause, o.Drain
	if r.clock == nil {
		r.clock = clock.Machine{}
	}
	if caller != nil {
		above := caller.run
		r.above = above.turns.watch
		r.id, r.clock, r.hold, r.pause, r.drain = above.id, above.clock, above.hold, above.pause, above.drain
		r.path = caller.at + "/"
	}
	r.began = r.clock.Now()
	r.turns.run = r
	r.turns.busy = true
	return r
}

// execute computes the run, from its first branch to the end of all.
func (r *Run) execute(ctx context.Context, o RunOptions) (*Result, error) {
	r.free = r.limits.Parallel - 1
	b := r.newBranch(ctx, r.path, nil)
	r.turns.now = b
	r.pool.Activate(&r.seat)
	b.compute()
	res, err := r.main(b, cmp.Or(o.Entry, o.entry, r.program.entry), o.Args)
	b.meter.Settle()
	r.wg.Wait()
	r.unsure = b.unsure > 0
	stats := r.Stats()
	if o.Stats != nil {
		*o.Stats = stats
	}
	if err == nil && o.Accept != nil {
		err = o.Accept(res)
	}
	if s, ok := suspended(err); ok && len(s.Doubts) > 0 && callerOf(ctx) == nil && (o.FailInDoubt || r.log == nil) {
		err = &Interrupted{Doubts: s.Doubts}
	}
	if err != nil {
		return nil, r.describe(err)
	}
	res.Stats = stats
	return res, nil
}

// close gives back what was granted and not used, and tells the run that called this
// one what was.
func (r *Run) close(caller *branch) {
	r.pool.Rest(&r.seat)
	r.budget.Close()
	if caller == nil {
		r.request().Tenant.Leave()
		return
	}
	r.refund(caller)
	r.request().Note(&caller.effect, r.ledger.Total(Usage{}), r.unsure)
}

// describe makes the error that a caller of Run gets.
func (r *Run) describe(err error) error {
	if s, ok := suspended(err); ok {
		return s
	}
	return runError(err)
}

// open takes the journal, or that of the caller, and learns what is in it of this run.
func (r *Run) open(ctx context.Context, o RunOptions, caller *branch) (err error) {
	switch {
	case o.Journal != nil:
		h := Header{Program: r.program.Hash(), Args: source.Digest(o.Args), Engine: Engine, Limits: r.limits}
		if r.log, err = journal.OpenLog(ctx, o.Journal, h); err != nil {
			return err
		}
	case caller != nil && caller.run.log != nil:
		r.log = caller.run.log
	default:
		return nil
	}
	entries := r.log.Entries[r.path]
	r.known = make(map[string]*Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		r.known[e.Key] = e
		if !e.Began.IsZero() && e.Began.Before(r.began) {
			r.began = e.Began
		}
		r.request().Tenant.Touched()
		if e.Done && e.Switch {
			r.turns.replay = append(r.turns.replay, e.Key)
		}
	}
	r.turns.awaiting = map[string]*branch{}
	return nil
}

// main executes the file and then its run function, or another one.
func (r *Run) main(b *branch, entry string, args json.RawMessage) (res *Result, err error) {
	defer recovered(&err)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if r.session != nil {
		return r.farMain(b, entry, args)
	}
	if err := r.budget.Read(int64(len(args))); err != nil {
		return nil, err
	}
	params, err := value.Decode(r.budget, args, r.limits.Depth)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	globals, err := r.init(b, r.program.compiled.Main)
	if err != nil {
		return nil, err
	}
	run, ok := globals[entry]
	if !ok {
		return nil, &Error{Msg: "no function " + entry + "(params)", Pos: r.program.Entry()}
	}
	given := starlark.Tuple{params}
	if r.bare {
		given = nil
	}
	v, err := r.Call(b.thread, run, given, nil)
	if err != nil {
		return nil, err
	}
	return r.result(v)
}

// init executes the top level of a file. Only there are load statements.
func (r *Run) init(b *branch, f *compile.Unit) (globals starlark.StringDict, err error) {
	from := r.loading
	r.loading = f
	defer func() { r.loading = from }()
	globals, err = f.Code.Init(b.thread, r.program.compiled.Names)
	return globals, b.took(err)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &Crash{Value: v, Stack: debug.Stack()}
	}
}

// newBranch makes a branch with a thread of its own.
func (r *Run) newBranch(ctx context.Context, path string, g *group) *branch {
	b := r.bareBranch(ctx, path)
	b.group = g
	depth := 0
	if g != nil {
		b.catch, depth = g.parent.catch, g.parent.meter.Depth()
	}
	if r.session != nil {
		b.meter = r.budget.AttachFar(b.thread, depth)
	} else {
		b.meter = r.budget.Attach(b.thread, depth)
	}
	return b
}

// bareBranch makes a branch whose steps do not count yet.
func (r *Run) bareBranch(ctx context.Context, path string) *branch {
	b := &branch{run: r, path: path, wake: make(chan struct{}, 1)}
	b.ctx = context.WithValue(ctx, branchContext{}, b)
	b.thread = &starlark.Thread{Name: path, Load: r.load, Print: r.printed}
	b.thread.SetLocal(branchKey, b)
	return b
}

// load is what a load statement does: it executes the file once per run.
func (r *Run) load(t *starlark.Thread, name string) (starlark.StringDict, error) {
	b := branchOf(t)
	f := r.program.compiled.Files[r.loading.Loads[name]]
	if f == nil {
		return nil, fmt.Errorf("load %q: not part of the program", name)
	}
	if globals, ok := r.loaded[f.Name]; ok {
		return globals, nil
	}
	globals, err := r.init(b, f)
	if err != nil {
		return nil, err
	}
	globals = r.program.compiled.Exported(globals)
	if r.loaded == nil {
		r.loaded = map[string]starlark.StringDict{}
	}
	r.loaded[f.Name] = globals
	return globals, nil
}

// printed is what print() does.
func (r *Run) printed(t *starlark.Thread, msg string) {
	if r.worker != nil {
		if err := r.nearPrinted(branchOf(t), t.CallFrame(1).Pos.String(), msg); err != nil {
			branchOf(t).meter.Stop(err)
		}
		return
	}
	if err := r.ChargeLog(len(msg)); err != nil {
		branchOf(t).meter.Stop(err)
		return
	}
	if r.print != nil {
		r.print(t.CallFrame(1).Pos.String(), msg)
	}
}

// lineWeight is what a line of a log costs besides its text: the client, the log and the
// trace each wrap it.
const lineWeight = 200

// ChargeLog takes a line of n bytes from what the run may still write to logs.
func (r *Run) ChargeLog(n int) error {
	if r.worker != nil {
		return r.nearChargeLog(n)
	}
	return r.ledger.Take(Usage{LogBytes: int64(n) + lineWeight})
}

// Call calls a function of the script. Builtins use it instead of starlark.Call when
// they look at the error, for the interpreter hides the reason why it was stopped.
func (r *Run) Call(t *starlark.Thread, fn starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Call(t, fn, args, kwargs)
	return v, branchOf(t).took(err)
}

// Stop makes the interpreter of t end with err at its next step. It is for builtins
// that have no error to return, such as iterators.
func (r *Run) Stop(t *starlark.Thread, err error) { branchOf(t).meter.Stop(err) }

// Stopped returns the error of Stop, until the interpreter has ended with it. A builtin
// that has gone through an iterator asks before it takes the end for the end.
func (r *Run) Stopped(t *starlark.Thread) error { return branchOf(t).meter.Stopped() }

// took replaces the interpreter's word for "stopped" by the reason.
func (b *branch) took(err error) error {
	if err == nil {
		return nil
	}
	cause := b.meter.Resume()
	if cause == nil {
		return err
	}
	eval, _ := err.(*starlark.EvalError)
	return &ending.Stopped{Eval: eval, Cause: cause}
}

// check is called every now and then while a branch computes: it returns why the
// branch must end.
func (r *Run) check() error {
	b := r.turns.now
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	r.pool.Share(b.ctx, &r.seat)
	return nil
}

// take takes what runs have used that an earlier run over the same journal has started.
func (r *Run) take(u Usage) error {
	if err := r.ledger.Take(u); err != nil || u.Memory == 0 {
		return err
	}
	return r.grow()
}
