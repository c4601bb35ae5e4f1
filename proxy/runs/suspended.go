package runs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package keeps pending calls of stateless clients in memory between two requests (multi round-trip requests
// of 2026-07-28), and seals the requestStates that name them.
//
// # The life of a Call
//
// A call outlives the request that began it: it runs on its own goroutine, in a context that only drop, or the end of
// its response, cancels. One request at a time is attached to it, and gets its frames; the goroutine of that request is
// in Wait.
//
//	                    a question (Ask): Wait returns input_required with a sealed state
//	        ┌─────────────────────────────────────────────────┐
//	  Call  │                                                 ▼
//	──► attached ◄───────────────────────────────────── suspended ──► dropped   no request within Terms' time,
//	        │      Table.Resume, with the state, once;                          or the table was closed
//	        │      then Call.Resume with the answers
//	        ├──► finished    Wait returns the response, which ends with the request that got it
//	        └──► dropped     the attached request was cancelled, or there was no room to suspend
//
// While it is suspended, and only then, a call is in Table.waiting under a random handle. The requestState contains the
// handle, sealed together with the Binding: principal, method, what is called, arguments. So no other principal can
// resume it, nor the same client another call with it; and Table.Resume removes the handle, so that no state can be
// used twice. Questions that the next request does not answer are asked again in its response. Notifications in between
// are queued up to keptFrames and keptBytes; what is beyond is dropped and counted. A dropped call closes its response,
// whenever it returns.
//
// The call that executes a part of a run for a stateless client (Table.runs, by run) uses only half of this: requests
// are attached and detached, but it is not in waiting, since its questions are in the store of runs, and it never
// finishes with a response. Its state names the run (Run), or, if the run is not kept, a run in the memory of this
// replica (Never).
//
// # Locks
//
// Call.mu guards the destination of frames, and is held while the client's stream accepts one, which may block for a
// slow client. Table.mu is acquired while Call.mu is held (suspend, put). So a method that holds Table.mu must not lock
// the Call.mu of an attached call: Close locks only those of calls in waiting, and Len reads without a lock whether a
// call is detached.

// A Table has the suspended calls under single-use handles, and seals handles: bound to principal, method and
// arguments. It also seals the states of runs, which are in their store.
type Table struct {
	ring    atomic.Pointer[durable.Ring]
	self    atomic.Pointer[string] // id of this replica; "" without a cluster
	spawn   func(func()) bool
	dropped atomic.Uint64 // notifications that calls did not keep

	mu      sync.Mutex
	waiting map[string]*waiting       // by handle; guarded by mu
	bytes   int64                     // of all calls; guarded by mu
	runs    map[string]*SuspendedCall // executing a run for a request, by run; guarded by mu
}

// waiting is a suspended call.
type waiting struct {
	*SuspendedCall
	weight int64  // memory of the call when it was suspended
	owner  string // the principal's key
	timer  *time.Timer
}

// NewSuspended makes an empty table, whose calls run on goroutines of spawn. States are valid in this process only, until Use.
func NewSuspended(spawn func(f func()) bool) *Table {
	t := &Table{spawn: spawn, waiting: map[string]*waiting{}, runs: map[string]*SuspendedCall{}}
	key := make([]byte, 32)
	rand.Read(key)
	ring, err := durable.NewSeal([]durable.Key{{ID: "process", Secret: key}})
	if err != nil {
		panic(err) // cannot fail: a key of 32 bytes
	}
	t.ring.Store(ring)
	t.self.Store(new(string))
	return t
}

// At sets the id of this replica, for states of what is in its memory only.
func (t *Table) At(replica string) { t.self.Store(&replica) }

// Use sets the key ring for states: they are valid in every process with the ring.
func (t *Table) Use(ring *durable.Ring) { t.ring.Store(ring) }

// Kinds of sealed states.
const (
	Pending      = "live"  // a handle of the table
	SuspendedRun = "run"   // the id of a run
	Never        = "never" // the id of a run that is not kept
)

// inMemory reports whether a state of a kind names something in the memory of one replica.
func inMemory(kind string) bool { return kind == Pending || kind == Never }

// Binding is what a sealed state is bound to: a principal, a method, and more.
func Binding(principal, method string, more ...[]byte) []byte {
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(principal), []byte(method)}, more...) { // behind its length, so that parts cannot be shifted
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// Terms are the principal for which a call is suspended, for how long, and the binding of its state.
type Terms struct {
	Principal string
	Binding   func() []byte
	For       time.Duration
}

// put suspends a call and returns its sealed state.
func (t *Table) put(p Terms, l *SuspendedCall) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := l.bytes()
	switch {
	case len(t.waiting) >= maxCalls:
		return "", wire.Errorf(wire.InternalError, "%d calls are suspended already, which is the limit; try again later", maxCalls)
	case t.bytes+size > SuspendedMaxBytes:
		return "", wire.Errorf(wire.InternalError, "the suspended calls use %d MB already, which is the limit; try again later", SuspendedMaxBytes>>20)
	case !t.roomFor(p.Principal, size):
		return "", wire.Errorf(wire.InternalError, "the limit for suspended calls of one principal is reached: %d calls or %d MB; try again later", maxOfOne, maxBytesOfOne>>20)
	}
	t.bytes += size
	handle := rand.Text()
	t.waiting[handle] = &waiting{SuspendedCall: l, weight: size, owner: p.Principal, timer: time.AfterFunc(p.For, func() { t.expire(handle, p.For) })}
	return t.Seal(Pending, handle, p.Binding()), nil
}

// roomFor reports whether a principal's share has room for another call; without authentication there are no shares. mu
// is held.
func (t *Table) roomFor(principal string, size int64) bool {
	if principal == "" {
		return true
	}
	calls, bytes := 0, size
	for _, c := range t.waiting {
		if c.owner == principal {
			calls++
			bytes += c.weight
		}
	}
	return calls < maxOfOne && bytes <= maxBytesOfOne
}

func (t *Table) expire(handle string, after time.Duration) {
	if c := t.remove(handle); c != nil {
		c.drop(wire.Errorf(wire.InternalError, "no answer within %v", after))
	}
}

func (t *Table) remove(handle string) *waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.waiting[handle]
	if c != nil {
		t.bytes -= c.weight
		c.timer.Stop()
	}
	delete(t.waiting, handle)
	return c
}

// Seal seals a state.
func (t *Table) Seal(kind, name string, binding []byte) string {
	if inMemory(kind) {
		name = *t.self.Load() + "/" + name
	}
	return base64.RawURLEncoding.EncodeToString(t.ring.Load().Encrypt(durable.SealState, string(binding), []byte(kind+" "+name)))
}

// Open opens the requestState of a request; ok is false if it has another binding, or names something in the memory of
// another replica.
func (t *Table) Open(state json.RawMessage, binding []byte) (kind, name string, ok bool) {
	kind, name, holder, ok := t.open(state, binding)
	if !ok || inMemory(kind) && holder != *t.self.Load() {
		return "", "", false
	}
	return kind, name, true
}

// Holder is the other replica whose memory has what a requestState names; "" for none.
func (t *Table) Holder(state json.RawMessage, binding []byte) string {
	_, _, holder, ok := t.open(state, binding)
	if !ok || holder == *t.self.Load() {
		return ""
	}
	return holder
}

func (t *Table) open(state json.RawMessage, binding []byte) (kind, name, holder string, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(jsonscan.Text(state))
	if err != nil {
		return "", "", "", false
	}
	text, err := t.ring.Load().Open(durable.SealState, string(binding), sealed)
	if err != nil {
		return "", "", "", false
	}
	kind, name, ok = strings.Cut(string(text), " ")
	if ok && inMemory(kind) {
		holder, name, ok = strings.Cut(name, "/")
	}
	return kind, name, holder, ok
}

// Resume removes and returns the suspended call of a requestState, which is valid for one request.
func (t *Table) Resume(state json.RawMessage, binding []byte) (l *SuspendedCall, ok bool) {
	kind, handle, ok := t.Open(state, binding)
	if !ok || kind != Pending {
		return nil, false
	}
	c := t.remove(handle)
	if c == nil {
		return nil, false
	}
	return c.SuspendedCall, true
}

// Has reports whether a requestState names a suspended call or a run.
func (t *Table) Has(state json.RawMessage, binding []byte) bool {
	kind, name, ok := t.Open(state, binding)
	if !ok || kind != Pending {
		return ok
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[name] != nil
}

// Lead registers the call that executes a run.
func (t *Table) Lead(run string, l *SuspendedCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[run] = l
}

// Leader is the call that executes a run for a request; nil for none.
func (t *Table) Leader(run string) *SuspendedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[run]
}

// Ended removes the call that has executed a run.
func (t *Table) Ended(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, run)
}

// Close drops all suspended calls.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, c := range t.waiting {
		c.timer.Stop()
		c.drop(context.Canceled)
		delete(t.waiting, handle)
	}
}

// Len is the number of suspended calls.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	for _, l := range t.runs {
		if l.detached.Load() {
			n++
		}
	}
	return n
}

// Dropped is the number of notifications that suspended calls did not keep.
func (t *Table) Dropped() uint64 { return t.dropped.Load() }
