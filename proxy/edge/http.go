package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// maxPadding bounds what a backend's frame may have behind its result, in bytes.
	maxPadding = 1 << 20
	// streamAfter is the time after which a pending response becomes an event stream.
	streamAfter = 10 * time.Second
)

func (v *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if err := v.access.Load().profiles.CheckPath(r.URL.Path); err != nil {
		refuse(w, http.StatusNotFound, nil, wire.Invalid("%v", err))
		return
	}
	switch r.Method {
	case http.MethodPost:
		v.post(w, r)
	case http.MethodGet:
		v.get(w, r)
	case http.MethodDelete:
		v.delete(w, r)
	default:
		notAllowed(w, "POST, GET, DELETE, OPTIONS")
	}
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, nil, wire.Invalid("want %s", allow))
}

// post serves one message, or a batch if the revision has batches.
func (v *Server) post(w http.ResponseWriter, r *http.Request) {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" && !strings.HasPrefix(ct, "application/json;") {
		refuse(w, http.StatusUnsupportedMediaType, nil, wire.Invalid("content type %q: want application/json", ct))
		return
	}
	if !accepts(r.Header.Get("Accept")) {
		refuse(w, http.StatusNotAcceptable, nil, wire.Invalid("Accept: want application/json, text/event-stream"))
		return
	}
	buf := newBody()
	defer buf.Free()
	if err := buf.Read(w, r, v.access.Load().maxBody, &v.bodies); err != nil {
		refuseBody(w, err)
		return
	}
	m, err := wire.Parse(buf.B)
	switch {
	case err != nil && isBatch(buf.B):
		v.postBatch(w, r, buf.B)
	case err != nil:
		refuse(w, http.StatusBadRequest, m.ID, err)
	case isModern(r, &m):
		v.postModern(w, r, &m, buf)
	default:
		v.postLegacy(w, r, &m, buf.B)
	}
}

// accepts is lenient: it requires only that the client accepts JSON or anything.
func accepts(accept string) bool {
	return accept == "" || strings.Contains(accept, "application/json") || strings.Contains(accept, "*/*") || strings.Contains(accept, "application/*")
}

func acceptsEvents(accept string) bool {
	return accept == "" || strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "*/*") || strings.Contains(accept, "text/*")
}

func isBatch(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '[' && jsonscan.Valid(b)
}

// refuse answers with a JSON-RPC error and an HTTP status.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	writeJSON(w, status, wire.Failure(id, err))
}

func writeJSON(w http.ResponseWriter, status int, frame []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(frame)))
	w.WriteHeader(status)
	w.Write(frame)
}

// httpReply is the response to one POST: a JSON body, or an event stream if frames have to be sent ahead of the result.
//
//	JSON pending ──► JSON written       finish, when no frame came ahead and the result took less than streamAfter
//	     │
//	     ▼  upgrade: a frame, or streamAfter is over, and the client accepts event streams
//	event stream ──► ended              finish: the response is its last event
//
// Before upgrade nothing is written to the connection. From then on only pump writes to it, and finish waits for pump
// before the handler returns, since the ResponseWriter is invalid after that. finished is set before the response is
// written: a later frame goes to the standalone stream of the session, or is dropped. A stream whose connection is lost
// continues without pump if the client can resume it; then the request continues, too (detach).
//
// A response that breaks off must not look complete: the handler panics with http.ErrAbortHandler.
type httpReply struct {
	server    *Server
	w         http.ResponseWriter
	r         *http.Request
	session   *Session // nil for stateless clients
	polling   bool     // the client's revision has SSE polling (SEP-1699)
	id        json.RawMessage
	stateless *set            // for the stream of a client without a session
	ctx       context.Context // of the request
	cancel    func()          // cancels ctx; nil if losing the connection does

	mu       sync.Mutex
	stream   *stream       // guarded by mu; set once the response is a stream
	finished bool          // guarded by mu; the response was written or begun
	pumped   chan struct{} // closed when nothing writes to the connection any more
}

// startSoon makes the response an event stream when the result takes long: proxies and clients close a silent
// connection, and a stream can be resumed.
func (h *httpReply) startSoon() (stop func() bool) {
	return time.AfterFunc(streamAfter, func() { h.upgrade() }).Stop
}

// Send makes the response an event stream and writes a frame to it; it blocks until there is room. A frame behind the
// response, or for a client that does not accept streams, goes to the session's standalone stream.
func (h *httpReply) Send(frame []byte) { h.put(frame, (*stream).Offer) }

// Request is Send for a request to the client.
func (h *httpReply) Request(ctx context.Context, frame []byte) {
	h.put(frame, func(s *stream, frame []byte) { s.OfferRequest(ctx, frame) })
}

// put sends a frame, on a stream that does not respond to a request by offer.
func (h *httpReply) put(frame []byte, offer func(s *stream, frame []byte)) {
	switch s := h.upgrade(); {
	case s == nil:
	case !s.Answers():
		offer(s, frame)
	default:
		s.Send(h.ctx, frame)
	}
}

// Offer is Send without blocking: for a slow client older notifications are dropped.
func (h *httpReply) Offer(frame []byte) {
	if s := h.upgrade(); s != nil {
		s.Offer(frame)
	}
}

func (h *httpReply) upgrade() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished || !acceptsEvents(h.r.Header.Get("Accept")) {
		if h.session != nil {
			return h.session.streams.Standalone()
		}
		return nil
	}
	if h.stream == nil {
		if h.session != nil {
			h.stream = h.session.streams.New(h.id, h.cancel)
		} else {
			h.stream = h.stateless.Once(h.id, h.cancel)
		}
		h.pumped = make(chan struct{})
		go h.pump(h.stream)
	}
	return h.stream
}

// pump writes to the connection from the upgrade on.
func (h *httpReply) pump(s *stream) {
	defer close(h.pumped)
	s.Pump(h.w, -1, h.polling, h.r.Context().Done())
}

// resumable reports whether the client can get the response by reconnecting if it loses the connection now.
func (h *httpReply) resumable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream != nil && h.stream.Resumable()
}

// finish writes the result or the error, and waits until nothing writes to the connection any more.
func (h *httpReply) finish(id json.RawMessage, resp *backends.Response, err error) {
	s := h.end()
	if s == nil {
		h.finishJSON(id, resp, err)
		return
	}
	finishStream(h.ctx, s, id, resp, err)
	if h.session != nil && h.session.streams.End(s) {
		<-h.pumped
		h.session.streams.Delivered(s)
	} else {
		s.Close()
		<-h.pumped
		s.Discard()
	}
	if s.WasBroken() {
		panic(http.ErrAbortHandler)
	}
}

// end accepts no more frames and returns the stream, if the response is one.
func (h *httpReply) end() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = true
	return h.stream
}

// abandon ends the response to a client that has disconnected.
func (h *httpReply) abandon() {
	if s := h.end(); s != nil {
		s.Discard()
		<-h.pumped
	}
}

// wholeResult is the size, in bytes, up to which a result is sent as one piece of an event.
const wholeResult = 64 << 10

// finishStream sends the response on a stream. A large result is sent in pieces as it is read and consumed.
func finishStream(ctx context.Context, s *stream, id json.RawMessage, resp *backends.Response, err error) {
	if err != nil || resp.Body == nil && len(resp.Result) <= wholeResult {
		s.Finish(ctx, finalFrame(id, resp, err, MaxFrame))
		return
	}
	result := io.WriterTo(bytes.NewReader(resp.Result))
	if resp.Body != nil {
		result = resp.Body
	}
	if err := s.FinishFrom(ctx, id, result); err != nil {
		s.Fail(ClientError(err))
	}
}

// release returns a response's buffers.
func release(resp *backends.Response) {
	if resp != nil {
		resp.Close()
	}
}

// finalFrame is the response as one frame, with a result of at most max bytes.
func finalFrame(id json.RawMessage, resp *backends.Response, err error, max int64) []byte {
	if err == nil {
		var result []byte
		if result, err = resp.Bytes(max); err == nil {
			return wire.Result(id, result)
		}
	}
	return wire.Failure(id, err)
}

func (h *httpReply) finishJSON(id json.RawMessage, resp *backends.Response, err error) {
	switch {
	case err != nil:
		if wire.AsError(err).Code == wire.Busy {
			h.w.Header().Set("Retry-After", busyRetry)
		}
		if r := RefusalOf(err); r != nil {
			r.write(h.w.Header())
		}
		refuse(h.w, h.status(err), id, err)
	case resp.Body != nil:
		h.streamJSON(id, resp)
	default:
		out := newBody()
		m := wire.Message{ID: id, Result: resp.Result}
		out.B = m.Append(out.B)
		writeJSON(h.w, http.StatusOK, out.B)
		out.Free()
	}
}

// streamJSON copies a large result without buffering it. If the backend breaks off, so does the response: the client
// must not take it for complete.
//
// A response with a Content-Length is cheaper for both ends than a chunked one. The exact length is known only at the
// end, since what follows the result in the backend's frame is not passed on; the difference, a few bytes, is padded
// with spaces.
func (h *httpReply) streamJSON(id json.RawMessage, resp *backends.Response) {
	head := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...)
	h.w.Header().Set("Content-Type", "application/json")
	if resp.AtMost > 0 {
		h.w.Header().Set("Content-Length", strconv.FormatInt(int64(len(head))+resp.AtMost+1, 10))
	}
	h.w.Write(head)
	err := resp.Body.WriteWith(h.w, func(n int64) ([]byte, error) {
		missing := max(0, resp.AtMost-n)
		if missing > maxPadding {
			return nil, errors.New("the backend's frame has too many bytes behind its result")
		}
		return append([]byte{'}'}, bytes.Repeat([]byte{' '}, int(missing))...), nil
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// status is the HTTP status for a JSON-RPC error. With a session (before 2026-07-28) it is 200, except for a Refusal.
func (h *httpReply) status(err error) int {
	if r := RefusalOf(err); r != nil {
		return r.Status
	}
	if h.session != nil {
		return http.StatusOK
	}
	switch wire.AsError(err).Code {
	case wire.Busy:
		return http.StatusServiceUnavailable
	case wire.MethodNotFound:
		return http.StatusNotFound
	case wire.HeaderMismatch, wire.MissingCapability, wire.UnsupportedVersion, wire.InvalidRequest, wire.InvalidParams, wire.ParseError:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// detach is a context for a request that may outlive its connection: it ends with the connection unless the client can
// resume.
func (h *httpReply) detach() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.r.Context()))
	stop := context.AfterFunc(h.r.Context(), func() {
		if !h.resumable() {
			cancel()
		}
	})
	h.ctx, h.cancel = ctx, cancel
	return ctx, func() { stop(); cancel() }
}
