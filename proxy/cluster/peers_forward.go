package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
)

// passing is a request in flight to another replica.
type passing struct {
	Passage
	began  time.Time
	to     *httpclient.Transport // for requests to the replica
	addr   string
	cancel context.CancelCauseFunc

	sending  sending
	started  atomic.Bool   // the replica has answered 102: it has started the request
	answered time.Duration // time until the response header
}

type passingKey struct{}

// Forward sends a request of a client to the replica passage.To and copies the response to w. After errGone and
// errMoved the request was not started and nothing was written: it may be served elsewhere. After another error nothing
// was written, but the request may have been started. If the response breaks off, Forward panics with
// http.ErrAbortHandler.
func (p *Peers) Forward(w http.ResponseWriter, r *http.Request, passage Passage) error {
	began := time.Now()
	addr, ok := p.o.Address(passage.To)
	if !ok {
		p.o.Forwarded(passage.Kind, "gone", 0)
		return fmt.Errorf("replica %s: %w", passage.To, errGone)
	}
	t := &passing{Passage: passage, addr: addr, began: began}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), passingKey{}, t))
	t.cancel = cancel
	defer cancel(nil)
	done, ok := p.begin(t)
	if !ok {
		p.o.Forwarded(passage.Kind, "gone", 0)
		return fmt.Errorf("replica %s: %w: %w", passage.To, errSilent, errGone)
	}
	defer done()
	t.sending.rest = passage.Body
	defer t.sending.Close()
	outcome := "aborted"
	defer func() { p.o.Forwarded(passage.Kind, outcome, t.answered) }()
	resp, err := p.ask(r, ctx, t)
	if err == nil {
		t.answered = time.Since(began)
		answer(w, resp)
	}
	outcome = outcomeOf(err)
	return err
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errGone):
		return "gone"
	case errors.Is(err, errMoved):
		return "moved"
	case errors.Is(err, errRefused):
		return "refused"
	}
	return "aborted"
}

// ask sends the request. The caller closes the body of the response.
func (p *Peers) ask(r *http.Request, ctx context.Context, t *passing) (*http.Response, error) {
	resp, err := t.to.RoundTrip(p.rewrite(r, ctx, t))
	if err == nil {
		if err = t.checkReply(resp); err == nil {
			return resp, nil
		}
		resp.Body.Close()
	} else {
		err = t.failed(ctx, err)
	}
	return nil, fmt.Errorf("replica %s: %w", t.To, err)
}

// sending is the body of a request as a reader that Close ends: a transport may read on after the response has arrived,
// when the buffer belongs to another request.
type sending struct {
	mu   sync.Mutex
	rest []byte // guarded by mu
	over bool   // guarded by mu
}

// Read implements io.Reader.
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

// Close makes further reads fail.
func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest, s.over = nil, true
	return nil
}

var errEnded = errors.New("the request has ended")

// ahead is called for the 102 response of a replica that starts a request.
func ahead(r *http.Request) { r.Context().Value(passingKey{}).(*passing).started.Store(true) }

// rewrite builds the signed request to the other replica from the client's.
func (p *Peers) rewrite(in *http.Request, ctx context.Context, t *passing) *http.Request {
	out := new(http.Request).WithContext(ctx)
	out.Method, out.Host = in.Method, in.Host
	out.URL = &url.URL{Scheme: p.scheme(), Host: t.addr, Path: in.URL.Path, RawPath: in.URL.RawPath, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	out.Header = make(http.Header, len(in.Header)+2)
	endToEnd(out.Header, in.Header)
	if _, ok := in.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // net/http would set its own
	}
	out.Header.Del("Expect")
	out.Header.Del(headerReplica)
	if len(t.Body) > 0 {
		out.Body, out.ContentLength = &t.sending, int64(len(t.Body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.Body)), nil }
	}
	p.sign(out, t.Passage)
	if !t.to.Takes(out) {
		out.GetBody = nil // http.Transport would send the body a second time
	}
	return out
}

// endToEnd copies all headers but the hop-by-hop ones (RFC 9110, section 7.6.1).
func endToEnd(to, from http.Header) {
	for name, values := range from {
		switch {
		case isForHop(name, from["Connection"]):
		case len(to[name]) == 0:
			to[name] = values[:len(values):len(values)]
		default:
			to[name] = append(to[name], values...)
		}
	}
}

// isForHop reports whether a header is hop-by-hop: by its name, or because the Connection header lists it.
func isForHop(name string, connection []string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	for _, names := range connection {
		for n := range strings.SplitSeq(names, ",") {
			if strings.EqualFold(strings.TrimSpace(n), name) {
				return true
			}
		}
	}
	return false
}

// errRefused says that a replica rejects the signatures of this one.
var errRefused = errors.New("the replica rejects the signature of this one: check that both have the same sessionStorage.keys and the same time")

// checkReply turns responses that are meant for this replica, not for the client, into errors.
func (t *passing) checkReply(resp *http.Response) error {
	who := resp.Header.Get(headerReplica)
	resp.Header.Del(headerReplica)
	switch {
	case resp.StatusCode == http.StatusMisdirectedRequest && who == t.To:
		return errMoved
	case who != "" && who != t.To: // another process has the address now
		return errGone
	case resp.StatusCode == http.StatusUnauthorized && who != "":
		return errRefused
	}
	return nil
}

// failed is the error for a request without a response: errGone if it was not started.
func (t *passing) failed(ctx context.Context, err error) error {
	switch {
	case t.started.Load():
		return fmt.Errorf("the connection broke after the replica had started the request: %w", err)
	case errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("%w: %w", errSilent, errGone)
	case ctx.Err() == nil: // not dialled, or broken off before it was started
		return fmt.Errorf("%w: %w", err, errGone)
	}
	return err
}

// pieces are buffers for copying responses.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// answer copies the response to the client. With a Content-Length it is one message, which is buffered as the
// connection buffers; without, it is a stream of events, which is flushed after each read.
func answer(w http.ResponseWriter, resp *http.Response) {
	defer resp.Body.Close()
	endToEnd(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	out, flush := http.NewResponseController(w), resp.ContentLength < 0
	if flush {
		_ = out.Flush() // an error of Flush does no harm: Write reports a broken connection
	}
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	for {
		n, err := resp.Body.Read(piece[:])
		if n > 0 {
			if _, err := w.Write(piece[:n]); err != nil {
				panic(http.ErrAbortHandler)
			}
			if flush {
				_ = out.Flush()
			}
		}
		switch {
		case err == io.EOF:
			return
		case err != nil: // the client must not take a truncated response for a complete one
			panic(http.ErrAbortHandler)
		}
	}
}
