package endpoint

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Redirects of a POST (RFC 9110, section 15.4), all within the origin only, so that the configured headers are not sent to
// another one:
//
//	307, 308       the request is repeated at the new place, which has not been executed
//	301, 302, 303  an ordinary request, such as initialize or a list, is repeated once. A call is not: a server may answer so
//	               after it has executed it, and would execute it again.
//
// Permanent redirects, 308 and at a handshake 301, also apply to later requests, until an answer from the new place is not
// MCP. All others change one request: a login proxy or a maintenance page is gone a moment later.

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
	u := e.at()
	for seen, turned := 0, false; seen < maxRedirects; seen++ {
		resp, err := e.do(newPost(ctx, u, frame, header))
		if err != nil || !redirects(resp.StatusCode) {
			if err == nil || ctx.Err() == nil {
				e.judge(u, resp)
			}
			return resp, err
		}
		Discard(resp.Body)
		next, err := target(u, resp)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < http.StatusTemporaryRedirect {
			if wire.MethodOf(method).Call {
				return nil, &RedirectError{fmt.Sprintf("%s answers HTTP %d, and leads to %s: the call may have been executed", Shown(u), resp.StatusCode, Shown(next)), true}
			}
			if turned {
				return nil, redirectError("%s answers HTTP %d behind another such redirect", Shown(u), resp.StatusCode)
			}
			turned = true
		}
		if resp.StatusCode == http.StatusPermanentRedirect || resp.StatusCode == http.StatusMovedPermanently && (method == wire.Initialize || method == wire.Discover) {
			e.keep(next)
		}
		u = next
	}
	return nil, redirectError("more than %d redirects", maxRedirects)
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
	if old := e.told.Swap(u); e.Moved != nil && (old == nil || *old != *u) {
		e.Moved(u)
	}
}

// judge returns to the configured URL when what answered at u, where a redirect has led, is not MCP. resp is nil for a broken
// connection.
func (e *Endpoint) judge(u *url.URL, resp *http.Response) {
	if u == e.url || resp != nil && speaksMCP(resp) {
		return
	}
	e.moved.CompareAndSwap(u, nil)
}

// speaksMCP reports whether a response can be one of an MCP server: by its content, or by the status of a notification.
func speaksMCP(resp *http.Response) bool {
	switch MediaType(resp) {
	case JSON, Events:
		return resp.StatusCode < 500
	}
	return resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent
}
