package edge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package makes sealed session ids, which are used if the configuration has keys (sessionStorage.keys): what
// another replica needs to restore a session is in its Mcp-Session-Id, sealed, so that no client can read or change it.
//
// The id is base64url without padding of a sealed text (durable.Ring) of
//
//	form(1) | session(16) | SHA-256/128 of the principal(16) | issued, seconds(uvarint)
//	  | owner | profile | revision | clientInfo | capabilities, each behind its length (uvarint)
//	  | 1 where the capabilities are too large for it, else 0
//
// The address of the owner is not in it: that comes from the table of replicas.

const (
	// longest is the length of the longest id, in bytes: some load balancers limit a header to 4 KiB, all to 8 KiB.
	longest = 2048
	// Life is how long after its issue an id is accepted if its session is not in memory; records of deleted sessions
	// are kept as long.
	Life = 24 * time.Hour
	// Skew is the largest accepted difference between the clocks of two replicas.
	Skew = time.Minute

	form = 1
	// maxInfo bounds the clientInfo in an id, in bytes.
	maxInfo = 256
	// maxCapabilities bounds the capabilities in an id, in bytes.
	maxCapabilities = 768
	// idSize is the number of random bytes of a session.
	idSize = 16
)

// A IDSession is the content of an id.
type IDSession struct {
	ID           string // as New makes it
	Owner        string // the replica that opened it; "" without a cluster
	Principal    Digest
	Profile      string
	Revision     string
	Info         json.RawMessage // shortened
	Capabilities json.RawMessage
	Elsewhere    bool // the capabilities are too large for the id
	Issued       time.Time
}

// A Digest identifies a principal, without containing its key.
type Digest [16]byte

// digestOf is the digest of a principal's key.
func digestOf(principal string) (d Digest) {
	h := sha256.Sum256([]byte(principal))
	copy(d[:], h[:])
	return d
}

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// newIDs makes the random part of an id: 16 bytes.
func newIDs() string {
	var b [idSize]byte
	rand.Read(b[:])
	return encoding.EncodeToString(b[:])
}

// A Sealer seals and opens ids.
type Sealer struct {
	ring  *durable.Ring
	space string
	owner string
	now   func() time.Time
}

// NewSealer returns a sealer with the keys of a ring. space is the namespace of the ids, such as the schema of a
// cluster: ids of another one do not open. owner is the id of this replica, and now the clock that all replicas share.
func NewSealer(ring *durable.Ring, space, owner string, now func() time.Time) *Sealer {
	return &Sealer{ring: ring, space: space, owner: owner, now: now}
}

// Seal makes the id of a session that this replica opens now. It sets Owner, Issued and what had to be shortened in s.
func (l *Sealer) Seal(s *IDSession) string {
	s.Owner, s.Issued, s.Info = l.owner, l.now(), shorten(s.Info)
	s.Elsewhere = len(s.Capabilities) > maxCapabilities
	id, err := encoding.DecodeString(s.ID)
	if err != nil || len(id) != idSize {
		panic("ids: Seal of an id that New did not make: " + s.ID)
	}
	b := append(append([]byte{form}, id...), s.Principal[:]...)
	b = binary.AppendUvarint(b, uint64(s.Issued.Unix()))
	capabilities := []byte(s.Capabilities)
	if s.Elsewhere {
		capabilities = nil
	}
	for _, part := range [][]byte{[]byte(s.Owner), []byte(s.Profile), []byte(s.Revision), s.Info, capabilities} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	if s.Elsewhere {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return base64.RawURLEncoding.EncodeToString(l.ring.Encrypt(durable.Session, l.space, b))
}

// shorten limits a clientInfo to maxInfo bytes: of a larger one it keeps the beginnings of name and version.
func shorten(info json.RawMessage) json.RawMessage {
	if len(info) <= maxInfo {
		return info
	}
	for n := 100; n > 0; n /= 2 { // a character may take several bytes, and an escape six
		short := new(jsonscan.Object).Text("name", display.ClipText(jsonscan.GetString(info, "name"), n)).Text("version", display.ClipText(jsonscan.GetString(info, "version"), n/2)).JSON()
		if len(short) <= maxInfo {
			return short
		}
	}
	return nil
}

// Open reads an id; ok is false unless a key of the ring has sealed it for this space. The caller checks its age
// (Expired).
func (l *Sealer) Open(text string) (s *IDSession, ok bool) {
	if len(text) > longest {
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text) // Strict: otherwise two texts could decode to the same id
	if err != nil {
		return nil, false
	}
	b, err := l.ring.Open(durable.Session, l.space, sealed)
	if err != nil {
		return nil, false
	}
	return idsRead(b)
}

// idsRead decodes the sealed bytes. What it cannot decode was sealed by a newer version.
func idsRead(b []byte) (*IDSession, bool) {
	const head = 1 + idSize + len(Digest{})
	if len(b) < head || b[0] != form {
		return nil, false
	}
	s := &IDSession{ID: encoding.EncodeToString(b[1 : 1+idSize]), Principal: Digest(b[1+idSize : head])}
	issued, n := binary.Uvarint(b[head:])
	if n <= 0 || issued > 1<<40 {
		return nil, false
	}
	s.Issued, b = time.Unix(int64(issued), 0), b[head+n:]
	var parts [5][]byte
	for i := range parts {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, false
		}
		parts[i], b = b[n:n+int(size)], b[n+int(size):]
	}
	if len(b) != 1 || b[0] > 1 {
		return nil, false
	}
	s.Owner, s.Profile, s.Revision, s.Elsewhere = string(parts[0]), string(parts[1]), string(parts[2]), b[0] == 1
	if len(parts[3]) > 0 {
		s.Info = parts[3]
	}
	if len(parts[4]) > 0 {
		s.Capabilities = parts[4]
	}
	return s, true
}

// Expired reports whether an id of a session that is not in memory is too old, or from the future.
func (s *IDSession) Expired(now time.Time) bool {
	return now.Sub(s.Issued) > Life+Skew || s.Issued.Sub(now) > Skew
}
