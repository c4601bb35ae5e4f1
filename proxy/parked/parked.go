// Package parked keeps calls of stateless clients in memory while these are away with a question, and seals the states
// that bring them back.
package parked

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
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// A Table holds the live calls that wait for a client's next request under single-use handles. A
// handle travels sealed: bound to who asked, to the method and to the arguments. The states of runs, which
// wait in their store, are sealed in the same way.
type Table struct {
	ring    atomic.Pointer[seal.Ring]
	self    atomic.Pointer[string] // this replica; "" without a cluster
	spawn   func(func()) bool
	dropped atomic.Uint64 // notifications that calls did not keep

	mu      sync.Mutex
	waiting map[string]*waiting // by handle, guarded by mu
	bytes   int64               // of all calls, guarded by mu
	runs    map[string]*Call    // that execute a run for a request, by run; guarded by mu
}

// waiting is a call that waits in memory.
type waiting struct {
	*Call
	held  int64  // by the call when it was parked
	owner string // the principal whose call it is
	timer *time.Timer
}

// New makes an empty table, whose calls run on goroutines of spawn. States are good in this process.
func New(spawn func(f func()) bool) *Table {
	t := &Table{spawn: spawn, waiting: map[string]*waiting{}, runs: map[string]*Call{}}
	key := make([]byte, 32)
	rand.Read(key)
	ring, err := seal.New([]seal.Key{{ID: "process", Secret: key}})
	if err != nil {
		panic(err) // a key of 32 bytes
	}
	t.ring.Store(ring)
	t.self.Store(new(string))
	return t
}

// At has states name this replica where what they name is in its memory alone.
func (t *Table) At(replica string) { t.self.Store(&replica) }

// Use seals states with the keys of a ring: they are good in every process that has it.
func (t *Table) Use(ring *seal.Ring) { t.ring.Store(ring) }

// What a sealed state names.
const (
	Live  = "live"  // a handle of the table
	Run   = "run"   // the id of a run
	Never = "never" // that of a run that is not kept
)

// inMemory reports whether what a state of a kind names is in the memory of one replica.
func inMemory(kind string) bool { return kind == Live || kind == Never }

// Binding is what a sealed state is good for: a principal, a method, and what else there is.
func Binding(principal, method string, more ...[]byte) []byte {
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(principal), []byte(method)}, more...) { // each behind its length: no part can speak for the next one
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// Parking says for whom a call waits, for how long, and what its state is good for.
type Parking struct {
	Principal string
	Binding   func() []byte
	For       time.Duration
}

// put parks a call for a while and returns the sealed handle.
func (t *Table) put(p Parking, l *Call) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := l.bytes()
	switch {
	case len(t.waiting) >= maxCalls:
		return "", wire.Errorf(wire.InternalError, "%d calls already wait for answers; try again later", maxCalls)
	case t.bytes+size > MaxBytes:
		return "", wire.Errorf(wire.InternalError, "the calls that wait for answers hold %d MB already; try again later", MaxBytes>>20)
	case !t.roomFor(p.Principal, size):
		return "", wire.Errorf(wire.InternalError, "calls of yours already wait for answers, %d or with %d MB; try again later", maxOfOne, maxBytesOfOne>>20)
	}
	t.bytes += size
	handle := rand.Text()
	t.waiting[handle] = &waiting{Call: l, held: size, owner: p.Principal, timer: time.AfterFunc(p.For, func() { t.expire(handle, p.For) })}
	return t.Seal(Live, handle, p.Binding()), nil
}

// roomFor reports whether a principal's share has room for what a call holds; without
// authentication all are one principal, and have everything. mu is held.
func (t *Table) roomFor(principal string, size int64) bool {
	if principal == "" {
		return true
	}
	calls, bytes := 0, size
	for _, c := range t.waiting {
		if c.owner == principal {
			calls++
			bytes += c.held
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
		t.bytes -= c.held
		c.timer.Stop()
	}
	delete(t.waiting, handle)
	return c
}

// Seal makes a state of what it names.
func (t *Table) Seal(kind, name string, binding []byte) string {
	if inMemory(kind) {
		name = *t.self.Load() + "/" + name
	}
	return base64.RawURLEncoding.EncodeToString(t.ring.Load().Encrypt(seal.State, string(binding), []byte(kind+" "+name)))
}

// Open is what the state of a request names, if it was made for this, and is not in the memory of another replica.
func (t *Table) Open(state json.RawMessage, binding []byte) (kind, name string, ok bool) {
	kind, name, holder, ok := t.open(state, binding)
	if !ok || inMemory(kind) && holder != *t.self.Load() {
		return "", "", false
	}
	return kind, name, true
}

// Holder is the other replica in whose memory is what the state of a request names; "" for none.
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
	text, err := t.ring.Load().Open(seal.State, string(binding), sealed)
	if err != nil {
		return "", "", "", false
	}
	kind, name, ok = strings.Cut(string(text), " ")
	if ok && inMemory(kind) {
		holder, name, ok = strings.Cut(name, "/")
	}
	return kind, name, holder, ok
}

// Take finds the call that waits behind a request's state. It waits no longer: its state is good for one request.
func (t *Table) Take(state json.RawMessage, binding []byte) (l *Call, ok bool) {
	kind, handle, ok := t.Open(state, binding)
	if !ok || kind != Live {
		return nil, false
	}
	c := t.remove(handle)
	if c == nil {
		return nil, false
	}
	return c.Call, true
}

// Has reports whether a state is that the state of a call or a run that waits.
func (t *Table) Has(state json.RawMessage, binding []byte) bool {
	kind, name, ok := t.Open(state, binding)
	if !ok || kind != Live {
		return ok
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[name] != nil
}

// Lead notes the call that executes a run.
func (t *Table) Lead(run string, l *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[run] = l
}

// Leader is the call that executes a run for a request; nil for none.
func (t *Table) Leader(run string) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[run]
}

// Ended forgets the call that has executed a run.
func (t *Table) Ended(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, run)
}

// Close gives up all that waits.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, c := range t.waiting {
		c.timer.Stop()
		c.drop(context.Canceled)
		delete(t.waiting, handle)
	}
}

// Len is how many calls wait for their clients.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	for _, l := range t.runs {
		if l.Writes(nil) {
			n++
		}
	}
	return n
}

// Dropped is how many notifications calls did not keep that wait for their client.
func (t *Table) Dropped() uint64 { return t.dropped.Load() }
