// Package ids makes the texts that clients name their sessions by, where the configuration has keys
// (sessionStorage.keys): what has to be known of a session to begin it anew elsewhere travels with its client,
// sealed, so that nobody reads or changes it.
//
// The text is base64url without padding of a sealed text (package seal) of
//
//	form(1) | session(16) | SHA-256/128 of the principal(16) | issued, seconds(uvarint)
//	  | owner | profile | revision | clientInfo | capabilities, each behind its length (uvarint)
//	  | 1 where the capabilities are too large for it, else 0
//
// Where the owner can be reached is not in it: that comes from the table of replicas.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

const (
	// Longest is how long a text is at most: balancers cap a header at 4 KiB, and all of them at 8.
	Longest = 2048
	// Life is for how long a text is good where its session is not in memory: what is known of deleted sessions
	// is kept as long.
	Life = 24 * time.Hour
	// Skew is how far the clocks of two replicas may be apart.
	Skew = time.Minute

	form = 1
	// maxInfo is how much of a clientInfo travels.
	maxInfo = 256
	// maxCapabilities is how large capabilities travel.
	maxCapabilities = 768
	// idSize is how much of a session's id there is.
	idSize = 16
)

// A Session is what a text says of a session.
type Session struct {
	ID           string // as New makes it
	Owner        string // the replica that it was opened at; "" without a cluster
	Principal    Digest
	Profile      string
	Revision     string
	Info         json.RawMessage // shortened
	Capabilities json.RawMessage
	Elsewhere    bool // the capabilities are too large for the text
	Issued       time.Time
}

// A Digest stands for a principal: whoever has the text can be compared with it.
type Digest [16]byte

// DigestOf stands for a principal's key.
func DigestOf(principal string) (d Digest) {
	h := sha256.Sum256([]byte(principal))
	copy(d[:], h[:])
	return d
}

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// New makes the id of a session: 16 random bytes.
func New() string {
	var b [idSize]byte
	rand.Read(b[:])
	return encoding.EncodeToString(b[:])
}

// A Sealer makes texts and opens them.
type Sealer struct {
	ring  *seal.Ring
	space string
	owner string
}

// NewSealer returns a sealer with the keys of a ring. space is what all texts belong to, such as the schema of a cluster:
// those of another one do not open. owner is this replica.
func NewSealer(ring *seal.Ring, space, owner string) *Sealer {
	return &Sealer{ring: ring, space: space, owner: owner}
}

// Seal makes the text of a session that this replica opens now. It sets of s what the text says otherwise.
func (l *Sealer) Seal(s *Session) string {
	s.Owner, s.Issued, s.Info = l.owner, time.Now(), shorten(s.Info)
	s.Elsewhere = len(s.Capabilities) > maxCapabilities
	id, err := encoding.DecodeString(s.ID)
	if err != nil || len(id) != idSize {
		panic("an id that New has not made: " + s.ID)
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
	return base64.RawURLEncoding.EncodeToString(l.ring.Encrypt(seal.Session, l.space, b))
}

// shorten is a clientInfo of at most maxInfo bytes: of a larger one the beginnings of name and version.
func shorten(info json.RawMessage) json.RawMessage {
	if len(info) <= maxInfo {
		return info
	}
	for n := 100; n > 0; n /= 2 { // a character may take several bytes, and an escape six
		short := new(jsonscan.Object).Text("name", clip.Text(jsonscan.GetString(info, "name"), n)).Text("version", clip.Text(jsonscan.GetString(info, "version"), n/2)).JSON()
		if len(short) <= maxInfo {
			return short
		}
	}
	return nil
}

// Open reads a text; ok is false for everything that no key has sealed so. Whether it is too old is for the caller.
func (l *Sealer) Open(text string) (s *Session, ok bool) {
	if len(text) > Longest {
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text) // else the last character has bits to spare, and two texts are one id
	if err != nil {
		return nil, false
	}
	b, err := l.ring.Open(seal.Session, l.space, sealed)
	if err != nil {
		return nil, false
	}
	return read(b)
}

// read takes apart what a seal has held together. What does not fit was sealed by a newer version.
func read(b []byte) (*Session, bool) {
	const head = 1 + idSize + len(Digest{})
	if len(b) < head || b[0] != form {
		return nil, false
	}
	s := &Session{ID: encoding.EncodeToString(b[1 : 1+idSize]), Principal: Digest(b[1+idSize : head])}
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

// Expired reports whether a session that is not in memory is over by its age, or from a time to come.
func (s *Session) Expired(now time.Time) bool {
	return now.Sub(s.Issued) > Life+Skew || s.Issued.Sub(now) > Skew
}
