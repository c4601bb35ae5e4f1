package cluster

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// bodyTime bounds reading a body: the sender has it in memory already.
const bodyTime = 30 * time.Second

// refusedTime bounds reading the rest of a request that is refused, before the response.
const refusedTime = time.Second

// receive serves a request of another replica.
func (p *Peers) receive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(headerReplica, p.o.Self)
	from, s, err := p.verify(r)
	if err == nil && p.o.TLS != nil && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		err = errors.New("the connection has no client certificate")
	}
	if err != nil {
		if more, logged := p.refused.note(time.Now()); logged {
			p.log.Warn("refused a request on the port for replicas that no replica has signed", "from", r.RemoteAddr, "err", err, "more", more)
		}
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTime))
		w.Header().Set("Connection", "close")
		http.Error(w, errUnsigned.Error(), http.StatusUnauthorized)
		return
	}
	known(r)
	r.Header.Del(headerPeer)
	r.Header.Del(headerPassage)
	switch {
	case s.To != p.o.Self:
		moved(w)
		return
	case r.URL.Path == alivePath:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, status, err := p.bodyOf(w, r, s)
	if err != nil {
		p.log.Warn("refused a request of another replica", "peer", from, "err", err)
		http.Error(w, err.Error(), status)
		return
	}
	p.serving.begin()
	defer p.serving.end()
	p.Awake(r.Context())
	if r.Context().Err() != nil {
		return // the sender has given up, and may have it served elsewhere
	}
	w.WriteHeader(http.StatusProcessing)
	if s.Client != "" {
		r.RemoteAddr = s.Client
	}
	s.From, s.Body = from, body
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	p.o.Serve(w, r, s.Passage)
}

// bodyOf reads the body and compares it with the signed size and digest.
func (p *Peers) bodyOf(w http.ResponseWriter, r *http.Request, s *said) (body []byte, status int, err error) {
	if most := p.o.MaxBody(); int64(s.Size) > most || s.Size < 0 {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has %d bytes; the limit is %d", s.Size, most)
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTime))
	defer rc.SetReadDeadline(time.Time{})
	body = make([]byte, s.Size)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the body: %w", err)
	}
	if n, err := r.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is longer than the %d bytes that were signed", s.Size)
	}
	if digest := sha256.Sum256(body); !hmac.Equal(digest[:], s.Digest) {
		return nil, http.StatusBadRequest, fmt.Errorf("the body does not match the signed digest")
	}
	return body, 0, nil
}

// serving counts the requests of other replicas in flight, without probes.
type serving struct {
	mu    sync.Mutex
	n     int           // guarded by mu
	ended chan struct{} // closed when n becomes 0; nil while nobody waits. Guarded by mu
}

func (s *serving) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
}

func (s *serving) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n--; s.n == 0 && s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// wait waits until there are none, or ctx ends.
func (s *serving) wait(ctx context.Context) error {
	s.mu.Lock()
	if s.n == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	ended := s.ended
	s.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moved answers 421, that this replica does not own the session: the sender then finds the owner again.
func moved(w http.ResponseWriter) {
	http.Error(w, "this replica does not own the session", http.StatusMisdirectedRequest)
}
