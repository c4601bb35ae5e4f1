// Package durable defines how runs of scripted tools outlive a request and their process: what a store
// keeps of a run, what every store promises, and the states of a run.
//
// A run is begun once (Start, or Create with the entries of its journal so far), acquired by
// one owner at a time (Acquire), written to by this owner as a [script.Journal], and ended with an
// outcome. Between owners it waits: for the answer to a question, for its wake time, or for the
// resolution of a call in doubt. Each acquisition begins a new epoch, and writes of earlier owners are refused.
//
//	store := durable.NewMemory(durable.Options{}, nil)
//	run, _, err := store.Start(ctx, durable.Run{Tool: "onboard", Args: args})
//	lease, err := store.Acquire(ctx, run.ID, owner)
//	res, err := program.Run(ctx, script.RunOptions{Args: args, Journal: lease})
//	err = lease.End(ctx, durable.Outcome{State: durable.Done, Result: result})
//
// The stores are MemoryStore here, and package sqlstore for SQLite and PostgreSQL. All of them pass the
// contract test of package runstest.
package durable

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

// A State is the state of a run, the same for the store, operators, clients and metrics.
type State string

const (
	Running   State = "running"   // has an owner, or had one whose lease has expired
	Waiting   State = "waiting"   // for the answer to a question
	Sleeping  State = "sleeping"  // until its wake time
	Paused    State = "paused"    // its client disconnected in the middle of a call
	Doubt     State = "doubt"     // the outcome of a call is not known; an operator has to resolve it
	Done      State = "done"      // ended with a result
	Failed    State = "failed"    // ended with an error of the script or of this program
	Cancelled State = "cancelled" // ended by a client or an operator
)

// States are all states, the final ones last.
var States = []State{Running, Waiting, Sleeping, Paused, Doubt, Done, Failed, Cancelled}

// Final reports whether a run in this state has ended.
func (s State) Final() bool { return s == Done || s == Failed || s == Cancelled }

// Run is one run as it is stored.
type Run struct {
	// ID names the run: 26 characters. Start makes one where it is empty.
	ID string
	// Parent is the id of the run that began this one. Nothing sets it yet.
	Parent string
	// Tool is the name of the scripted tool, Principal who called it.
	Tool, Principal string
	// Dedupe is the idempotency key of the first request; "" for none. A principal's key
	// belongs to one run.
	Dedupe string
	// Trace is the trace of the first request.
	Trace string
	// Program is the program that the run executes, whatever is configured now.
	Program Program
	// Limits are the run's limits and settings as JSON. The store does not read them.
	Limits json.RawMessage
	// Args are the arguments as JSON, as the run was begun with.
	Args json.RawMessage
	// Header is the header with which the journal was opened first; nil before. The lease's Open sets it.
	Header *script.Header
	// Expires is when the lifetime of the run is over, in whatever state it is; zero for never.
	Expires time.Time

	// The store sets the fields below: Start does not read them.

	State State
	// Epoch is the number of times that the run was acquired.
	Epoch int64
	// Owner has the lease until the time Lease, on the store's clock; "" while the run has no owner.
	Owner string
	Lease time.Time
	// Wake is when the run is due again; zero while only an answer, a resolution or Resume can make it due.
	Wake             time.Time
	Created, Updated time.Time
	// Entries and Bytes are the size of the journal.
	Entries int
	Bytes   int64
	// Questions are those that the run has asked, with and without an answer. One without an answer is open; it is
	// removed when the effect that asked it ends without it.
	Questions []Question
	// Doubts are the keys of the calls whose outcome an operator has to resolve.
	Doubts []string
	// Result is the CallToolResult, as JSON, of a run that is done, or that failed with one.
	Result json.RawMessage
	// Error says why a run failed or was cancelled, or what it waits for.
	Error string
	// Damaged says that the run failed because its journal cannot be trusted.
	Damaged bool
}

// Program is the program that a run was begun with.
type Program struct {
	// Main is the name of the file with run(), Files the texts of all files by name.
	Main  string
	Files map[string]string
	// Engine is the version of the builtins' semantics.
	Engine int
	// Hash is the program's hash in script.Header.
	Hash string
}

// Question is a request of a run to a client or an operator, such as elicitation/create.
type Question struct {
	// Key is the key of the question in the journal; Method and Params are those of the request to the client.
	Key, Method string
	Params      json.RawMessage
	// Deadline is when the last answer is accepted; zero for no deadline.
	Deadline time.Time
	// Answer is the first valid answer, as JSON; nil while the question is open.
	Answer json.RawMessage
}

// Outcome is how a part of a run ended: what one owner has done of it.
type Outcome struct {
	State State
	// Result and Error are those of the run, see Run.
	Result json.RawMessage
	Error  string
	// Questions are asked with the end of this part. Those that the run has already keep their
	// deadline and their answer.
	Questions []Question
	// Doubts are the keys of calls whose outcome is not known.
	Doubts []string
	// Wake is when the run is due again; zero for not before an answer, a resolution or Resume.
	Wake time.Time
}

// Resolution is the outcome that an operator gives to a call in doubt. One of the three is set.
type Resolution struct {
	// Done is the output of the call, as JSON, that the script gets.
	Done json.RawMessage
	// Failed is the text of a failure of kind "tool".
	Failed string
	// Repeat makes the call once more.
	Repeat bool
}

// Filter selects the runs of a list.
type Filter struct {
	States    []State // nil: all
	Tool      string
	Principal string
	SealedBy  string    // id of a key by which part of the run is sealed
	Since     time.Time // last changed at or after
	Limit     int       // runs at most; 0: 100
	After     string    // cursor that an earlier List returned
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

// Old selects the final runs that Prune removes.
type Old struct {
	Before    time.Time // last changed before
	States    []State   // of these; nil: all final ones
	Principal *string   // of this principal; nil: of all
}

// Stats are the numbers of a store that metrics show.
type Stats struct {
	States        map[State]int // every state is present
	OldestWaiting time.Time     // when the run that has waited longest began to wait; zero for none

	Kept      int64           // bytes of the runs in memory that nobody executes; 0 in a database
	Forgotten map[State]int64 // runs that were removed from memory for want of room, by the state in which they were
}

// Store keeps runs. All methods are safe for concurrent use. The caller owns the values that they
// return. They keep none of their arguments but JSON, which neither side may change.
//
// Each method wraps ErrUnavailable when the store did not answer. An error that is none of the Err…
// values means that the arguments are invalid.
type Store interface {
	// Start begins a run, durably, and returns it and true. If there is a run with the same principal and
	// idempotency key, or with the same id, it returns that one and false; ErrOtherRequest if that run has
	// another principal, tool or arguments.
	Start(ctx context.Context, r Run) (Run, bool, error)
	// Create starts a run with the entries of its journal so far and acquires it, in one
	// transaction. ErrExists where Start would have returned false.
	Create(ctx context.Context, r Run, owner string, entries []script.Entry) (Lease, error)
	// Acquire makes owner the owner of the run, and the run running. ErrUnknown, ErrEnded, ErrBusy while
	// another lease is valid, ErrDamaged (the run is Failed from then on), ErrSealed.
	Acquire(ctx context.Context, id, owner string) (Lease, error)
	// Due returns the ids of at most n runs that are to be acquired: their wake time or the end of their
	// lifetime is reached, the lease of their owner has expired, a question was answered, or a doubt resolved. next is the
	// time until another run is due if nothing changes, 0 if one is already; negative without any.
	Due(ctx context.Context, n int) (ids []string, next time.Duration, err error)
	// Answer stores the answer to an open question: an ElicitResult that the caller has validated.
	// ErrUnknown, ErrEnded, ErrNoQuestion, ErrAnswered for any but the first, ErrLate.
	Answer(ctx context.Context, id, key string, answer json.RawMessage) error
	// Resolve stores the outcome of a call in doubt. The run is due when none is left.
	// ErrUnknown, ErrEnded, ErrNoDoubt, ErrDamaged, *LimitError.
	Resolve(ctx context.Context, id, key string, r Resolution) error
	// Cancel ends a run: its owner can begin no more effects. ErrUnknown, ErrEnded.
	Cancel(ctx context.Context, id, reason string) error
	// Resume makes a paused, sleeping or waiting run due. ErrUnknown, ErrEnded; ErrBusy while it runs.
	Resume(ctx context.Context, id string) error
	// List returns runs, the last changed first, and the cursor of the next page, "" on the last one.
	List(ctx context.Context, f Filter) ([]Summary, string, error)
	// Get returns a run and its journal, verified. ErrUnknown; ErrDamaged and ErrSealed, with the parts that could be read.
	Get(ctx context.Context, id string) (Run, []script.Entry, error)
	// Prune removes final runs, with their idempotency keys, and returns how many.
	Prune(ctx context.Context, o Old) (int, error)
	// Uncounted returns at most n ends of runs that no owner has written: by Cancel, and of damaged journals, so that
	// metrics count them. Each end is returned once, to one process, even if the run was pruned before.
	Uncounted(ctx context.Context, n int) ([]Event, error)
	Outbox
	// Stats counts the runs by state.
	Stats(ctx context.Context) (Stats, error)
	// Sealed returns, by the id of each key, the number of runs of which part is sealed by that key.
	Sealed(ctx context.Context) (map[string]int, error)
	// Changed returns a channel that is closed at the next change, by any process, that may have made a run due or
	// may have answered, resolved, cancelled or ended one: at most as late as the store polls for changes of others.
	Changed() <-chan struct{}
	// Ping reports whether the store answers and, if the last write has failed, whether it can be written.
	Ping(ctx context.Context) error
	// Close releases all leases, so that other processes may acquire the runs, and closes the store.
	Close() error
}

// Event is the event that a run has reached a state of Options.Notify.
type Event struct {
	Run, Tool string
	State     State
	Epoch     int64 // of the run when it reached the state, which it may do more than once
	At        time.Time
	Attempts  int // to send it, this one included
}

// Outbox has the events of a store that were not sent yet. An event is written in the transaction that changes the
// state of its run, and stays until it was sent or its run is pruned. Every Store is one.
type Outbox interface {
	// Claim returns at most n events that are to be sent now. No other call returns them for the duration hold.
	Claim(ctx context.Context, n int, hold time.Duration) ([]Event, error)
	// Sent removes an event that was sent.
	Sent(ctx context.Context, e Event) error
	// Later has the event sent again after the duration in.
	Later(ctx context.Context, e Event, in time.Duration) error
}

// Lease is the exclusive right of an owner to write a run: to its journal, and its end. The store renews it.
//
// Open returns the entries and stores the header. Close does not release the lease: the owner has to
// call End, with the outcome.
//
// When Begin returns, its entry is durable, with all that were recorded before it; a store writes a
// recorded entry within 2 ms. Both fail with ErrTaken when another owner has the run, with ErrCancelled
// when it was cancelled; an entry that is recorded of a cancelled run is kept.
type Lease interface {
	script.Journal
	// Run returns the run as it was acquired.
	Run() Run
	// Ask stores questions of a run that waits for their answers without ending this part of it. Those that the run
	// has already keep their answers.
	Ask(ctx context.Context, q ...Question) error
	// Answers returns the questions with their answers so far, also when the lease is lost or ended.
	Answers(ctx context.Context) ([]Question, error)
	// Lost returns a channel that is closed when another owner has the run, when it was cancelled, or when the lease could not
	// be renewed in time.
	Lost() <-chan struct{}
	// End writes the entries that are not written yet, ends this part of the run, and releases the lease. The
	// outcome of a run that was cancelled meanwhile is dropped; that is no error. With ErrUnavailable
	// the lease is released all the same: the store retries to write the recorded entries and to make
	// the run due, in state Running.
	End(ctx context.Context, o Outcome) error
}

// Errors of the methods of a Store and a Lease.
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
	ErrUnavailable  = errors.New("the store of runs does not answer")
	ErrFull         = errors.New("the store of runs has no room") // with ErrUnavailable
)

// A LimitError ends a run that has no more room in its store.
type LimitError struct {
	Name string // as the configuration has it: maxEntries, maxBytes, lifetime
	Max  string
}

func (e *LimitError) Error() string { return fmt.Sprintf("limit reached: %s (%s)", e.Name, e.Max) }

// Keep is the part of a run that is kept when it has ended.
type Keep string

const (
	KeepFull    Keep = "full"
	KeepOutline Keep = "outline" // the run's result, and its entries without arguments, results, questions and answers
	KeepNone    Keep = "none"    // the run's result only, for repeated requests with the same idempotency key
)

// Options are what all stores have in common.
type Options struct {
	// Lease is how long a lease is valid without being renewed; 10 s where it is 0.
	Lease time.Duration
	// Renew is the interval at which leases are renewed; a third of Lease where it is 0; none are renewed where it is below 0.
	Renew time.Duration
	// MaxEntries and MaxBytes bound the journal of one run; 1000 and 8 MB where they are 0.
	MaxEntries int
	MaxBytes   int64
	// Keep is the part of ended runs that is kept; KeepFull where it is "".
	Keep Keep
	// Notify are the states that are notified of: a run that reaches one puts an event in the outbox.
	Notify []State
}

// WithDefaults returns o with defaults for the fields that are not set.
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

// Admit returns a *LimitError if the journal of a run may not have so many entries or bytes. o has to have its
// defaults, see WithDefaults.
func (o Options) Admit(entries int, bytes int64) error {
	switch {
	case entries > o.MaxEntries:
		return &LimitError{Name: "maxEntries", Max: strconv.Itoa(o.MaxEntries)}
	case bytes > o.MaxBytes:
		return &LimitError{Name: "maxBytes", Max: limits.Bytes(o.MaxBytes).String()}
	}
	return nil
}

// idLetters are the characters of ids: digits and lower-case letters but i, l, o and u, which are mistaken for others.
var idLetters = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns an id that nobody can guess: 26 characters, 128 random bits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return idLetters.EncodeToString(b[:])
}
