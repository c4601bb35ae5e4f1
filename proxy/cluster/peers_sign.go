package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script/durable"
)

const (
	// headerPeer is "id;time;HMAC": the sending replica, nanoseconds since 1970, and the HMAC of what signed
	// concatenates.
	headerPeer = "Vmcp-Peer"
	// headerPassage is the Passage, encoded as type said.
	headerPassage = "Vmcp-Passage"
	// headerReplica is the id of the replica that answers.
	headerReplica = "Vmcp-Replica"

	// window is the largest age of a request, and the largest difference between the clocks of two replicas.
	window = 30 * time.Second
	// peersRemembered is how many requests of one replica are kept to detect replays; what is older than all of them is
	// refused.
	peersRemembered = 1 << 16
	// senders is the number of replicas whose requests are kept.
	senders = 256
	// maxPassage bounds headerPassage, in bytes.
	maxPassage = 512 << 10
)

// said is the signed description of a request, as JSON with bytes in base64. It is written and read by hand, since
// every forwarded request does both and encoding/json takes five times as long.
type said struct {
	Passage
	Size   int
	Digest []byte // SHA-256 of the body
}

func (s *said) text() []byte {
	b := make([]byte, 0, 256+len(s.Session)+2*len(s.Principal))
	b = append(append(b, `{"to":`...), jsonscan.Quote(s.To)...)
	for _, member := range []struct{ key, value string }{
		{`,"session":`, s.Session}, {`,"kind":`, s.Kind}, {`,"client":`, s.Client},
		{`,"principal":`, base64.StdEncoding.EncodeToString(s.Principal)},
	} {
		if member.value != "" {
			b = append(append(b, member.key...), jsonscan.Quote(member.value)...)
		}
	}
	b = strconv.AppendInt(append(b, `,"size":`...), int64(s.Size), 10)
	b = base64.StdEncoding.AppendEncode(append(b, `,"digest":"`...), s.Digest)
	return append(b, `"}`...)
}

// readSigned parses the description of a request, which was verified.
func readSigned(text []byte) (s *said, err error) {
	if err := jsonscan.Check(text); err != nil {
		return nil, err
	}
	s = &said{}
	jsonscan.Each(text, func(key, value []byte) bool {
		switch string(key) {
		case "to":
			s.To = jsonscan.Text(value)
		case "session":
			s.Session = jsonscan.Text(value)
		case "kind":
			s.Kind = jsonscan.Text(value)
		case "client":
			s.Client = jsonscan.Text(value)
		case "principal":
			s.Principal, err = base64.StdEncoding.DecodeString(jsonscan.Text(value))
		case "digest":
			s.Digest, err = base64.StdEncoding.DecodeString(jsonscan.Text(value))
		case "size":
			s.Size, err = strconv.Atoi(string(value))
		}
		return err == nil
	})
	return s, err
}

// clock gives every request of this replica a distinct time, which identifies it for the detection of replays.
type clock struct{ last atomic.Int64 }

func (c *clock) next(t time.Time) int64 {
	for {
		last, now := c.last.Load(), t.UnixNano()
		if now <= last {
			now = last + 1
		}
		if c.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// sign adds the headers that the receiver verifies.
func (p *Peers) sign(r *http.Request, passage Passage) {
	digest := sha256.Sum256(passage.Body)
	about := base64.RawURLEncoding.EncodeToString((&said{passage, len(passage.Body), digest[:]}).text())
	now := strconv.FormatInt(p.clock.next(p.o.Now()), 10)
	mac := p.o.Ring.MACs(durable.Peer, p.signed(p.o.Self, now, r.Method, r.URL.RequestURI(), about))[0]
	r.Header.Set(headerPassage, about)
	r.Header.Set(headerPeer, p.o.Self+";"+now+";"+base64.RawURLEncoding.EncodeToString(mac))
}

// signed is the text that the HMAC covers: each part behind its length, so that parts cannot be shifted.
func (p *Peers) signed(from, now, method, path, about string) []byte {
	all := make([]byte, 0, len(about)+256)
	for _, part := range []string{p.o.Space, from, now, method, path, about} {
		all = append(binary.AppendUvarint(all, uint64(len(part))), part...)
	}
	return all
}

// errUnsigned is all that an unauthenticated sender is told; the reason is only logged.
var errUnsigned = errors.New("not signed by a replica of this cluster")

// verify checks the signature, the age and the novelty of a request, and returns its sender and description.
func (p *Peers) verify(r *http.Request) (from string, s *said, err error) {
	peer, about := r.Header.Get(headerPeer), r.Header.Get(headerPassage)
	parts := strings.Split(peer, ";")
	if len(parts) != 3 || len(r.Header.Values(headerPeer)) != 1 || len(r.Header.Values(headerPassage)) != 1 || len(about) > maxPassage || len(parts[0]) > 64 {
		return "", nil, errors.New("the headers " + headerPeer + " and " + headerPassage + " are missing or malformed")
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
	if age := p.o.Now().Sub(time.Unix(0, at)); age > window || age < -window {
		return "", nil, errors.New("signed " + age.Round(time.Second).String() + " ago, by the clocks of both replicas; the limit is " + window.String())
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(about)
	if err != nil {
		return "", nil, err
	}
	if s, err = readSigned(text); err != nil {
		return "", nil, err
	}
	if !p.replays.isNew(parts[0], at) {
		return "", nil, errors.New("a replay, or older than the requests of the same replica that are remembered")
	}
	return parts[0], s, nil
}

// fits reports whether mac is the HMAC of text by any key of the ring.
func (p *Peers) fits(mac, text []byte) bool {
	ok := false
	for _, want := range p.o.Ring.MACs(durable.Peer, text) {
		ok = hmac.Equal(want, mac) || ok
	}
	return ok
}

// replays detects requests that were received before, within bounds.
type replays struct {
	mu   sync.Mutex
	from map[string]*sent // by replica, guarded by mu
}

// sent are the times of the requests of one replica, which are distinct.
type sent struct {
	seen  map[int64]struct{}
	order []int64 // the elements of seen; a ring buffer once it is full
	next  int     // index of the oldest, once order is full
	floor int64   // times up to here are refused: they may have been dropped from seen
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
	if len(s.order) < peersRemembered {
		s.order = append(s.order, at)
	} else {
		old := s.order[s.next]
		delete(s.seen, old)
		s.floor = max(s.floor, old)
		s.order[s.next], s.next = at, (s.next+1)%peersRemembered
	}
	s.seen[at] = struct{}{}
	return true
}

// add begins the record of another replica, and removes those from which nothing came within twice the window. mu is
// held.
func (p *replays) add(from string, s *sent) {
	if p.from == nil {
		p.from = map[string]*sent{}
	}
	for id, other := range p.from {
		if time.Since(other.last) > 2*window {
			delete(p.from, id)
		}
	}
	if len(p.from) >= senders { // more than a cluster has: a sender with the key makes up ids, and is refused
		s.floor = math.MaxInt64
		return
	}
	p.from[from] = s
}
