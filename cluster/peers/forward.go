package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// passing is a request on its way to another replica.
type passing struct {
	Passage
	addr   string
	began  time.Time
	cancel context.CancelCauseFunc

	sending sending

	// Set while the request is passed on, one after the other:
	started  bool          // the replica has said that it begins
	answers  bool          // the answer is being written
	answered time.Duration // how long it took to begin
	err      error
}

type passingKey struct{}

// Forward passes a request of a client on to passage.To and its answer back. ErrGone and ErrMoved say that nothing was done
// and nothing written: the request may be served elsewhere. Another error says that nothing was written, but the
// request may have been begun. An answer that breaks off panics with http.ErrAbortHandler.
func (p *Peers) Forward(w http.ResponseWriter, r *http.Request, passage Passage) error {
	began := time.Now()
	addr, ok := p.o.Address(passage.To)
	if !ok {
		p.o.Forwarded(passage.Kind, "gone", 0)
		return fmt.Errorf("replica %s: %w", passage.To, ErrGone)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	t := &passing{Passage: passage, addr: addr, began: began, cancel: cancel}
	done, ok := p.begin(t)
	if !ok {
		p.o.Forwarded(passage.Kind, "gone", 0)
		return fmt.Errorf("replica %s: %w: %w", passage.To, errSilent, ErrGone)
	}
	defer done()
	t.sending.rest = passage.Body
	defer t.sending.Close()
	outcome := "aborted"
	defer func() { p.o.Forwarded(passage.Kind, outcome, t.answered) }()
	p.proxy.ServeHTTP(&answer{ResponseWriter: w, t: t, ahead: http.Header{}}, r.WithContext(context.WithValue(ctx, passingKey{}, t)))
	outcome = t.outcome()
	return t.err
}

func (t *passing) outcome() string {
	switch {
	case t.err == nil:
		return "ok"
	case errors.Is(t.err, ErrGone):
		return "gone"
	case errors.Is(t.err, ErrMoved):
		return "moved"
	case errors.Is(t.err, ErrRefused):
		return "refused"
	}
	return "aborted"
}

// sending reads the body of a request until it is closed: the transport may go on when the answer is there, and the body is
// not this request's then any more.
type sending struct {
	mu   sync.Mutex
	rest []byte // guarded by mu
	over bool   // guarded by mu
}

// Read reads on.
func (s *sending) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return 0, errEnded
	case len(s.rest) == 0:
		return 0, io.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close has nothing more read.
func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest, s.over = nil, true
	return nil
}

var errEnded = errors.New("the request is over")

// answer writes what comes back. That a replica begins is for nobody else.
type answer struct {
	http.ResponseWriter
	t     *passing
	ahead http.Header // of what is said ahead of the answer
}

// Header is that of the client's answer once this is written: before, ReverseProxy clears it with everything that it sends ahead.
func (a *answer) Header() http.Header {
	if a.t.answers {
		return a.ResponseWriter.Header()
	}
	return a.ahead
}

// WriteHeader leaves out what is said ahead of the answer.
func (a *answer) WriteHeader(status int) {
	if status < 200 {
		a.t.started = true
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// rewrite makes the request for the other replica: what the client sent, signed.
func (p *Peers) rewrite(r *httputil.ProxyRequest) {
	t := r.In.Context().Value(passingKey{}).(*passing)
	r.SetURL(&url.URL{Scheme: p.scheme(), Host: t.addr})
	r.Out.Host = r.In.Host
	r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = r.In.URL.Path, r.In.URL.RawPath, r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} { // Rewrite takes them off
		if v := r.In.Header.Values(name); len(v) > 0 {
			r.Out.Header[name] = v
		}
	}
	r.Out.Header.Del("Expect")
	r.Out.Header.Del(headerReplica)
	r.Out.Body, r.Out.ContentLength, r.Out.GetBody, r.Out.TransferEncoding = http.NoBody, int64(len(t.Body)), nil, nil
	if len(t.Body) > 0 {
		r.Out.Body = &t.sending // without GetBody: what was sent is not sent again
	}
	p.sign(r.Out, t.Passage)
}

// ErrRefused says that a replica does not take what this one signs.
var ErrRefused = errors.New("the replica does not accept requests of this one: have both the same keys and the same time?")

// look turns answers that are for this replica into errors.
func (p *Peers) look(resp *http.Response) error {
	t := resp.Request.Context().Value(passingKey{}).(*passing)
	who := resp.Header.Get(headerReplica)
	resp.Header.Del(headerReplica)
	switch {
	case resp.StatusCode == http.StatusMisdirectedRequest && who == t.To:
		return ErrMoved
	case who != "" && who != t.To: // another process has its address now
		return ErrGone
	case resp.StatusCode == http.StatusUnauthorized && who != "":
		return ErrRefused
	}
	t.answers, t.answered = true, time.Since(t.began)
	return nil
}

// failed notes why there is no answer; nothing was written.
func failed(_ http.ResponseWriter, r *http.Request, err error) {
	t := r.Context().Value(passingKey{}).(*passing)
	switch {
	case errors.Is(err, ErrMoved), errors.Is(err, ErrGone), errors.Is(err, ErrRefused):
	case t.started:
		err = fmt.Errorf("broken off in the middle: %w", err)
	case errors.Is(context.Cause(r.Context()), errSilent):
		err = fmt.Errorf("%w: %w", errSilent, ErrGone)
	case r.Context().Err() == nil: // not dialled, or broken off before it was begun
		err = fmt.Errorf("%w: %w", err, ErrGone)
	}
	t.err = fmt.Errorf("replica %s: %w", t.To, err)
}
