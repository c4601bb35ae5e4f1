// Package endpoint makes the HTTP requests to the endpoint of a backend: the headers that all of
// them carry, redirects within its origin, event streams.
package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
)

// Types of content.
const (
	JSON   = "application/json"
	Events = "text/event-stream"
)

const (
	maxRedirects = 5
	// maxRest is how much of a body is read that nobody wants.
	maxRest = 64 << 10
)

// Transport is a pool of HTTP connections for the backend at u, which may be nil: wide enough for
// the concurrency of many clients, and HTTP/1.1, where one call cannot hold up another. conf is
// for https; it may be nil.
func Transport(u *url.URL, conf *tls.Config) *httpclient.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return httpclient.New(u, &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     conf,
		DisableCompression:  true,
		Protocols:           httpOne(),
	})
}

func httpOne() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// Endpoint is where requests go, and with which headers.
type Endpoint struct {
	do         func(*http.Request) (*http.Response, error)
	failed     func(*http.Response)
	url        atomic.Pointer[url.URL]
	configured *atomic.Pointer[http.Header] // the values that it holds are never changed
	joined     atomic.Pointer[joined]

	mu  sync.Mutex
	own http.Header // guarded by mu: of the protocol, by Set
}

// joined is what requests carry, made of what was configured at one moment.
type joined struct {
	configured *http.Header
	header     http.Header
}

// New is the endpoint at u. do makes a request; headers go with each, beside those of the
// protocol: what is stored there later goes with every request from then on. failed takes the
// answers to Get that are no event streams, and closes them.
func New(u *url.URL, headers *atomic.Pointer[http.Header], do func(*http.Request) (*http.Response, error), failed func(*http.Response)) *Endpoint {
	e := &Endpoint{do: do, failed: failed, configured: headers}
	e.own = http.Header{"Content-Type": {JSON}, "Accept": {JSON + ", " + Events}}
	e.url.Store(u)
	return e
}

// Header is what requests carry. It must not be changed.
func (e *Endpoint) Header() http.Header {
	configured := e.configured.Load()
	if j := e.joined.Load(); j != nil && j.configured == configured {
		return j.header
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.join(configured)
}

// join puts the configured headers and those of the protocol together. mu is held.
func (e *Endpoint) join(configured *http.Header) http.Header {
	header := maps.Clone(*configured)
	maps.Copy(header, e.own)
	e.joined.Store(&joined{configured, header})
	return header
}

// Set changes a header of all later requests.
func (e *Endpoint) Set(key, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.own[key] = []string{value}
	e.join(e.configured.Load())
}

// RedirectError is the error of a redirect that is not followed.
type RedirectError struct{ text string }

func (e *RedirectError) Error() string { return e.text }

func redirectError(format string, args ...any) error {
	return &RedirectError{fmt.Sprintf(format, args...)}
}

// Post sends a frame. Redirects are followed within the origin only, so that the
// configured headers never reach anybody else.
func (e *Endpoint) Post(ctx context.Context, frame []byte, header http.Header) (*http.Response, error) {
	for range maxRedirects {
		u := e.url.Load()
		resp, err := e.do(newPost(ctx, u, frame, header))
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp, nil
		}
		Discard(resp.Body)
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || resp.Header.Get("Location") == "" {
			return nil, redirectError("%s answers HTTP %d without a Location that is a URL", Shown(u), resp.StatusCode)
		}
		if !SameOrigin(u, next) {
			return nil, redirectError("%s redirects to %s, which is another origin; set that as the url", Shown(u), Shown(next))
		}
		e.url.Store(next)
	}
	return nil, redirectError("more than %d redirects", maxRedirects)
}

// PostTo sends a frame to another URL.
func (e *Endpoint) PostTo(ctx context.Context, u *url.URL, frame []byte) (*http.Response, error) {
	return e.do(newPost(ctx, u, frame, e.Header()))
}

func newPost(ctx context.Context, u *url.URL, frame []byte, header http.Header) *http.Request {
	body := func() (io.ReadCloser, error) {
		b := new(frameBody)
		b.Reset(frame)
		return b, nil
	}
	r := (&http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(frame)), GetBody: body,
	}).WithContext(ctx)
	r.Body, _ = body()
	return r
}

// frameBody is a frame as the body of a request.
type frameBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*frameBody) Close() error { return nil }

// Delete ends the session that the headers name.
func (e *Endpoint) Delete(ctx context.Context) (*http.Response, error) {
	r := newPost(ctx, e.url.Load(), nil, e.Header())
	r.Method, r.Body, r.GetBody = http.MethodDelete, nil, nil
	return e.do(r)
}

// StatusError is an HTTP answer that is no JSON-RPC answer. It does not hold what the answer
// says, which may repeat the credentials that were sent.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Code, http.StatusText(e.Code)))
}

// Parse checks the URL of a backend.
func Parse(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("url: want http:// or https:// and a host")
	}
	return u, nil
}

// Shown is a URL for messages: what may hold credentials is left out.
func Shown(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// SameOrigin reports whether two URLs are of one origin.
func SameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// Discard reads what is left of a short body, so that its connection can be used again.
func Discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, maxRest)
	body.Close()
}

// MediaType is the type of an answer's content, without parameters.
func MediaType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
