package proxy

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/cases"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// parkedTable holds what waits for a client's next request under single-use handles. A
// handle travels sealed: bound to who asked, to the method and to the arguments.
type parkedTable struct {
	aead cipher.AEAD

	mu      sync.Mutex
	waiting map[string]*parkedCall // by handle, guarded by mu
	bytes   int64                  // of all journals, guarded by mu
}

// parkedCall is a call that waits in memory, or the journal of a run that goes on by
// running again. Exactly one of the two is set.
type parkedCall struct {
	live    *liveCall
	journal script.Journal
	handle  string // under which it was parked before; "" at first
	size    int64  // of the journal when it was parked
	owner   string // the principal whose call it is
	timer   *time.Timer
	lines   string // the run that lines of the audit name

	forgotten func()       // a run is over because nobody answered
	over      atomic.Bool  // the run has ended and is counted
	took      atomic.Int64 // time.Duration of its parts up to now

	recorder atomic.Pointer[cases.Recorder] // of all its parts; nil while the call is not recorded
}

// bytes is what the call holds in memory for as long as it waits: a journal, or the body
// of its request with the questions that came of it and what may come meanwhile. What
// else a run holds is bounded by its limits.
func (c *parkedCall) bytes() int64 {
	if c.live != nil {
		return c.live.bytes()
	}
	if j, ok := c.journal.(interface{ Size() int64 }); ok {
		return j.Size()
	}
	return 0
}

func newParkedTable() *parkedTable {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &parkedTable{aead: aead, waiting: map[string]*parkedCall{}}
}

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

// put parks a call and returns the sealed handle. A journal keeps its handle from one
// round to the next.
func (t *parkedTable) put(x *exchange, c *parkedCall) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := c.handle != "" && t.waiting[c.handle] == c
	size := c.bytes()
	more := size
	if known {
		more -= c.size
	}
	switch {
	case !known && len(t.waiting) >= parkedMax:
		return "", wire.Errorf(wire.InternalError, "%d calls already wait for answers; try again later", parkedMax)
	case t.bytes+more > parkedBytes:
		return "", wire.Errorf(wire.InternalError, "the calls that wait for answers hold %d MB already; try again later", parkedBytes>>20)
	case !t.roomFor(x.client.Principal, known, more):
		return "", wire.Errorf(wire.InternalError, "calls of yours already wait for answers, %d or with %d MB; try again later", parkedOfOne, parkedBytesOfOne>>20)
	}
	t.bytes += more
	c.size, c.owner = size, x.client.Principal
	if known {
		c.timer.Reset(parkedFor)
		return t.seal(c.handle, x.binding()), nil
	}
	handle := rand.Text()
	c.handle = handle
	c.timer = time.AfterFunc(parkedFor, func() { t.expire(handle) })
	t.waiting[handle] = c
	return t.seal(handle, x.binding()), nil
}

// roomFor reports whether a principal's share has room for what a call holds more than it did; without
// authentication all are one principal, and have everything. mu is held.
func (t *parkedTable) roomFor(principal string, known bool, more int64) bool {
	if principal == "" {
		return true
	}
	calls, bytes := 0, more
	for _, c := range t.waiting {
		if c.owner == principal {
			calls++
			bytes += c.size
		}
	}
	return (known || calls < parkedOfOne) && bytes <= parkedBytesOfOne
}

func (t *parkedTable) expire(handle string) {
	switch c := t.remove(handle); {
	case c == nil:
	case c.live != nil:
		c.live.drop(wire.Errorf(wire.InternalError, "no answer within %v", parkedFor))
	case c.forgotten != nil:
		c.forgotten()
	}
}

func (t *parkedTable) remove(handle string) *parkedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.waiting[handle]
	if c != nil {
		t.bytes -= c.size
	}
	delete(t.waiting, handle)
	return c
}

func (t *parkedTable) seal(text string, binding []byte) string {
	nonce := make([]byte, t.aead.NonceSize())
	rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(t.aead.Seal(nonce, nonce, []byte(text), binding))
}

func (t *parkedTable) open(sealed string, binding []byte) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(b) < t.aead.NonceSize() {
		return "", false
	}
	text, err := t.aead.Open(nil, b[:t.aead.NonceSize()], b[t.aead.NonceSize():], binding)
	return string(text), err == nil
}

// errState refuses a requestState, whatever is wrong with it: which it is, is not the
// business of a sender who has not proven to be the one that it was given to.
var errState = wire.Errorf(wire.InvalidParams, "requestState is not valid for this request: it was changed, used before, has expired, or belongs to other arguments or to somebody else")

// edited refuses a requestState of a run that cannot go on, because it would be another one now.
// Whoever brings it has asked before: it is told why.
func edited(tool string) error {
	return wire.Errorf(wire.InvalidParams, "requestState is not valid any more: the script was edited after it had asked, or a library or the parameters of %s were; call it again without requestState", tool)
}

// take finds what waits behind a request's state. A live call waits no longer: its
// state is good for one request. A journal stays until it expires: whoever brings its
// state again finds everything answered, and nothing is done twice.
func (t *parkedTable) take(x *exchange, state json.RawMessage) (*parkedCall, error) {
	handle, ok := t.open(jsonscan.Text(state), x.binding())
	if !ok {
		return nil, errState
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.waiting[handle]
	if c == nil {
		return nil, errState
	}
	if c.live != nil {
		t.bytes -= c.size
		delete(t.waiting, handle)
		c.timer.Stop()
	}
	return c, nil
}

// has reports whether a request brings the state of a call that waits.
func (t *parkedTable) has(x *exchange) bool {
	state := x.get(memberState)
	if state == nil {
		return false
	}
	handle, ok := t.open(jsonscan.Text(state), x.binding())
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[handle] != nil
}

// close gives up all that waits.
func (t *parkedTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, c := range t.waiting {
		c.timer.Stop()
		if c.live != nil {
			c.live.drop(context.Canceled)
		}
		delete(t.waiting, handle)
	}
}

func (t *parkedTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
