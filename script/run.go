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

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// RunOptions are the inputs of one run. Usually only Args is needed; zero fields of Limits have the program's values.
type RunOptions struct {
	// Args is the JSON value that is passed to the entry function; empty means {}.
	Args json.RawMessage
	// Entry is a function to call instead of the program's entry function; it is called without arguments.
	Entry string
	// entry is a function to call, with Args, instead of the program's entry function (CallAlone).
	entry string
	// Host is what the builtins use to reach backends and clients; package builtins defines its type.
	Host any
	// Journal makes the run resumable; nil: it is not recorded.
	Journal Journal
	// ID identifies the run to backends and operators; "" for none. A run that is started inside an effect of another
	// run has the ID of its caller. The ID and the key of an effect make its idempotency key.
	ID string
	// Repeat reports whether an effect may be performed a second time. It is called when the effect is first
	// attempted; the answer is recorded with the effect and not asked for again, see Undecided. nil: no effect may be
	// repeated.
	Repeat func(Effect) Repeat
	// FailInDoubt makes a run fail with *Interrupted where it would otherwise be suspended with Doubts.
	FailInDoubt bool
	// Hold is the longest sleep that is waited for in this process from now on; a longer one suspends the run. nil: any
	// length. Without a Journal it has no effect.
	Hold func() time.Duration
	// Pause, when closed, suspends the run: effects in progress end and are recorded, no other begins. nil: never.
	// Without a Journal it has no effect.
	Pause <-chan struct{}
	// Drain, when closed, suspends the run at its next sleep, or in the present one. nil: never. Without a Journal it
	// has no effect.
	Drain <-chan struct{}
	// Accept checks the result before the run succeeds; its error fails the run. nil accepts any result.
	Accept func(*Result) error
	// Clock is the clock that scripts and the journal see; nil: that of the machine. limits.time and the timeouts of
	// calls are measured in real time, whatever the clock.
	Clock Clock
	// Whole makes limits.time bound the time from the beginning of the run to its end, waits included, instead of the
	// time that the run is awake.
	Whole bool
	// Limits override the program's limits, field by field.
	Limits Limits
	// Trace is called with every effect after it has ended. Calls do not overlap.
	Trace func(Event)
	// Places asks for the Pos of events.
	Places bool
	// Around is called instead of every effect that the journal does not answer; it may call perform, which performs
	// the effect. Effects that are not instant may overlap. nil: effects are performed directly.
	Around func(ctx context.Context, a Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// Adapt returns the arguments with which an Adaptable effect is performed and recorded, nil for those that it has, and
	// what the trace says of the change. It is called once for each effect that the journal does not have, while no
	// other branch computes. May be nil.
	Adapt func(ctx context.Context, e Effect) (args json.RawMessage, note string)
	// Idle is called when no branch can compute until an effect ends, with the number of effects in progress. It must
	// not block, nor call methods of the run. May be nil.
	Idle func(flying int)
	// Print receives the lines of print(). nil discards them.
	Print func(pos, text string)
	// Pool has the memory and slots that the run shares with others; nil: no bounds. A run that is started inside an
	// effect of another run uses the pool of that run.
	Pool *Pool
	// Stats is filled in with what the run has used, however it ends. May be nil.
	Stats *Stats
	// Isolation executes the script in a worker process; nil: in this process.
	Isolation Isolation
	// session is the worker of the run that calls this one, which this run shares.
	session *workerSession
}

// A Clock returns the present time, and waits.
type Clock interface {
	Now() time.Time
	// Wait returns nil at t or later, and the cause of ctx when ctx ends first.
	Wait(ctx context.Context, t time.Time) error
}

// Repeat says whether an effect may be performed twice.
type Repeat int

const (
	// Once: performing it a second time would be another effect. It is attempted once.
	Once Repeat = iota
	// Idempotent: performing it a second time with the same idempotency key changes nothing.
	Idempotent
	// ReadOnly: it changes nothing outside of this journal. Its beginning is not recorded.
	ReadOnly
	// Undecided: it is not known yet, since the peer is still connecting. The effect must call Decide before it sends
	// its request; until then its beginning is not recorded.
	Undecided
)

// allowed reports whether an effect may be performed twice.
func (r Repeat) allowed() bool { return r == Idempotent || r == ReadOnly }

// Event is one effect of a run, as reported to RunOptions.Trace.
type Event struct {
	Key      string // position in the run, as in the journal
	Kind     string // "call", "elicit", ...
	Name     string // of the tool
	Start    time.Time
	Duration time.Duration
	Replayed bool // answered by the journal
	Bytes    int  // size of the result
	Err      error
	Note     string // what RunOptions.Adapt has changed; "" for nothing

	// Args and Result are those of Effect and Entry; they must not be changed.
	Args, Result json.RawMessage
	// Pos is the innermost position in a script that the effect was called from. It is set with RunOptions.Places
	// only, and never for isolated runs.
	Pos syntax.Position
}

// Attempt is an effect that is about to be performed.
type Attempt struct {
	Effect
	Key string          // position, as in the journal
	Pos syntax.Position // as in Event, always set
}

// Result is what a run returned.
type Result struct {
	// Structured is the returned value as JSON, null included; nil when the script returned content only.
	Structured json.RawMessage
	// Content is a JSON array of MCP content blocks that the script built; nil for none.
	Content json.RawMessage
	// IsError reports whether the script marked its result as an error.
	IsError bool
	// Stats is what the run used.
	Stats Stats
}

// Stats is what a run used.
type Stats struct {
	Steps    uint64
	Memory   int64
	Calls    int // effects that count as calls, replayed ones included
	Replayed int // effects that the journal answered
	Branches int
	Duration time.Duration
}

// Run is one execution of a program. Builtins get theirs with RunOf.
type Run struct {
	program     *Program
	limits      Limits
	host        any
	print       func(pos, text string)
	trace       func(Event)
	repeat      func(Effect) Repeat // RunOptions.Repeat; may be nil
	places      bool
	bare        bool                                                                                                    // its function takes no arguments
	around      func(context.Context, Attempt, func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) // may be nil
	adapt       func(context.Context, Effect) (json.RawMessage, string)                                                 // may be nil
	idle        func(flying int)                                                                                        // may be nil
	id          string
	above       *watch // of the run that called this one; nil for none
	path        string // of its main branch: "", or "3/" for the run that the effect at 3 called
	clock       Clock
	hold        func() time.Duration
	pause       <-chan struct{} // may be nil
	drain       <-chan struct{} // may be nil
	log         *log            // nil: nothing is recorded
	unsure      bool            // set when the run has ended: see Entry.Unsure
	interrupted atomic.Bool     // an effect that may not be repeated was in progress when its branch was cancelled
	ledger      *ledger
	budget      *meter.Budget
	turns       turns
	wg          sync.WaitGroup // branches
	started     time.Time      // in this process
	began       time.Time      // first start, by the run's clock

	// The branch that has the turn owns these (see turns.go).
	known   map[string]*Entry // entries of the journal, by key
	loaded  map[string]starlark.StringDict
	loading *unit // the file whose top level is being executed
	stats   Stats
	memos   map[any]any
	groups  []*group // calls of parallel() that have not ended, oldest first
	free    int      // unused places, see share
	effects int64    // number performed so far

	inner atomic.Int64 // effects of the runs that it called

	session *workerSession // of an isolated run; nil: it is computed in this process
	worker  *worker        // set in a worker process; nil elsewhere

	pool *Pool
	seat Seat
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

// ID returns RunOptions.ID of the outermost run, or "".
func (r *Run) ID() string { return r.id }

// Began returns when the run first started, before any resumption.
func (r *Run) Began() time.Time { return r.began }

// Host returns the host that the run was started with.
func (r *Run) Host() any { return r.host }

// Limits returns the limits that hold for the run.
func (r *Run) Limits() Limits { return r.limits }

// Thread returns the thread of the branch that has the turn. It is for values that pass between branches and have no
// thread, such as iterators. Only builtins may call it.
func (r *Run) Thread() *starlark.Thread { return r.turns.now.thread }

// maxMemos bounds the values that Memo keeps for a run.
const maxMemos = 64

// Memo returns the value that is kept under key, or else the result of make, which is kept while fewer than maxMemos
// are. make has to charge for what it allocates.
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

// Charge takes n bytes from the run's memory budget. A builtin charges for a value before it hands it to the script.
func (r *Run) Charge(n int64) error { return r.budget.Charge(n) }

// Run calls the entry function with o.Args and returns its result. When ctx belongs to an effect of another run, that
// run pays: this one has the smaller of its own limits and of what the caller has left.
//
// The error is a *Suspended when the run waits for an answer, a *JournalError when the journal cannot be opened or
// written, and otherwise an *Error with the position in the script. A panic becomes an error, and all goroutines of
// the run have ended on return.
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

// measure ends the run with limits.time, until stop is called. With whole, the time is counted from r.began.
func (r *Run) measure(ctx context.Context, end context.CancelCauseFunc, whole bool) (_ context.Context, stop func()) {
	limit, over, cancel := r.limits.Time.Std(), reached("time", r.limits.Time), func() {}
	if whole {
		ctx, cancel = context.WithTimeoutCause(ctx, limit-r.clock.Now().Sub(r.began), over)
		limit = math.MaxInt64
	}
	r.turns.watch = newClock(r.above, limit, r.awakeBefore(), func() { end(over) })
	r.turns.measureAwake()
	return ctx, func() { r.turns.watch.End(); cancel() }
}

// awakeBefore returns how long the run was awake before it was resumed. For a called run that is taken from its
// entries.
func (r *Run) awakeBefore() time.Duration {
	if r.log != nil && r.above == nil {
		return r.log.Awake
	}
	if keys := r.turns.replay; len(keys) > 0 {
		return r.known[keys[len(keys)-1]].Awake - r.known[keys[0]].Awake
	}
	return 0
}

// Resting marks the effect that ctx belongs to as waiting for a person until done is called: meanwhile its run is not
// awake.
func Resting(ctx context.Context) (done func()) {
	b := callerOf(ctx)
	if b == nil {
		return func() {}
	}
	b.run.turns.watch.Rest(1)
	return func() { b.run.turns.watch.Rest(-1) }
}

// newRun makes a run; caller, if not nil, is the branch whose run pays for it.
func newRun(p *Program, o RunOptions, l Limits, caller *branch) *Run {
	var above *ledger
	if caller != nil {
		above = caller.run.ledger
	}
	r := &Run{
		program: p, limits: l, host: o.Host, print: o.Print, trace: o.Trace, repeat: o.Repeat,
		places: o.Places, around: o.Around, adapt: o.Adapt, idle: o.Idle, bare: o.Entry != "",
		ledger: newLedger(above, l), started: time.Now(),
	}
	r.budget = meter.New(meter.Options{
		Ledger: account{r}, CallDepth: l.CallDepth, Frames: p.compiled.Frames, Check: r.check, Final: Final, Cover: p.compiled.Cover,
	})
	r.id, r.clock, r.hold, r.pause, r.drain = o.ID, o.Clock, o.Hold, o.Pause, o.Drain
	if r.clock == nil {
		r.clock = machine{}
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

// execute computes the run and waits until all its branches have ended.
func (r *Run) execute(ctx context.Context, o RunOptions) (*Result, error) {
	r.free = r.limits.Parallel - 1
	b := r.newBranch(ctx, r.path, nil)
	r.turns.now = b
	r.pool.Activate(&r.seat)
	b.compute()
	res, err := r.main(b, cmp.Or(o.Entry, o.entry, r.program.entry), o.Args)
	b.meter.CountSteps()
	r.wg.Wait()
	r.unsure = b.unsure > 0 || b.ctx.Err() != nil && r.interrupted.Load()
	stats := r.Stats()
	if o.Stats != nil {
		*o.Stats = stats
	}
	if err == nil && o.Accept != nil {
		err = o.Accept(res)
	}
	if s, ok := suspended(err); ok && len(s.Doubts) > 0 && callerOf(ctx) == nil && (o.FailInDoubt || r.log == nil) {
		err = interrupted(err, s.Doubts)
	}
	if err != nil {
		return nil, r.describe(err)
	}
	res.Stats = stats
	return res, nil
}

// close returns what was reserved and not used, and adds what was used to the effect of caller, if any.
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

// describe returns the error that Program.Run returns for err: a *Suspended, or an *Error.
func (r *Run) describe(err error) error {
	if s, ok := suspended(err); ok {
		return s
	}
	return runError(err)
}

// open opens the journal, or takes that of the caller, and indexes the entries that belong to this run.
func (r *Run) open(ctx context.Context, o RunOptions, caller *branch) (err error) {
	switch {
	case o.Journal != nil:
		h := Header{Program: r.program.Hash(), Args: digest(o.Args), Engine: Engine, Limits: r.limits}
		if r.log, err = openLog(ctx, o.Journal, h); err != nil {
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

// main executes the top level of the main file and calls the entry function.
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
	params, err := meter.Decode(r.budget, args, r.limits.Depth)
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

// init executes the top level of a file, the only place where load statements are.
func (r *Run) init(b *branch, f *unit) (globals starlark.StringDict, err error) {
	from := r.loading
	r.loading = f
	defer func() { r.loading = from }()
	globals, err = f.Code.Init(b.thread, r.program.compiled.Names)
	return globals, b.took(err)
}

// recovered, deferred, turns a panic into a *Crash.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &Crash{Value: v, Stack: debug.Stack()}
	}
}

// newBranch makes a branch and its thread. g is nil for the main branch.
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

// bareBranch makes a branch that is not attached to the budget yet.
func (r *Run) bareBranch(ctx context.Context, path string) *branch {
	b := &branch{run: r, path: path, wake: make(chan struct{}, 1)}
	b.ctx = context.WithValue(ctx, branchContext{}, b)
	b.thread = &starlark.Thread{Name: path, Load: r.load, Print: r.printed}
	b.thread.SetLocal(branchKey, b)
	return b
}

// load implements the load statement: a file is executed once per run.
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

// printed implements print().
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

// lineWeight is what a line of a log is charged besides its text, for what the client, the log and the trace wrap
// around it.
const lineWeight = 200

// ChargeLog takes a line of n bytes from what the run may still write to logs (limits.logBytes).
func (r *Run) ChargeLog(n int) error {
	if r.worker != nil {
		return r.nearChargeLog(n)
	}
	return r.ledger.Reserve(Usage{LogBytes: int64(n) + lineWeight})
}

// Call calls a function of the script. Builtins use it instead of starlark.Call when they inspect the error: the
// interpreter hides the reason for which it was stopped.
func (r *Run) Call(t *starlark.Thread, fn starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Call(t, fn, args, kwargs)
	return v, branchOf(t).took(err)
}

// Stop makes the interpreter of t end with err at its next step. It is for builtins that have no error to return, such
// as iterators.
func (r *Run) Stop(t *starlark.Thread, err error) { branchOf(t).meter.Stop(err) }

// Stopped returns the error of Stop, until the interpreter has ended with it. A builtin that has exhausted an iterator
// calls it to distinguish the end of the sequence from an error.
func (r *Run) Stopped(t *starlark.Thread) error { return branchOf(t).meter.Stopped() }

// took replaces the error of a stopped interpreter by the reason for which it was stopped.
func (b *branch) took(err error) error {
	if err == nil {
		return nil
	}
	cause := b.meter.Resume()
	if cause == nil {
		return err
	}
	eval, _ := err.(*starlark.EvalError)
	return &meter.Stopped{Eval: eval, Cause: cause}
}

// check is called at intervals while a branch computes. It returns the reason why the branch must end, or nil, and may
// wait to share the slot with other runs.
func (r *Run) check() error {
	b := r.turns.now
	if b.ctx.Err() != nil {
		return ended(b.ctx)
	}
	r.pool.Share(b.ctx, &r.seat)
	return nil
}

// reserve takes the usage that is recorded for runs which an earlier part of this run called.
func (r *Run) reserve(u Usage) error {
	if err := r.ledger.Reserve(u); err != nil || u.Memory == 0 {
		return err
	}
	return r.grow()
}
