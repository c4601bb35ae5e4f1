package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/runs/seal"
)

const (
	// headerPeer is "id;time;HMAC": the replica that sends, nanoseconds since 1970, and what signs all that is named below.
	headerPeer = "Vmcp-Peer"
	// headerPassage is what is said of the request, see said.
	headerPassage = "Vmcp-Passage"
	// headerReplica is who answers that a session is not its own.
	headerReplica = "Vmcp-Replica"

	// window is how old a request may be, and how far the clocks of two replicas apart.
	window = 30 * time.Second
	// remembered is how many requests of one replica within the window are known again; what is older than them is refused.
	remembered = 1 << 16
	// senders is of how many replicas requests are known again.
	senders = 256
	// maxPassage bounds what is said of a request.
	maxPassage = 512 << 10
)

// said is what travels with a request beside what the client has sent.
type said struct {
	To        string `json:"to"`
	Session   string `json:"session,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Principal []byte `json:"principal,omitempty"`
	Client    string `json:"client,omitempty"`
	Size      int    `json:"size"`
	Digest    []byte `json:"digest"` // SHA-256 of the body
}

// clock gives every request of this replica a time of its own, by which it is known again.
type clock struct{ last atomic.Int64 }

func (c *clock) next() int64 {
	for {
		last, now := c.last.Load(), time.Now().UnixNano()
		if now <= last {
			now = last + 1
		}
		if c.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// sign puts on a request what the receiver wants to see.
func (p *Peers) sign(r *http.Request, passage Passage) {
	digest := sha256.Sum256(passage.Body)
	text, err := json.Marshal(said{To: passage.To, Session: passage.Session, Kind: passage.Kind, Principal: passage.Principal, Client: passage.Client, Size: len(passage.Body), Digest: digest[:]})
	if err != nil {
		panic(err) // texts and numbers
	}
	about := base64.RawURLEncoding.EncodeToString(text)
	now := strconv.FormatInt(p.clock.next(), 10)
	mac := p.o.Ring.MACs(seal.Peer, p.signed(p.o.Self, now, r.Method, r.URL.RequestURI(), about))[0]
	r.Header.Set(headerPassage, about)
	r.Header.Set(headerPeer, p.o.Self+";"+now+";"+base64.RawURLEncoding.EncodeToString(mac))
}

// signed is what is signed: each part behind its length, so that none can speak for the next one.
func (p *Peers) signed(from, now, method, path, about string) []byte {
	var all []byte
	for _, part := range []string{p.o.Space, from, now, method, path, about} {
		all = append(binary.AppendUvarint(all, uint64(len(part))), part...)
	}
	return all
}

// errUnsigned is all that a stranger learns; why is only logged.
var errUnsigned = errors.New("not signed by a replica of this cluster")

// verify finds out what a replica says of a request.
func (p *Peers) verify(r *http.Request) (from string, s *said, err error) {
	peer, about := r.Header.Get(headerPeer), r.Header.Get(headerPassage)
	parts := strings.Split(peer, ";")
	if len(parts) != 3 || len(r.Header.Values(headerPeer)) != 1 || len(r.Header.Values(headerPassage)) != 1 || len(about) > maxPassage || len(parts[0]) > 64 {
		return "", nil, errors.New("no " + headerPeer)
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return "", nil, errUnsigned
	}
	if !p.fits(mac, p.signed(parts[0], parts[1], r.Method, r.URL.RequestURI(), about)) {
		return "", nil, errUnsigned
	}
	at, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return "", nil, err
	}
	if age := time.Since(time.Unix(0, at)); age > window || age < -window {
		return "", nil, errors.New("signed " + age.Round(time.Second).String() + " ago, by the clocks of both: more than " + window.String())
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(about)
	if err != nil {
		return "", nil, err
	}
	s = &said{}
	if err := json.Unmarshal(text, s); err != nil {
		return "", nil, err
	}
	if !p.replays.isNew(parts[0], at) {
		return "", nil, errors.New("it has come before, or long after others of the same replica")
	}
	return parts[0], s, nil
}

// fits reports whether any key of the ring signs so.
func (p *Peers) fits(mac, text []byte) bool {
	ok := false
	for _, want := range p.o.Ring.MACs(seal.Peer, text) {
		ok = hmac.Equal(want, mac) || ok
	}
	return ok
}

// replays knows the requests of other replicas again, within bounds.
type replays struct {
	mu   sync.Mutex
	from map[string]*sent // by replica, guarded by mu
}

// sent are the times of the requests of one replica: none has two requests with one time.
type sent struct {
	seen  map[int64]struct{}
	order []int64 // those of seen as they came, from next on
	next  int     // where the oldest is, once there are as many as are remembered
	floor int64   // what is not later is refused: it may have been forgotten
	last  time.Time
}

func (p *replays) isNew(from string, at int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.from[from]
	if s == nil {
		s = &sent{seen: map[int64]struct{}{}}
		p.add(from, s)
	}
	s.last = time.Now()
	if _, known := s.seen[at]; known || at <= s.floor {
		return false
	}
	if len(s.order) < remembered {
		s.order = append(s.order, at)
	} else {
		old := s.order[s.next]
		delete(s.seen, old)
		s.floor = max(s.floor, old)
		s.order[s.next], s.next = at, (s.next+1)%remembered
	}
	s.seen[at] = struct{}{}
	return true
}

// add makes room for another replica: one of which nothing came for longer than a request is good for needs none. mu is held.
func (p *replays) add(from string, s *sent) {
	if p.from == nil {
		p.from = map[string]*sent{}
	}
	for id, other := range p.from {
		if time.Since(other.last) > 2*window {
			delete(p.from, id)
		}
	}
	if len(p.from) >= senders { // more replicas than there can be: whoever signs all these has the key
		s.floor = time.Now().Add(window).UnixNano()
		return
	}
	p.from[from] = s
}
