package conn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	maxErrorBody = 64 << 10
	// endTime bounds the DELETE of a session.
	endTime = 2 * time.Second
)

// ErrPage is the cause of a Protocol error: something in front of the backend answers.
var ErrPage = errors.New("a web page came in place of a response, as of a login or of a proxy (content type text/html)")

// httpTransport is a transport over Streamable HTTP: every call is a POST with its own response.
type httpTransport struct {
	c      *Conn
	at     *endpoint.Endpoint
	id     atomic.Pointer[string]        // of the session; nil before initialize
	began  atomic.Pointer[url.URL]       // where the session was opened; nil: by another process
	stream atomic.Pointer[sessionStream] // nil while there is none
}

func newHTTPTransport(c *Conn, u *url.URL) *httpTransport {
	h := &httpTransport{c: c, at: endpoint.New(u, &c.d.headers, c.roundTrip, func(resp *http.Response) { c.d.failedBody(resp) })}
	h.at.Moved = c.d.noteMove
	return h
}

// noteMove logs where a permanent redirect leads, once for all connections.
func (d *Dialer) noteMove(to *url.URL) {
	if old := d.moved.Swap(to); old == nil || *old != *to {
		d.o.Log.Info("backend has moved: requests are sent to where it redirects until an answer from there is not MCP", "url", endpoint.Shown(to))
	}
}

// headers returns the request headers of k.
func (h *httpTransport) headers(k *call) http.Header {
	base := h.at.Header()
	passed := k.passedHeader()
	if !k.modern && passed == nil {
		return base
	}
	header := make(http.Header, len(base)+len(k.header)+len(passed)+3)
	maps.Copy(header, passed)
	maps.Copy(header, base)
	if !k.modern {
		return header
	}
	header[wire.HeaderVersion] = []string{wire.Rev2607}
	header[wire.HeaderMethod] = []string{k.method}
	if name, ok := wire.MethodOf(k.method).NameIn(k.params); ok && name != "" {
		header[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	}
	for key, values := range k.header {
		if len(key) > len(wire.HeaderParamPrefix) && strings.EqualFold(key[:len(wire.HeaderParamPrefix)], wire.HeaderParamPrefix) {
			header[key] = values
		}
	}
	return header
}

// discard reads the rest of a short body, so that its connection can be used again.
func discard(body io.ReadCloser) { endpoint.Discard(body) }

// post sends a frame, see [endpoint.Endpoint.Post].
func (h *httpTransport) post(ctx context.Context, method string, frame []byte, header http.Header) (*http.Response, error) {
	resp, err := h.at.Post(ctx, method, frame, header)
	if err == nil {
		return resp, nil
	}
	var redirect *endpoint.RedirectError
	if errors.As(err, &redirect) {
		kind := Protocol
		if redirect.Answered {
			kind = Interrupted
		}
		err = h.c.d.Errorf(kind, "%w", redirect)
	}
	return nil, err
}

func (h *httpTransport) roundTrip(k *call) (*Response, error) {
	d := h.c.d
	resp, err := h.post(k.ctx, k.method, k.frame, h.headers(k))
	if err != nil {
		return nil, d.Failure(k.ctx, err, true)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, h.refused(k, resp)
	}
	if k.method == wire.Initialize {
		h.begin(resp)
	}
	switch endpoint.MediaType(resp) {
	case endpoint.JSON:
		return h.readJSON(k, resp)
	case endpoint.Events:
		return h.readEvents(k, resp)
	}
	endpoint.Discard(resp.Body)
	if endpoint.MediaType(resp) == "text/html" {
		return nil, d.Errorf(Protocol, "%s: %w", k.method, ErrPage)
	}
	return nil, d.Errorf(Protocol, "%s: response has content type %q, want %s or %s", k.method, d.brief([]byte(resp.Header.Get("Content-Type"))), endpoint.JSON, endpoint.Events)
}

// begin stores the session id of the response to initialize.
func (h *httpTransport) begin(resp *http.Response) {
	if id := resp.Header.Get(wire.HeaderSession); id != "" {
		h.id.Store(&id)
		h.began.Store(resp.Request.URL)
		h.at.Set(wire.HeaderSession, id)
	}
}

// readJSON reads a response of up to one buffer whole, and streams the result of a
// larger one.
func (h *httpTransport) readJSON(k *call, resp *http.Response) (*Response, error) {
	held, n, complete, err := ReadHead(resp)
	switch {
	case err != nil:
		resp.Body.Close()
		held.Release()
		return nil, h.c.d.Failure(k.ctx, err, true)
	case complete:
		resp.Body.Close()
		return h.answer(k, held.B[:n], held)
	}
	if start, ok := wire.SkimResult(held.B[:n]); ok {
		if from, to := jsonscan.Find(held.B[:start], "id"); from >= 0 && h.c.lookup(held.B[from:to]) != k {
			resp.Body.Close()
			held.Release()
			return nil, k.Malformed(errors.New("the response is to another request"))
		}
		return &Response{Body: NewStream(k, k.clock, resp.Body, held, start, n), AtMost: max(0, resp.ContentLength-int64(start)-1)}, nil
	}
	defer resp.Body.Close()
	defer held.Release()
	rest, err := io.ReadAll(io.LimitReader(resp.Body, h.c.d.o.MaxMessage))
	if err != nil {
		return nil, h.c.d.Failure(k.ctx, err, true)
	}
	if int64(len(rest)) == h.c.d.o.MaxMessage {
		return nil, h.c.d.Errorf(TooLarge, "%s: response is larger than %d bytes", k.method, h.c.d.o.MaxMessage)
	}
	return h.answer(k, append(bytes.Clone(held.B[:n]), rest...), nil)
}

// answer returns the response of a frame, which must be that to k. held is the frame's buffer, or nil.
func (h *httpTransport) answer(k *call, frame []byte, held *Buffer) (*Response, error) {
	m, err := wire.Skim(frame)
	if err == nil && !m.IsResponse() {
		err = errors.New("the response has neither a result nor an error")
	}
	if err == nil && h.c.lookup(m.ID) != k && (m.ID != nil || m.Error == nil) {
		err = fmt.Errorf("the response is to another request: its id is %s, not %d", cmp.Or(h.c.d.brief(m.ID), "null"), k.id)
	}
	if err != nil {
		if held != nil {
			held.Release()
		}
		return nil, h.c.d.Errorf(Protocol, "%s: %v", k.method, err) // %v: not an error response of the backend
	}
	return k.respond(&m, held)
}

// failedBody reads the body of an error response, and logs its start at debug level.
func (d *Dialer) failedBody(resp *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	if len(body) > 0 && d.o.Log.Enabled(d.ctx, slog.LevelDebug) {
		d.o.Log.Debug("body of an error response", "status", resp.StatusCode, "body", d.brief(body))
	}
	return body
}

// refused returns the error for a response that is not 200. The connection stays usable,
// unless the backend has forgotten the session.
func (h *httpTransport) refused(k *call, resp *http.Response) error {
	body := h.c.d.failedBody(resp)
	status := &endpoint.StatusError{Code: resp.StatusCode}
	m, err := wire.Skim(body)
	if h.forgotten(k, resp, err == nil && m.Error != nil) {
		h.c.Fail(ErrSessionGone)
		return &Error{Backend: h.c.d.name, Kind: Unavailable, Err: ErrSessionGone}
	}
	if err == nil && m.Error != nil && (m.ID != nil || k.modern || k.method == wire.Initialize) {
		return wire.ParseErrorObject(m.Error)
	}
	return &Error{Backend: h.c.d.name, Kind: kindOfStatus(resp.StatusCode), Err: fmt.Errorf("%s: %w", k.method, status)}
}

// forgotten reports whether a response means that the backend has forgotten the session: 404, or 400 of some servers if a ping
// gets it, too. From another place than where the session was opened, where a redirect has led, it means that only as MCP.
func (h *httpTransport) forgotten(k *call, resp *http.Response, isMCP bool) bool {
	status := resp.StatusCode
	if h.id.Load() == nil || status != http.StatusNotFound && status != http.StatusBadRequest {
		return false
	}
	if began := h.began.Load(); !isMCP && began != nil && *began != *resp.Request.URL {
		return false
	}
	if status == http.StatusNotFound || k.method == wire.Ping {
		return true
	}
	_, err := h.c.Request(k.ctx, wire.Ping, nil)
	return errors.Is(err, ErrSessionGone)
}

// kindOfStatus returns the kind of a call's failure by an HTTP status without a JSON-RPC error.
func kindOfStatus(code int) Kind {
	switch code {
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return Unavailable
	}
	if code >= 500 {
		return Interrupted
	}
	return Protocol
}

func (h *httpTransport) send(ctx context.Context, frame []byte) error {
	resp, err := h.post(ctx, "", frame, h.at.Header())
	if err != nil {
		return err
	}
	endpoint.Discard(resp.Body)
	if resp.StatusCode > 299 {
		return &endpoint.StatusError{Code: resp.StatusCode}
	}
	return nil
}

// cancel notifies a legacy backend; for a modern one the end of its stream is the cancellation.
func (h *httpTransport) cancel(k *call) {
	if !k.modern && k.method != wire.Initialize {
		h.c.later(encodeCancelled(k.id))
	}
}

// close ends the session, if there is one.
func (h *httpTransport) close() {
	if h.id.Load() == nil || errors.Is(h.c.Cause(), ErrSessionGone) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.c.ctx), endTime)
	defer cancel()
	if resp, err := h.at.Delete(ctx); err == nil {
		endpoint.Discard(resp.Body)
	}
}
