package backends

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	contentJSON   = "application/json"
	contentEvents = "text/event-stream"
	maxRedirects  = 5
	maxErrorBody  = 64 << 10
)

// newTransport is a connection pool for one backend: wide enough for the concurrency of
// many clients, and plain HTTP/1.1, where one call cannot hold up another.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		Protocols:           httpOne(),
	}
}

func httpOne() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// httpLink is a link over Streamable HTTP: every call is a POST with its own answer.
type httpLink struct {
	c      *conn
	url    atomic.Pointer[url.URL]
	header atomic.Pointer[http.Header] // sent with every request; replaced, never changed
	id     atomic.Pointer[string]      // the session's, once known

	asked chan struct{} // closed when the backend has answered whether it has a stream of its own
}

func newHTTPLink(c *conn, u *url.URL) *httpLink {
	h := &httpLink{c: c, asked: make(chan struct{})}
	h.url.Store(u)
	header := c.b.headers.Clone()
	header["Content-Type"] = []string{contentJSON}
	header["Accept"] = []string{contentJSON + ", " + contentEvents}
	h.header.Store(&header)
	return h
}

// set changes a header of all later requests.
func (h *httpLink) set(key, value string) {
	header := maps.Clone(*h.header.Load())
	header[key] = []string{value}
	h.header.Store(&header)
}

// headers are the request headers of k.
func (h *httpLink) headers(k *call) http.Header {
	base := *h.header.Load()
	if !k.modern {
		return base
	}
	header := make(http.Header, len(base)+len(k.header)+3)
	maps.Copy(header, base)
	header[wire.HeaderVersion] = []string{wire.Rev2607}
	header[wire.HeaderMethod] = []string{k.method}
	if name := nameOf(k); name != "" {
		header[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	}
	for key, values := range k.header {
		if len(key) > len(wire.HeaderParamPrefix) && strings.EqualFold(key[:len(wire.HeaderParamPrefix)], wire.HeaderParamPrefix) {
			header[key] = values
		}
	}
	return header
}

// nameOf is what the Mcp-Name header of a modern request says.
func nameOf(k *call) string {
	switch k.method {
	case wire.ToolsCall, wire.PromptsGet:
		return wire.GetString(k.params, "name")
	case wire.ResourcesRead:
		return wire.GetString(k.params, "uri")
	}
	return ""
}

// post sends a frame. Redirects are followed within the origin only, so that the
// configured headers never reach anybody else.
func (h *httpLink) post(ctx context.Context, frame []byte, header http.Header) (*http.Response, error) {
	for range maxRedirects {
		u := h.url.Load()
		resp, err := h.c.b.http.RoundTrip(newPost(ctx, u, frame, header))
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp, nil
		}
		discard(resp.Body)
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || resp.Header.Get("Location") == "" || !sameOrigin(u, next) {
			return nil, h.c.b.errorf(Protocol, "%s redirects to %q, which is another origin; set that as the url", u.Redacted(), resp.Header.Get("Location"))
		}
		h.url.Store(next)
	}
	return nil, h.c.b.errorf(Protocol, "more than %d redirects", maxRedirects)
}

func newPost(ctx context.Context, u *url.URL, frame []byte, header http.Header) *http.Request {
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(frame)), nil }
	r := (&http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(frame)), GetBody: body,
	}).WithContext(ctx)
	r.Body, _ = body()
	return r
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// discard reads what is left of a short body, so that its connection can be used again.
func discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, maxErrorBody)
	body.Close()
}

func (h *httpLink) roundTrip(k *call) (*Response, error) {
	b := h.c.b
	resp, err := h.post(k.ctx, k.frame, h.headers(k))
	if err != nil {
		return nil, b.failure(k.ctx, err, true)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, h.refused(k, resp)
	}
	if k.method == wire.Initialize {
		h.begin(resp)
	}
	switch mediaType(resp) {
	case contentJSON:
		return h.readJSON(k, resp)
	case contentEvents:
		return h.readEvents(k, resp)
	}
	discard(resp.Body)
	return nil, b.errorf(Protocol, "%s: answer has content type %q, want %s or %s", k.method, resp.Header.Get("Content-Type"), contentJSON, contentEvents)
}

// begin remembers the session that initialize opened.
func (h *httpLink) begin(resp *http.Response) {
	if id := resp.Header.Get(wire.HeaderSession); id != "" {
		h.id.Store(&id)
		h.set(wire.HeaderSession, id)
	}
}

func mediaType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// readJSON reads an answer of up to one buffer whole, and streams the result of a
// larger one.
func (h *httpLink) readJSON(k *call, resp *http.Response) (*Response, error) {
	held, n, complete, err := readHead(resp)
	switch {
	case err != nil:
		resp.Body.Close()
		held.release()
		return nil, h.c.b.failure(k.ctx, err, true)
	case complete:
		resp.Body.Close()
		return h.answer(k, held.b[:n], held)
	}
	if start, ok := wire.SkimResult(held.b[:n]); ok {
		return &Response{Body: newStream(k, resp.Body, held, start, n), AtMost: max(0, resp.ContentLength-int64(start)-1)}, nil
	}
	defer resp.Body.Close()
	defer held.release()
	rest, err := io.ReadAll(io.LimitReader(resp.Body, h.c.b.maxMessage))
	if err != nil {
		return nil, h.c.b.failure(k.ctx, err, true)
	}
	if int64(len(rest)) == h.c.b.maxMessage {
		return nil, h.c.b.errorf(TooLarge, "%s: answer is larger than %d bytes", k.method, h.c.b.maxMessage)
	}
	return h.answer(k, append(bytes.Clone(held.b[:n]), rest...), nil)
}

// readHead reads the body into a buffer until its end or until largeAnswer bytes are
// read, which leaves complete false. Of a body that is known to be larger it reads what
// is there, if the result begins in it, but not so little that small writes follow.
func readHead(resp *http.Response) (held *buffer, n int, complete bool, err error) {
	size := smallAnswer
	if resp.ContentLength >= smallAnswer {
		size = largeAnswer
	}
	held = grab(size)
	early := resp.ContentLength > largeAnswer
	for {
		m, err := resp.Body.Read(held.b[n:])
		n += m
		if err == io.EOF {
			return held, n, true, nil
		}
		if err != nil {
			return held, n, false, err
		}
		if early && n > smallAnswer {
			if _, ok := wire.SkimResult(held.b[:n]); ok {
				return held, n, false, nil
			}
			early = false
		}
		if n < len(held.b) {
			continue
		}
		if len(held.b) == largeAnswer {
			return held, n, false, nil
		}
		bigger := grab(largeAnswer)
		copy(bigger.b, held.b)
		held.release()
		held = bigger
	}
}

// answer takes the answer frame to k. held, if any, is its buffer.
func (h *httpLink) answer(k *call, frame []byte, held *buffer) (*Response, error) {
	m, err := wire.Skim(frame)
	if err == nil && !m.IsResponse() {
		err = errors.New("no result and no error")
	}
	if err != nil {
		if held != nil {
			held.release()
		}
		return nil, h.c.b.errorf(Protocol, "%s: %w", k.method, err)
	}
	return answered(&m, held)
}

// statusError is an HTTP answer that is no JSON-RPC answer.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("HTTP %d %s", e.code, http.StatusText(e.code))
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}

// refused makes an error of an answer that is not 200. It never harms the connection,
// except for a session that the backend no longer knows.
func (h *httpLink) refused(k *call, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	status := &statusError{code: resp.StatusCode, text: brief(body)}
	if h.forgotten(k, resp.StatusCode) {
		h.c.fail(errSessionGone)
		return &Error{Backend: h.c.b.name, Kind: Unavailable, Err: errSessionGone}
	}
	m, err := wire.Skim(body)
	if err == nil && m.Error != nil && (m.ID != nil || k.modern || k.method == wire.Initialize) {
		return wire.ParseErrorObject(m.Error)
	}
	return &Error{Backend: h.c.b.name, Kind: kindOfStatus(resp.StatusCode), Err: fmt.Errorf("%s: %w", k.method, status)}
}

// forgotten reports whether a status means that the backend does not know the session
// any more: 404 says so; some servers say 400, which then a ping gets, too.
func (h *httpLink) forgotten(k *call, status int) bool {
	if h.id.Load() == nil || status != http.StatusNotFound && status != http.StatusBadRequest {
		return false
	}
	if status == http.StatusNotFound || k.method == wire.Ping {
		return true
	}
	_, err := h.c.request(k.ctx, wire.Ping, nil)
	return errors.Is(err, errSessionGone)
}

// kindOfStatus says what an HTTP status without a JSON-RPC answer means for a call.
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

// brief is the start of a body as one line for an error message.
func brief(body []byte) string {
	const most = 200
	s := strings.Join(strings.Fields(string(body[:min(len(body), most)])), " ")
	return strings.ToValidUTF8(s, "?")
}

func (h *httpLink) send(ctx context.Context, frame []byte) error {
	header := *h.header.Load()
	resp, err := h.post(ctx, frame, header)
	if err != nil {
		return err
	}
	discard(resp.Body)
	if resp.StatusCode > 299 {
		return &statusError{code: resp.StatusCode}
	}
	return nil
}

// cancel tells a legacy backend; to a modern one the closed stream said it already.
func (h *httpLink) cancel(k *call) {
	if !k.modern && k.method != wire.Initialize {
		h.c.reply(cancelFrame(k))
	}
}

// close ends the session, if there is one.
func (h *httpLink) close() {
	if h.id.Load() == nil || errors.Is(h.c.cause(), errSessionGone) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.c.ctx), endGrace)
	defer cancel()
	r := newPost(ctx, h.url.Load(), nil, *h.header.Load())
	r.Method, r.Body, r.GetBody = http.MethodDelete, nil, nil
	if resp, err := h.c.b.http.RoundTrip(r); err == nil {
		discard(resp.Body)
	}
}
