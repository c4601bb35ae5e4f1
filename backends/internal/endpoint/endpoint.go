// Package endpoint makes the HTTP requests to the endpoint of a backend: common headers, redirects
// within its origin, event streams.
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

// maxRest bounds the rest of a body that is read and discarded, in bytes.
const maxRest = 64 << 10

// Transport returns a pool of HTTP/1.1 connections, on which calls cannot block each other, for the
// backend at u, which may be nil. conf is for https; it may be nil.
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

// Endpoint is a URL with the headers of requests to it.
type Endpoint struct {
	do         func(*http.Request) (*http.Response, error)
	failed     func(*http.Response)
	url        *url.URL                     // as configured
	moved      atomic.Pointer[url.URL]      // where a permanent redirect has led; nil: nowhere
	configured *atomic.Pointer[http.Header] // its values are not modified
	joined     atomic.Pointer[joined]

	// Moved is called when a permanent redirect is kept; it may be nil.
	Moved func(to *url.URL)

	mu  sync.Mutex
	own http.Header // guarded by mu: headers of the protocol, by Set
}

// joined has the headers of requests, made from the configured ones of one moment.
type joined struct {
	configured *http.Header
	header     http.Header
}

// New returns the endpoint at u. do makes a request. headers are added to each request; a value
// stored there later applies to later requests. failed handles and closes the responses to Get
// that are not event streams.
func New(u *url.URL, headers *atomic.Pointer[http.Header], do func(*http.Request) (*http.Response, error), failed func(*http.Response)) *Endpoint {
	e := &Endpoint{do: do, failed: failed, url: u, configured: headers}
	e.own = http.Header{"Content-Type": {JSON}, "Accept": {JSON + ", " + Events}}
	return e
}

// Header returns the headers of requests. It must not be modified.
func (e *Endpoint) Header() http.Header {
	configured := e.configured.Load()
	if j := e.joined.Load(); j != nil && j.configured == configured {
		return j.header
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.join(configured)
}

// join merges the configured headers and those of the protocol. mu is held.
func (e *Endpoint) join(configured *http.Header) http.Header {
	header := maps.Clone(*configured)
	maps.Copy(header, e.own)
	e.joined.Store(&joined{configured, header})
	return header
}

// Set sets a header of all later requests.
func (e *Endpoint) Set(key, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.own[key] = []string{value}
	e.join(e.configured.Load())
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

// frameBody is a request body with a frame.
type frameBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*frameBody) Close() error { return nil }

// Delete ends the session that the headers name.
func (e *Endpoint) Delete(ctx context.Context) (*http.Response, error) {
	r := newPost(ctx, e.at(), nil, e.Header())
	r.Method, r.Body, r.GetBody = http.MethodDelete, nil, nil
	return e.do(r)
}

// StatusError is the error for an HTTP response without a JSON-RPC response. It does not contain
// the body, which may repeat credentials of the request.
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

// Shown returns a URL for messages, without user info and query, which may contain credentials.
func Shown(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// SameOrigin reports whether two URLs have the same origin.
func SameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// Discard reads the rest of a short body and closes it, so that its connection can be used again.
func Discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, maxRest)
	body.Close()
}

// MediaType returns the media type of a response, without parameters.
func MediaType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
