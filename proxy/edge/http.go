package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
)

const (
	// maxPadding is how much a backend's frame may have behind its result.
	maxPadding = 1 << 20
	// streamAfter is how long an answer may take before it becomes an event stream.
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

// post serves one frame, or a batch where the revision has batches.
func (v *Server) post(w http.ResponseWriter, r *http.Request) {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" && !strings.HasPrefix(ct, "application/json;") {
		refuse(w, http.StatusUnsupportedMediaType, nil, wire.Invalid("content type %q: want application/json", ct))
		return
	}
	if !accepts(r.Header.Get("Accept")) {
		refuse(w, http.StatusNotAcceptable, nil, wire.Invalid("Accept: want application/json, text/event-stream"))
		return
	}
	buf := body.Take()
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

// accepts is lenient where no harm is done: it wants a client to take JSON or anything.
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

// httpReply is the answer to one POST: a JSON body, unless frames must go ahead of the
// result; then it becomes an event stream.
type httpReply struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	session *Session // nil for stateless clients
	polling bool     // the client's revision has SSE polling
	id      json.RawMessage
	budget  *budget         // of what its stream holds
	ctx     context.Context // of the request
	cancel  func()          // ends it; nil where losing the connection does

	mu       sync.Mutex
	stream   *stream       // guarded by mu; set when the answer became a stream
	finished bool          // guarded by mu; the answer has been given
	pumped   chan struct{} // closed when the connection is not written to any more
}

// startSoon makes the answer an event stream when the result takes long: proxies and
// clients give up on a connection that is silent, and a stream can be resumed.
func (h *httpReply) startSoon() (stop func() bool) {
	return time.AfterFunc(streamAfter, func() { h.upgrade() }).Stop
}

// Send makes the reply an event stream, puts a frame on it, and waits until there is
// room for it. What comes after the answer, or for a client that takes no stream, goes to
// the session's own stream.
func (h *httpReply) Send(frame []byte) { h.put(frame, false) }

// Request is Send for a request to the client.
func (h *httpReply) Request(frame []byte) { h.put(frame, true) }

func (h *httpReply) put(frame []byte, request bool) {
	switch s := h.upgrade(); {
	case s == nil:
	case s.request == nil:
		s.offer(frame, request)
	default:
		s.send(h.ctx, frame)
	}
}

// Offer is Send without waiting: where the client is slow, older notifications are dropped.
func (h *httpReply) Offer(frame []byte) {
	if s := h.upgrade(); s != nil {
		s.offer(frame, false)
	}
}

func (h *httpReply) upgrade() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished || !acceptsEvents(h.r.Header.Get("Accept")) {
		if h.session != nil {
			return h.session.standalone()
		}
		return nil
	}
	if h.stream == nil {
		if h.session != nil {
			h.stream = h.session.newStream()
		} else {
			h.stream = newStream("", h.budget)
		}
		h.stream.request, h.stream.cancel = h.id, h.cancel
		h.pumped = make(chan struct{})
		go h.pump(h.stream)
	}
	return h.stream
}

// pump owns the connection from the moment the answer became a stream.
func (h *httpReply) pump(s *stream) {
	defer close(h.pumped)
	startEvents(h.w, s, -1, h.polling).pump(s, h.r.Context().Done())
}

// resumable reports whether the client can come back for the answer if it loses the
// connection now.
func (h *httpReply) resumable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream != nil && h.stream.resumable
}

// finish sends the result or the error and waits until the connection is done with.
func (h *httpReply) finish(id json.RawMessage, resp *backends.Response, err error) {
	s := h.end()
	if s == nil {
		h.finishJSON(id, resp, err)
		return
	}
	s.finish(h.ctx, id, resp, err)
	if h.session != nil && h.session.endStream(s) {
		<-h.pumped
		h.session.delivered(s)
	} else {
		s.close()
		<-h.pumped
		s.discard()
	}
	if s.wasBroken() {
		panic(http.ErrAbortHandler)
	}
}

// end lets no more frames in and returns the stream, if the answer became one.
func (h *httpReply) end() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = true
	return h.stream
}

// abandon ends the reply to a client that left.
func (h *httpReply) abandon() {
	if s := h.end(); s != nil {
		s.discard()
		<-h.pumped
	}
}

// release gives a response's buffers back.
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
		out := body.Take()
		m := wire.Message{ID: id, Result: resp.Result}
		out.B = m.Append(out.B)
		writeJSON(h.w, http.StatusOK, out.B)
		out.Free()
	}
}

// streamJSON copies a large result without holding it. A backend that breaks off in the
// middle breaks the answer off too: the client must not take it for whole.
//
// An answer of known length is cheaper for both ends than one in chunks. The exact
// length is known only at the end, for what stands behind the result in the backend's
// frame is not passed on: the difference, a few bytes, is made up with spaces.
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
			return nil, errors.New("that much behind a result is no frame of MCP's")
		}
		return append([]byte{'}'}, bytes.Repeat([]byte{' '}, int(missing))...), nil
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// status is the HTTP status of a JSON-RPC error. Before 2026-07-28 errors of the
// protocol's upper half travel with 200, but for those that are about access.
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

// detach is a context for a request that may outlive its connection: it ends with the
// connection unless the client can resume.
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
