// Package http is an MCP server that sends HTTP requests to the hosts of an allow-list. The address of a name
// is checked when it is dialled, and redirects are followed to hosts of the list only, without the
// headers that were meant for another host.
//
//	go run ./examples/backends/http/cmd/http -allow api.example.com -allow localhost:8080 -allow-private
package http

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/guard"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Codes of refusals.
const (
	NotAllowed   = "not_allowed" // the host is not on the list
	BadArguments = "bad_arguments"
	Private      = "private_address" // the name resolves to an address that is not public
	Unreachable  = "unreachable"
	TimedOut     = "timeout"
)

const (
	maxBody      = 1 << 20 // bytes of a response that are kept
	maxRedirects = 5
)

// Options of a server. Allow is required.
type Options struct {
	// Allow are the hosts, as "host", with port 80 for http and 443 for https, or "host:port".
	Allow []string
	// AllowPrivate allows names of the list to resolve to addresses that are not public.
	AllowPrivate bool
	// Timeout bounds a request, redirects and body included. Default 15s.
	Timeout time.Duration
}

// Requests sends requests to the hosts of a list.
type Requests struct {
	allow  []string // host:port, or host, in lower case
	client *nethttp.Client
	o      Options
}

// New checks the list.
func New(o Options) (*Requests, error) {
	if len(o.Allow) == 0 {
		return nil, errors.New("want at least one -allow HOST: no host may be asked else")
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	q := &Requests{o: o}
	for _, host := range o.Allow {
		u, err := url.Parse("http://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host || strings.Contains(host, "*") {
			return nil, fmt.Errorf("-allow %s: want HOST or HOST:PORT", host)
		}
		name := canonical(u.Hostname())
		if port := u.Port(); port != "" {
			name = net.JoinHostPort(name, port)
		}
		q.allow = append(q.allow, name)
	}
	d := &net.Dialer{Timeout: 10 * time.Second}
	if !o.AllowPrivate {
		d.Control = guard.RefusePrivate
	}
	q.client = &nethttp.Client{
		// No proxy of the environment: a proxy would dial the address instead, unchecked.
		Transport: &nethttp.Transport{
			DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 10, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: q.follow,
	}
	return q, nil
}

// canonical is the canonical form of a host's name.
func canonical(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	var o Options
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	flags.Var((*toolserver.Names)(&o.Allow), "allow", "`host` or host:port that may be asked; may be given again")
	flags.BoolVar(&o.AllowPrivate, "allow-private", false, "let hosts of the list have addresses that are not public")
	flags.DurationVar(&o.Timeout, "timeout", 15*time.Second, "limit for one request")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("http: want flags only, have %q", flags.Arg(0))
	}
	q, err := New(o)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return toolserver.Serve(ctx, q.Server(), *addr)
}

// Server returns a new MCP server with the tools http_get and http_post.
func (q *Requests) Server() *mcp.Server {
	yes := true
	list := strings.Join(q.o.Allow, ", ")
	s := mcp.NewServer(&mcp.Implementation{Name: "http", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Hosts that may be asked: " + list + ".",
		Capabilities: &mcp.ServerCapabilities{},
	})
	toolserver.Add(s, &mcp.Tool{
		Name: "http_get", Title: "GET a URL",
		Description: "Send a GET request to one of the hosts " + list + ". An answer such as 404 is a result with that status, not a refusal.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &yes},
	}, func(ctx context.Context, in getIn) (*answer, error) {
		return q.send(ctx, nethttp.MethodGet, in.URL, in.Headers, "")
	})
	toolserver.Add(s, &mcp.Tool{
		Name: "http_post", Title: "POST to a URL",
		Description: "Send a POST request to one of the hosts " + list + ". An answer such as 404 is a result with that status, not a refusal.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
	}, func(ctx context.Context, in postIn) (*answer, error) {
		return q.send(ctx, nethttp.MethodPost, in.URL, in.Headers, in.Body)
	})
	return s
}

type getIn struct {
	URL     string            `json:"url" jsonschema:"an http or https URL"`
	Headers map[string]string `json:"headers,omitempty"`
}

type postIn struct {
	URL     string            `json:"url" jsonschema:"an http or https URL"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"Content-Type is application/json unless it is here"`
	Body    string            `json:"body,omitempty"`
}

type answer struct {
	URL       string            `json:"url" jsonschema:"the address after redirects"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Text      string            `json:"text,omitempty" jsonschema:"the body when it is UTF-8"`
	Base64    string            `json:"base64,omitempty" jsonschema:"the body when it is not UTF-8"`
	Truncated bool              `json:"truncated" jsonschema:"whether the body is longer than what is here"`
}

// connection are the headers of the connection, and Host, which callers may not set.
var connection = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Expect"}

func (q *Requests) send(ctx context.Context, method, raw string, headers map[string]string, body string) (*answer, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, toolserver.Errorf(BadArguments, "url: %v", errors.Unwrap(err))
	}
	if err := q.check(u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.o.Timeout)
	defer cancel()
	r, err := nethttp.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, toolserver.Errorf(BadArguments, "url: %v", err)
	}
	if method == nethttp.MethodGet {
		r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "http-backend/1.0")
	for name, value := range headers {
		if slices.Contains(connection, nethttp.CanonicalHeaderKey(name)) {
			return nil, toolserver.Errorf(BadArguments, "headers: %s may not be set by the caller", name)
		}
		if strings.ContainsFunc(name, notOfName) || name == "" || strings.ContainsAny(value, "\r\n\x00") {
			return nil, toolserver.Errorf(BadArguments, "headers: %q: %q is no valid header", name, value)
		}
		r.Header.Set(name, value)
	}
	a, err := q.do(r)
	if err != nil {
		return nil, q.refusal(u, err)
	}
	return a, nil
}

// notOfName reports whether a character is invalid in the name of a header.
func notOfName(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}

func (q *Requests) do(r *nethttp.Request) (*answer, error) {
	resp, err := q.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	a := &answer{URL: resp.Request.URL.Redacted(), Status: resp.StatusCode, Headers: map[string]string{}, Truncated: len(body) > maxBody}
	for name, values := range resp.Header {
		a.Headers[name] = strings.Join(values, ", ")
	}
	body = body[:min(len(body), maxBody)]
	if text, ok := asText(body, a.Truncated); ok {
		a.Text = text
	} else {
		a.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	return a, nil
}

// asText returns a body as text, if it is UTF-8. If it was cut, an incomplete character at the end is removed.
func asText(body []byte, cut bool) (string, bool) {
	for i := 0; ; i++ {
		if utf8.Valid(body) {
			return string(body), true
		}
		if !cut || i == utf8.UTFMax-1 || len(body) == 0 {
			return "", false
		}
		body = body[:len(body)-1]
	}
}

// check returns an error unless the URL may be requested.
func (q *Requests) check(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return toolserver.Errorf(BadArguments, "url: want an http or https URL, have %q", u.Redacted())
	}
	if u.User != nil {
		return toolserver.Errorf(BadArguments, "url: want one without a user and password; send the header Authorization")
	}
	host := canonical(u.Hostname())
	port := u.Port()
	standard := port == "" || port == map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if standard && slices.Contains(q.allow, host) || slices.Contains(q.allow, net.JoinHostPort(host, port)) {
		return nil
	}
	return toolserver.Errorf(NotAllowed, "%s may not be asked; want one of %s", u.Host, strings.Join(q.o.Allow, ", "))
}

// follow allows redirects to hosts of the list, and removes the headers for a redirect to another origin.
func (q *Requests) follow(r *nethttp.Request, via []*nethttp.Request) error {
	if len(via) > maxRedirects {
		return toolserver.Errorf(Unreachable, "more than %d redirects", maxRedirects)
	}
	if err := q.check(r.URL); err != nil {
		return fmt.Errorf("redirect: %w", err)
	}
	if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		kept := nethttp.Header{"User-Agent": r.Header["User-Agent"]}
		if types := r.Header["Content-Type"]; types != nil && r.Method != nethttp.MethodGet {
			kept["Content-Type"] = types
		}
		r.Header = kept
	}
	return nil
}

func (q *Requests) refusal(u *url.URL, err error) error {
	var known *toolserver.Error
	switch {
	case errors.As(err, &known):
		return toolserver.Errorf(known.Code, "%s: %s", u.Redacted(), known.Message)
	case errors.Is(err, context.DeadlineExceeded):
		return toolserver.Errorf(TimedOut, "%s: no complete response within %s", u.Redacted(), q.o.Timeout)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return toolserver.Errorf(Unreachable, "%s: %v", u.Redacted(), err)
}
