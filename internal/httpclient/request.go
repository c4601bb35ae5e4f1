package httpclient

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// userAgent is the default User-Agent of http.Transport.
const userAgent = "Go-http-client/1.1"

// Takes reports whether this package makes the request r. Requests that http.Transport would
// refuse, retry or write differently are left to it, as are those whose body is not in memory
// (GetBody), because reading one may block.
func (t *Transport) Takes(r *http.Request) bool {
	return t.host != "" && isFor(r, t.host) && r.Header != nil &&
		(r.Method == http.MethodPost || r.Method == http.MethodGet || r.Method == http.MethodDelete) &&
		(r.ContentLength > 0) == hasBody(r) && r.ContentLength >= 0 && (!hasBody(r) || r.GetBody != nil) &&
		!r.Close && len(r.TransferEncoding) == 0 && len(r.Trailer) == 0 && hasUsualHeaders(r.Header)
}

// isFor reports whether r is a plain HTTP request to host. Its Host header may be another one.
func isFor(r *http.Request, host string) bool {
	return r.URL != nil && r.URL.Scheme == "http" && r.URL.Host == host && (r.Host == "" || r.Host == host || isPlainHost(r.Host)) &&
		r.URL.Opaque == "" && isPrintable(r.URL.RawQuery) && !strings.Contains(r.URL.RawQuery, "\t")
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// hasUsualHeaders reports whether h is valid and has no header that changes how the request is made.
func hasUsualHeaders(h http.Header) bool {
	for name, values := range h {
		switch name {
		case "Connection", "Expect", "Upgrade", "Te", "Idempotency-Key", "X-Idempotency-Key":
			return false
		}
		if !isToken(name) {
			return false
		}
		for _, v := range values {
			if !isPrintable(v) {
				return false
			}
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("-_!#$%&'*+.^`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isPrintable reports whether s has no control character but tabs.
func isPrintable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// appendHead appends the head of a request that Takes allows, as http.Request.Write writes it.
func appendHead(b []byte, r *http.Request) []byte {
	b = append(append(append(b, r.Method...), ' '), r.URL.RequestURI()...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), cmp.Or(r.Host, r.URL.Host)...)
	agent := userAgent
	if values, ok := r.Header["User-Agent"]; ok {
		if agent = ""; len(values) > 0 {
			agent = values[0]
		}
	}
	if agent != "" {
		b = append(append(b, "\r\nUser-Agent: "...), textproto.TrimString(agent)...)
	}
	if r.ContentLength > 0 || r.Method == http.MethodPost {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), r.ContentLength, 10)
	}
	var most [24]string
	names := most[:0]
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // written from the fields of the request
		}
		for _, v := range r.Header[name] {
			b = append(append(append(b, "\r\n"...), name...), ": "...)
			b = append(b, textproto.TrimString(v)...)
		}
	}
	return append(b, "\r\n\r\n"...)
}

// appendRequest appends a request with a body of at most atOnce bytes.
func appendRequest(b []byte, r *http.Request) ([]byte, error) {
	b = appendHead(b, r)
	if !hasBody(r) {
		return b, nil
	}
	from, size := len(b), int(r.ContentLength)
	b = slices.Grow(b, size+1)
	n, err := io.ReadFull(r.Body, b[from:from+size+1]) // one byte more, to check that the body ends there
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if n != size {
		return nil, fmt.Errorf("the body of the request is not %d bytes long, as its Content-Length says", size)
	}
	return b[:from+n], nil
}
