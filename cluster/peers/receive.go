package peers

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// bodyTime is how long the body of a request may take: another replica has it in memory.
const bodyTime = 30 * time.Second

// refusedTime is how long the rest of a request is read that no replica has signed, before it is answered.
const refusedTime = time.Second

// receive takes a request of another replica.
func (p *Peers) receive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(headerReplica, p.o.Self)
	from, s, err := p.verify(r)
	if err == nil && p.o.TLS != nil && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		err = errors.New("it came without a certificate")
	}
	if err != nil {
		p.log.Warn("refused a request that no replica has signed", "from", r.RemoteAddr, "err", err)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTime))
		w.Header().Set("Connection", "close")
		http.Error(w, errUnsigned.Error(), http.StatusUnauthorized)
		return
	}
	r.Header.Del(headerPeer)
	r.Header.Del(headerPassage)
	switch {
	case s.To != p.o.Self:
		Moved(w)
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
	p.Awake(r.Context())
	if r.Context().Err() != nil {
		return // the other one has given up, and may have had it done elsewhere
	}
	w.WriteHeader(http.StatusProcessing)
	if s.Client != "" {
		r.RemoteAddr = s.Client
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	p.o.Serve(w, r, Passage{From: from, To: s.To, Session: s.Session, Kind: s.Kind, Principal: s.Principal, Client: s.Client, Body: body})
}

// bodyOf reads the body that was signed.
func (p *Peers) bodyOf(w http.ResponseWriter, r *http.Request, s *said) (body []byte, status int, err error) {
	if most := p.o.MaxBody(); int64(s.Size) > most || s.Size < 0 {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a body of %d bytes is larger than %d", s.Size, most)
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
		return nil, http.StatusBadRequest, fmt.Errorf("the body is not the one that was signed")
	}
	return body, 0, nil
}

// Moved answers that the session is not here: who has passed the request on looks again whose it is.
func Moved(w http.ResponseWriter) {
	http.Error(w, "not the replica that has this", http.StatusMisdirectedRequest)
}
