// Package runs is how runs of scripted tools outlive a request and their process: what a run
// is to a store, what every store promises, and which state follows which.
//
// A run is begun once (Start, or Create with what it did before it was worth a row), taken by
// one owner at a time (Take), written to by this owner as a [script.Journal], and ended with an
// outcome. Between owners it waits: for an answer, for a time, for somebody to resolve what is
// in doubt. Whoever takes it has a new epoch, and the writes of all earlier owners are refused.
//
//	store := memory.New(runs.Options{}, nil)
//	run, _, err := store.Start(ctx, runs.Run{Tool: "onboard", Args: args})
//	lease, err := store.Take(ctx, run.ID, owner)
//	res, err := program.Run(ctx, script.RunOptions{Args: args, Journal: lease})
//	err = lease.End(ctx, runs.Outcome{State: runs.Done, Result: result})
//
// The stores are in rooms of their own: memory, and sqlstore for SQLite and PostgreSQL. All of
// them pass the test of runstest.
package runs

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script"
)

// A State is where a run stands, as everybody sees it.
type State string

const (
	Running   State = "running"   // has an owner, or had one whose lease is over
	Waiting   State = "waiting"   // for an answer
	Sleeping  State = "sleeping"  // until its wake time
	Paused    State = "paused"    // its client went away in the middle of a call
	Doubt     State = "doubt"     // the outcome of a call is not known; somebody has to resolve it
	Done      State = "done"      // with a result
	Failed    State = "failed"    // with an error, of the script or of what runs it
	Cancelled State = "cancelled" // by somebody
)

// States are all states, in the order in which a run may go through them.
var States = []State{Running, Waiting, Sleeping, Paused, Doubt, Done, Failed, Cancelled}

// Final reports whether a run in this state never goes on.
func (s State) Final() bool { return s == Done || s == Failed || s == Cancelled }

// Run is one run as its store has it.
type Run struct {
	// ID names the run: 26 characters. Start makes one where it is empty.
	ID string
	// Parent is the run that this one came of. Nothing sets it yet.
	Parent string
	// Tool is the name of the scripted tool, Principal who called it.
	Tool, Principal string
	// Dedupe is the idempotency key of the first request; "" for none. A principal's key
	// belongs to one run.
	Dedupe string
	// Trace is the trace of the first request.
	Trace string
	// Program is what the run runs, whatever is configured now.
	Program Program
	// Limits are the run's limits and settings as JSON. The store does not read them.
	Limits json.RawMessage
	// Args are the arguments as JSON, as the run was begun with.
	Args json.RawMessage
	// Header is what the journal was opened with first; nil before. The lease's Open sets it.
	Header *script.Header
	// Expires is when the run ends whatever it does; zero for never.
	Expires time.Time

	// What follows is the store's: Start does not read it.

	State State
	// Epoch counts the owners.
	Epoch int64
	// Owner has the lease, until Lease, on the store's clock; "" while nobody has.
	Owner string
	Lease time.Time
	// Wake is when the run is due again; zero while only somebody can make it go on.
	Wake             time.Time
	Created, Updated time.Time
	// Entries and Bytes are the size of the journal.
	Entries int
	Bytes   int64
	// Questions are all that were asked and not forgotten, those with answers too. One without is open: it is
	// forgotten when the effect that asked it has ended all the same.
	Questions []Question
	// Doubts are the keys of the calls whose outcome somebody has to resolve.
	Doubts []string
	// Result is the CallToolResult of a run that is done, or failed with one.
	Result json.RawMessage
	// Error says why a run failed or was cancelled, or what it waits for.
	Error string
	// Damaged says that the run failed because its journal cannot be trusted.
	Damaged bool
}

// Program is what a run was begun with.
type Program struct {
	// Main is the name of the file with run(), Files the texts of all files by name.
	Main  string
	Files map[string]string
	// Engine is the version of what the builtins mean.
	Engine int
	// Hash is what script.Header names the program by.
	Hash string
}

// Question is what a run has asked somebody.
type Question struct {
	// Key is its place in the run; Method and Params are those of the request to the client.
	Key, Method string
	Params      json.RawMessage
	// Deadline is until when an answer counts; zero for ever.
	Deadline time.Time
	// Answer is the first valid answer; nil while the question is open.
	Answer json.RawMessage
}

// Outcome is how a part of a run ended.
type Outcome struct {
	State State
	// Result and Error are those of the run, see Run.
	Result json.RawMessage
	Error  string
	// Questions are asked with the end of this part. Those that are known already keep their
	// deadline and their answer.
	Questions []Question
	// Doubts are the keys of calls whose outcome is not known.
	Doubts []string
	// Wake is when the run goes on by itself; zero for not.
	Wake time.Time
}

// Resolution is what somebody says of a call whose outcome was not known. One of the three is set.
type Resolution struct {
	// Done is what the script sees as the output of the call.
	Done json.RawMessage
	// Failed is the text of a failure of kind "tool".
	Failed string
	// Repeat makes the call once more.
	Repeat bool
}

// Filter says which runs are listed.
type Filter struct {
	States    []State // nil: all
	Tool      string
	Principal string
	SealedBy  string    // id of a key that something of the run is sealed by
	Since     time.Time // changed at or after
	Limit     int       // at most; 0: 100
	After     string    // cursor of an earlier list
}

// Summary is a run in a list: without its program, arguments and result.
type Summary struct {
	ID, Tool, Principal    string
	State                  State
	Created, Updated, Wake time.Time
	Questions, Doubts      int // open ones
	Entries                int
	Error                  string
}

// Old says which final runs are to be forgotten.
type Old struct {
	Before    time.Time // last changed before
	States    []State   // of these; nil: all final ones
	Principal *string   // of this one; nil: of all
}

// Stats is what metrics show of a store.
type Stats struct {
	States        map[State]int // every state is present
	OldestWaiting time.Time     // since when the run waits that has waited longest; zero for none
}

// Store keeps runs. All methods may be called at any time by several goroutines. What they
// return is the caller's; what they are given is not kept, except for JSON, which nobody changes.
//
// An error that is none of the Err… values means that the store did not answer, wrapped in
// ErrUnavailable, or that the call makes no sense.
type Store interface {
	// Start begins a run, durably. The run with the same principal and idempotency key, or with the
	// same id, is returned instead, and false; ErrOtherRequest if it has another tool or arguments.
	Start(ctx context.Context, r Run) (Run, bool, error)
	// Create starts a run and takes it, with the entries that it already has, in one
	// transaction. ErrExists where Start would have returned false.
	Create(ctx context.Context, r Run, owner string, entries []script.Entry) (Lease, error)
	// Take makes owner the run's owner and the run running. ErrUnknown, ErrEnded, ErrBusy while
	// another lease lasts, ErrDamaged (the run is failed by it), ErrSealed.
	Take(ctx context.Context, id, owner string) (Lease, error)
	// Due returns at most n runs that somebody should take: their time has come, the lease of
	// their owner is over, an answer has come, a doubt was resolved, or their life is over.
	Due(ctx context.Context, n int) ([]string, error)
	// Answer stores the answer to an open question: an ElicitResult that the caller has validated.
	// ErrUnknown, ErrEnded, ErrNoQuestion, ErrAnswered for any but the first, ErrLate.
	Answer(ctx context.Context, id, key string, answer json.RawMessage) error
	// Resolve says what became of a call in doubt. The run goes on when none is left.
	// ErrUnknown, ErrEnded, ErrNoDoubt, ErrDamaged.
	Resolve(ctx context.Context, id, key string, r Resolution) error
	// Cancel ends a run: its owner can begin nothing more. ErrUnknown, ErrEnded.
	Cancel(ctx context.Context, id, reason string) error
	// Resume makes a paused, sleeping or waiting run due. ErrUnknown, ErrEnded; ErrBusy while it runs.
	Resume(ctx context.Context, id string) error
	// List returns runs, the last changed first, and the cursor of the next page, "" at the end.
	List(ctx context.Context, f Filter) ([]Summary, string, error)
	// Get returns a run and its journal, verified. ErrUnknown, ErrDamaged, ErrSealed: with what could be read.
	Get(ctx context.Context, id string) (Run, []script.Entry, error)
	// Prune forgets final runs, with their idempotency keys, and returns how many.
	Prune(ctx context.Context, o Old) (int, error)
	// Uncounted returns at most n ends that no owner has brought about: Cancel, and journals that cannot be trusted. Each is
	// returned once, to one process, whenever it asks, also when the run is forgotten by then.
	Uncounted(ctx context.Context, n int) ([]Event, error)
	Outbox
	// Stats counts.
	Stats(ctx context.Context) (Stats, error)
	// Sealed counts the runs of which something is sealed by a key, by its id.
	Sealed(ctx context.Context) (map[string]int, error)
	// Changed returns a channel that is closed at the next change that may make a run due or may
	// answer, resolve, cancel or end one, by whatever process, at most a second later.
	Changed() <-chan struct{}
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
	// Close gives up all leases, so that others may go on with the runs, and closes the store.
	Close() error
}

// Event is what somebody is told of a run: that it has reached a state of Options.Tell.
type Event struct {
	Run, Tool string
	State     State
	Epoch     int64 // of the owner that left the run so: a run may reach a state more than once
	At        time.Time
	Attempts  int // to tell of it, this one included
}

// Outbox has the events of a store that were not told yet. They are written with what they tell of, in
// one transaction, and stay until they were told or their run is forgotten. Every Store is one.
type Outbox interface {
	// Claim returns at most n events that are to be told now. Nobody gets them for as long as hold.
	Claim(ctx context.Context, n int, hold time.Duration) ([]Event, error)
	// Told forgets an event.
	Told(ctx context.Context, e Event) error
	// Later says when it is tried again.
	Later(ctx context.Context, e Event, in time.Duration) error
}

// Lease is a run in the hands of its owner: a journal, and the end. The store renews it.
//
// Open gives back the entries and pins the header. Close leaves the run with its owner: End has to
// follow, which knows more of the end than the script does.
//
// Begin is durable on return, with all that was recorded before it; what is recorded is durable
// within 2 ms. Both fail with ErrTaken when another owner has the run, with ErrCancelled when it
// was cancelled; what is recorded of a cancelled run is kept.
type Lease interface {
	script.Journal
	// Run returns the run as it was taken.
	Run() Run
	// Ask writes questions of a run that waits for them while it runs. Those that are known keep their answers.
	Ask(ctx context.Context, q ...Question) error
	// Answers returns the questions with the answers that have come by now.
	Answers(ctx context.Context) ([]Question, error)
	// Lost is closed when the run was taken, cancelled, or the lease could not be renewed in time.
	Lost() <-chan struct{}
	// End writes what is not written yet, ends this part of the run, and gives the lease back. The
	// end of a run that was cancelled meanwhile is not kept; that is no error. With ErrUnavailable
	// the lease is over all the same: the store goes on trying to write what was recorded and to
	// give the run back, as running and due.
	End(ctx context.Context, o Outcome) error
}

// What a store says about a run.
var (
	ErrUnknown      = errors.New("no such run")
	ErrExists       = errors.New("the run exists already")
	ErrOtherRequest = errors.New("the idempotency key belongs to another request")
	ErrBusy         = errors.New("the run has an owner")
	ErrEnded        = errors.New("the run has ended")
	ErrDamaged      = errors.New("the run's journal is damaged")
	ErrSealed       = errors.New("the run is sealed by a key that is not configured")
	ErrTaken        = errors.New("another owner has taken the run")
	ErrCancelled    = errors.New("the run was cancelled")
	ErrNoQuestion   = errors.New("no such open question")
	ErrAnswered     = errors.New("the question has an answer already")
	ErrLate         = errors.New("the time to answer is over")
	ErrNoDoubt      = errors.New("no such call in doubt")
	ErrFull         = errors.New("there is no room for more runs")
	ErrUnavailable  = errors.New("the store of runs does not answer")
)

// A LimitError ends a run that has no more room in its store.
type LimitError struct {
	Name string // as the configuration has it: maxEntries, maxBytes, lifetime
	Max  string
}

func (e *LimitError) Error() string { return fmt.Sprintf("limit reached: %s (%s)", e.Name, e.Max) }

// Keep is what stays of a run that has ended.
type Keep string

const (
	KeepFull    Keep = "full"
	KeepOutline Keep = "outline" // no arguments, results, questions and answers of single calls
	KeepNone    Keep = "none"    // the result only, for requests that are repeated
)

// Options are what all stores have in common.
type Options struct {
	// Lease is how long an owner may be silent; 10 s where it is 0.
	Lease time.Duration
	// Renew is how often leases are renewed; a third of Lease where it is 0, never below 0.
	Renew time.Duration
	// MaxEntries and MaxBytes bound the journal of one run; 1000 and 8 MB where they are 0.
	MaxEntries int
	MaxBytes   int64
	// Keep is what stays of runs that have ended; KeepFull where it is "".
	Keep Keep
	// Tell are the states of which somebody is told: reaching one puts an event in the outbox.
	Tell []State
}

// WithDefaults returns o with what is not set.
func (o Options) WithDefaults() Options {
	if o.Lease <= 0 {
		o.Lease = 10 * time.Second
	}
	if o.Renew == 0 {
		o.Renew = o.Lease / 3
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 1000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 8 << 20
	}
	if o.Keep == "" {
		o.Keep = KeepFull
	}
	return o
}

// Admit reports whether the journal of a run may have so many entries and bytes: with a *LimitError, if not. It asks
// an o WithDefaults.
func (o Options) Admit(entries int, bytes int64) error {
	switch {
	case entries > o.MaxEntries:
		return &LimitError{Name: "maxEntries", Max: strconv.Itoa(o.MaxEntries)}
	case bytes > o.MaxBytes:
		return &LimitError{Name: "maxBytes", Max: limits.Bytes(o.MaxBytes).String()}
	}
	return nil
}

// idLetters are those of ids: digits and lower-case letters without those that look like others.
var idLetters = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns an id that nobody can guess: 26 characters, 128 random bits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return idLetters.EncodeToString(b[:])
}
