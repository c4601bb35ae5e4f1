package proxy

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
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// parkedTable holds the live calls that wait for a client's next request under single-use handles. A
// handle travels sealed: bound to who asked, to the method and to the arguments. The states of runs, which
// wait in their store, are sealed in the same way.
type parkedTable struct {
	ring atomic.Pointer[seal.Ring]

	mu      sync.Mutex
	waiting map[string]*parkedCall // by handle, guarded by mu
	bytes   int64                  // of all calls, guarded by mu
	runs    map[string]*liveCall   // that execute a run for a request, by run; guarded by mu
}

// parkedCall is a call that waits in memory.
type parkedCall struct {
	*liveCall
	held  int64  // by the call when it was parked
	owner string // the principal whose call it is
	timer *time.Timer
}

func newParkedTable() *parkedTable {
	t := &parkedTable{waiting: map[string]*parkedCall{}, runs: map[string]*liveCall{}}
	key := make([]byte, 32)
	rand.Read(key)
	ring, err := seal.New([]seal.Key{{ID: "process", Secret: key}})
	if err != nil {
		panic(err) // a key of 32 bytes
	}
	t.ring.Store(ring)
	return t
}

// What a sealed state names.
const (
	stateLive  = "live"  // a handle of the table
	stateRun   = "run"   // the id of a run
	stateNever = "never" // that of a run that is not kept
)

// binding is what a sealed state is good for: this principal, method and arguments.
func (x *exchange) binding() []byte {
	h := sha256.New()
	for _, part := range [][]byte{
		[]byte(x.client.Principal), []byte(x.method),
		jsonscan.Compact(x.get(memberName)), jsonscan.Compact(x.get(memberURI)), jsonscan.Compact(x.get(memberArguments)),
	} { // each behind its length: no part can speak for the next one
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// put parks a call for a while and returns the sealed handle.
func (t *parkedTable) put(x *exchange, l *liveCall, wait time.Duration) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := l.bytes()
	switch {
	case len(t.waiting) >= parkedMax:
		return "", wire.Errorf(wire.InternalError, "%d calls already wait for answers; try again later", parkedMax)
	case t.bytes+size > parkedBytes:
		return "", wire.Errorf(wire.InternalError, "the calls that wait for answers hold %d MB already; try again later", parkedBytes>>20)
	case !t.roomFor(x.client.Principal, size):
		return "", wire.Errorf(wire.InternalError, "calls of yours already wait for answers, %d or with %d MB; try again later", parkedOfOne, parkedBytesOfOne>>20)
	}
	t.bytes += size
	handle := rand.Text()
	t.waiting[handle] = &parkedCall{liveCall: l, held: size, owner: x.client.Principal, timer: time.AfterFunc(wait, func() { t.expire(handle, wait) })}
	return t.seal(stateLive, handle, x.binding()), nil
}

// roomFor reports whether a principal's share has room for what a call holds; without
// authentication all are one principal, and have everything. mu is held.
func (t *parkedTable) roomFor(principal string, size int64) bool {
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
	return calls < parkedOfOne && bytes <= parkedBytesOfOne
}

func (t *parkedTable) expire(handle string, after time.Duration) {
	if c := t.remove(handle); c != nil {
		c.drop(wire.Errorf(wire.InternalError, "no answer within %v", after))
	}
}

func (t *parkedTable) remove(handle string) *parkedCall {
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

// seal makes a state of what it names.
func (t *parkedTable) seal(kind, name string, binding []byte) string {
	return base64.RawURLEncoding.EncodeToString(t.ring.Load().Encrypt(seal.State, string(binding), []byte(kind+" "+name)))
}

// open is what a state names, if it was made here for this.
func (t *parkedTable) open(state string, binding []byte) (kind, name string, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil {
		return "", "", false
	}
	text, err := t.ring.Load().Open(seal.State, string(binding), sealed)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(text), " ")
}

// take finds the call that waits behind a request's state. It waits no longer: its state is good for one request.
func (t *parkedTable) take(x *exchange, state json.RawMessage) (*liveCall, error) {
	kind, handle, ok := t.open(jsonscan.Text(state), x.binding())
	if !ok || kind != stateLive {
		return nil, runs.ErrState
	}
	c := t.remove(handle)
	if c == nil {
		return nil, runs.ErrState
	}
	return c.liveCall, nil
}

// has reports whether a request brings the state of a call or a run that waits.
func (t *parkedTable) has(x *exchange) bool {
	state := x.get(memberState)
	if state == nil {
		return false
	}
	kind, name, ok := t.open(jsonscan.Text(state), x.binding())
	if !ok || kind != stateLive {
		return ok
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[name] != nil
}

// lead notes the call that executes a run.
func (t *parkedTable) lead(run string, l *liveCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[run] = l
}

// leader is the call that executes a run for a request; nil for none.
func (t *parkedTable) leader(run string) *liveCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[run]
}

// ended forgets the call that has executed a run.
func (t *parkedTable) ended(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, run)
}

// close gives up all that waits.
func (t *parkedTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, c := range t.waiting {
		c.timer.Stop()
		c.drop(context.Canceled)
		delete(t.waiting, handle)
	}
}

func (t *parkedTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	for _, l := range t.runs {
		if l.writes(nil) {
			n++
		}
	}
	return n
}
