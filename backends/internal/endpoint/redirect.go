package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Redirects of a POST (RFC 9110, section 15.4), all within the origin only, so that the configured headers are not sent to
// another one:
//
//	307, 308       the request is repeated at the new place, which has not been executed
//	301, 302, 303  an ordinary request, such as initialize or a list, is repeated once. A call is not: a server may answer so
//	               after it has executed it, and would execute it again.
//
// Permanent redirects, 308 and at a handshake 301, also apply to later requests once MCP has answered there, and until an
// answer is not MCP. All others change one request, with whatever a chain has behind them: a login proxy or a maintenance page
// is gone a moment later.

const maxRedirects = 5

// RedirectError is the error of a redirect that is not followed.
type RedirectError struct {
	text string
	// Answered says that the redirect answered a call, which may have been executed.
	Answered bool
}

func (e *RedirectError) Error() string { return e.text }

func redirectError(format string, args ...any) error {
	return &RedirectError{text: fmt.Sprintf(format, args...)}
}

// at is where requests are sent.
func (e *Endpoint) at() *url.URL {
	if u := e.moved.Load(); u != nil {
		return u
	}
	return e.url
}

// Post sends a frame: a request of a method, or with "" a notification or a response.
func (e *Endpoint) Post(ctx context.Context, method string, frame []byte, header http.Header) (*http.Response, error) {
	from := e.at()
	resp, last, kept, err := e.follow(ctx, from, method, frame, header)
	switch {
	case last == e.url, err != nil && ctx.Err() != nil:
	case err != nil || !speaksMCP(method, resp):
		e.moved.CompareAndSwap(from, nil)
	case kept != from:
		e.keep(kept)
	}
	return resp, err
}

// follow sends a frame to u and to where redirects lead. last is the place that has answered, kept the one that permanent
// redirects alone lead to.
func (e *Endpoint) follow(ctx context.Context, u *url.URL, method string, frame []byte, header http.Header) (resp *http.Response, last, kept *url.URL, err error) {
	last, kept = u, u
	for seen, turned := 0, false; seen < maxRedirects; seen++ {
		resp, err = e.do(newPost(ctx, last, frame, header))
		if err != nil || !redirects(resp.StatusCode) {
			return resp, last, kept, err
		}
		Discard(resp.Body)
		next, err := target(last, resp)
		if err != nil {
			return nil, next, nil, err
		}
		if resp.StatusCode < http.StatusTemporaryRedirect {
			if wire.MethodOf(method).Call {
				return nil, next, nil, &RedirectError{fmt.Sprintf("%s answers HTTP %d, and leads to %s: the call may have been executed", Shown(last), resp.StatusCode, Shown(next)), true}
			}
			if turned {
				return nil, next, nil, redirectError("%s answers HTTP %d behind another such redirect", Shown(last), resp.StatusCode)
			}
			turned = true
		}
		if kept == last && permanent(resp.StatusCode, method) {
			kept = next
		}
		last = next
	}
	return nil, last, nil, redirectError("more than %d redirects", maxRedirects)
}

// permanent reports whether a redirect of a request applies to later ones.
func permanent(status int, method string) bool {
	handshake := method == wire.Initialize || method == wire.Discover
	return status == http.StatusPermanentRedirect || status == http.StatusMovedPermanently && handshake
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// target is where a redirect leads.
func target(u *url.URL, resp *http.Response) (*url.URL, error) {
	next, err := u.Parse(resp.Header.Get("Location"))
	switch {
	case err != nil || resp.Header.Get("Location") == "":
		return nil, redirectError("%s answers HTTP %d without a valid Location", Shown(u), resp.StatusCode)
	case !SameOrigin(u, next):
		return nil, redirectError("%s redirects to %s, which has another origin; configure that as the url", Shown(u), Shown(next))
	}
	return next, nil
}

// keep sends later requests to u.
func (e *Endpoint) keep(u *url.URL) {
	e.moved.Store(u)
	if e.Moved != nil {
		e.Moved(u)
	}
}

// speaksMCP reports whether a response to a request of a method, or with "" to a notification or a response, can be one of an
// MCP server: by its content, or by the status of a notification.
func speaksMCP(method string, resp *http.Response) bool {
	switch MediaType(resp) {
	case JSON:
		return resp.StatusCode < 500 && beginsAsMessage(resp)
	case Events:
		return resp.StatusCode < 500
	}
	return method == "" && (resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent)
}

// maxPeek bounds what of a body shows whether it is a JSON-RPC message, in bytes.
const maxPeek = 512

// beginsAsMessage reports whether a body begins as a JSON-RPC message. What it reads is given back to the reader of the body.
func beginsAsMessage(resp *http.Response) bool {
	head := make([]byte, maxPeek)
	n, found, err := 0, false, error(nil)
	for err == nil && !found && n < maxPeek {
		var m int
		m, err = resp.Body.Read(head[n:])
		n += m
		_, found = jsonscan.FindOpen(head[:n], "jsonrpc")
	}
	resp.Body = &peeked{io.MultiReader(bytes.NewReader(head[:n]), resp.Body), resp.Body}
	return found
}

// peeked is a body whose beginning was read.
type peeked struct {
	io.Reader
	io.Closer
}
