package script

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// This part of the package defines the messages between an isolated run and its worker.

// An isolated run is computed by a worker, a separate process. Everything else is done in the process of the proxy:
// the turns of its branches, its journal, its ledger, its calls. The two exchange messages, each about one branch. A
// branch computes in the worker until it needs something; then it sends a message and waits for the answer, which is
// the next message about it. So each side always knows which one has to send, and a message out of order is an error.
//
// The counts of the meter are part of the messages that pass the turn: the side that computes has the current ones.
//
//	run          → call run(params), or another function; main branch
//	branch       → call what branch i of a parallel() calls
//	  grant      ← reserve steps or memory of the ledger;      answered by granted
//	  left       ← what could be granted;                      answered by granted
//	  logged     ← charge bytes of log;                        answered by reply
//	  printed    ← a line of print();                          answered by reply
//	  host       ← a request to the host;                      answered by reply
//	  parallel   ← run branches, which begin meanwhile;        answered by done
//	  do         ← an effect, Run.Do;                          answered by done
//	    perform  →   the effect is not in the journal
//	      host   ←     the call itself;                        answered by reply
//	      apart  ←     a separate run, in the same worker;     answered by reply
//	    performed ←  the outcome of the effect
//	  ended      ← the branch has ended
//
// One message may be sent at any time and is not answered: cancel (→) ends the context of a branch.
type Message struct {
	Kind    Kind
	Branch  int64
	Numbers []int64
	Parts   [][]byte
	// again is what a further worker is told instead; nil: the same.
	again *Message
}

// Kind is the kind of a message.
type Kind byte

// First the messages to the worker, then those from it.
const (
	messageProgram Kind = iota + 1
	messageRun
	messageBranch
	Done
	reply
	granted
	messagePerform
	cancel

	Grant
	left
	Logged
	Printed
	Host
	Parallel
	Do
	messageApart
	Performed
	Ended
)

// charges reports whether a message only charges the ledger or the log.
func (k Kind) charges() bool { return k == Grant || k == left || k == Logged || k == Printed }

// permit is the answer to such a message when the charge was made before.
func (m *Message) permit() *Message {
	const any = math.MaxInt64 / 4
	switch m.Kind {
	case Grant:
		return &Message{Kind: granted, Branch: m.Branch, Numbers: []int64{m.Number(Sent + 2), m.Number(Sent + 3)}}
	case left:
		return &Message{Kind: granted, Branch: m.Branch, Numbers: []int64{any, any}}
	}
	return &Message{Kind: reply, Branch: m.Branch}
}

// The numbers of a perform message.
const (
	performLasts = iota // nanoseconds that the effect may last; 0: unbounded
	performNow          // the time by the clock of the run
	performSince        // nanoseconds since another worker was told to perform it
)

// late is a perform message that was sent some time ago.
func (m *Message) late(since time.Duration) *Message {
	again := &Message{Kind: m.Kind, Branch: m.Branch, Numbers: slices.Clone(m.Numbers)}
	again.Numbers[performSince] = int64(since)
	if m.Numbers[performLasts] > 0 {
		again.Numbers[performLasts] = max(1, m.Numbers[performLasts]-int64(since))
	}
	return again
}

// How many counts of the meter are at the end of messages that give the worker the turn, and at the beginning of those
// that it sends in its turn.
const (
	given = 8
	Sent  = 8
)

// Bounds of a message.
const (
	MaxNumbers = 32
	maxParts   = 8
)

// Encode returns the message as the parts of one frame; the large ones are not copied.
func (m *Message) Encode() [][]byte {
	head := make([]byte, 0, 64)
	head = append(head, byte(m.Kind))
	head = binary.AppendVarint(head, m.Branch)
	head = binary.AppendUvarint(head, uint64(len(m.Numbers)))
	for _, n := range m.Numbers {
		head = binary.AppendVarint(head, n)
	}
	head = binary.AppendUvarint(head, uint64(len(m.Parts)))
	for _, p := range m.Parts { // nil is not empty
		size := uint64(0)
		if p != nil {
			size = uint64(len(p)) + 1
		}
		head = binary.AppendUvarint(head, size)
	}
	return append([][]byte{head}, m.Parts...)
}

var errMessage = errors.New("malformed")

// Decode decodes a frame. The parts alias it.
func Decode(frame []byte) (*Message, error) {
	r := frameReader{rest: frame}
	m := &Message{Kind: Kind(r.byte()), Branch: r.varint()}
	numbers := r.count(MaxNumbers)
	for range numbers {
		m.Numbers = append(m.Numbers, r.varint())
	}
	sizes := make([]uint64, r.count(maxParts))
	for i := range sizes {
		sizes[i] = r.uvarint()
	}
	for _, size := range sizes {
		m.Parts = append(m.Parts, r.part(size))
	}
	if r.bad || len(r.rest) > 0 {
		return nil, errMessage
	}
	return m, nil
}

// frameReader decodes a frame from its beginning to its end.
type frameReader struct {
	rest []byte
	bad  bool
}

func (r *frameReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *frameReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *frameReader) skip(n int) {
	if n <= 0 {
		r.bad, n = true, len(r.rest)
	}
	r.rest = r.rest[n:]
}

func (r *frameReader) count(most uint64) uint64 {
	n := r.uvarint()
	if n > most {
		r.bad = true
		return 0
	}
	return n
}

// part returns the next size-1 bytes, or nil for 0.
func (r *frameReader) part(size uint64) []byte {
	if size == 0 {
		return nil
	}
	if size-1 > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	p := r.rest[: size-1 : size-1]
	r.rest = r.rest[size-1:]
	return p
}

// Number returns number i, or 0.
func (m *Message) Number(i int) int64 {
	if i < len(m.Numbers) {
		return m.Numbers[i]
	}
	return 0
}

// Part returns part i, or nil.
func (m *Message) Part(i int) []byte {
	if i < len(m.Parts) {
		return m.Parts[i]
	}
	return nil
}
