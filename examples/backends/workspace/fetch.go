package workspace

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/guard"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

const (
	maxBody      = 1 << 20
	maxRedirects = 5
)

func (w *Workspace) addFetchTool(s *mcp.Server) {
	toolserver.Add(s, &mcp.Tool{
		Name: "fetch", Title: "Fetch a URL",
		Description: "GET an http or https URL of the public internet. An answer such as 404 is a result with that status, not a refusal.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: hint(true)},
	}, w.fetch)
}

type fetchIn struct {
	URL      string `json:"url" jsonschema:"an http or https URL"`
	MaxBytes int64  `json:"maxBytes,omitempty" jsonschema:"bytes of the body to keep; default and limit: 1 MiB"`
}

type fetchOut struct {
	URL         string `json:"url" jsonschema:"the address after redirects"`
	Status      int    `json:"status"`
	ContentType string `json:"contentType,omitempty"`
	Text        string `json:"text,omitempty" jsonschema:"the body when it is UTF-8"`
	Base64      string `json:"base64,omitempty" jsonschema:"the body when it is not UTF-8"`
	Truncated   bool   `json:"truncated" jsonschema:"whether the body is longer than what is here"`
}

func (w *Workspace) fetch(ctx context.Context, in fetchIn) (*fetchOut, error) {
	u, err := url.Parse(in.URL)
	if err != nil {
		return nil, toolserver.Errorf("bad_arguments", "fetch: %v", err)
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.FetchTimeout)
	defer cancel()
	out, err := w.get(ctx, u, in.MaxBytes)
	if err != nil {
		return nil, w.fetchError(in.URL, err)
	}
	return out, nil
}

func (w *Workspace) get(ctx context.Context, u *url.URL, limit int64) (*fetchOut, error) {
	if limit <= 0 || limit > maxBody {
		limit = maxBody
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "workspace-fetch/1.0")
	resp, err := w.web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	out := &fetchOut{URL: resp.Request.URL.Redacted(), Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type")}
	out.Truncated = int64(len(body)) > limit
	out.Text, out.Base64 = textOrBase64(body[:min(int64(len(body)), limit)])
	return out, nil
}

func (w *Workspace) fetchError(raw string, err error) error {
	var refusal *toolserver.Error
	switch {
	case errors.As(err, &refusal):
		return toolserver.Errorf(refusal.Code, "fetch %s: %s", raw, refusal.Message)
	case errors.Is(err, context.DeadlineExceeded):
		return toolserver.Errorf("timeout", "fetch %s: no complete response within %s", raw, w.o.FetchTimeout)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return toolserver.Errorf("unreachable", "fetch %s: %v", raw, err)
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return toolserver.Errorf("bad_arguments", "want an http or https URL, have %q", u.Redacted())
	case u.Hostname() == "":
		return toolserver.Errorf("bad_arguments", "no host in %q", u.Redacted())
	case u.User != nil:
		return toolserver.Errorf("bad_arguments", "want a URL without a user and password, have %q", u.Redacted())
	}
	return nil
}

// newClient returns a client that checks the address of every connection when it dials it, also
// after a redirect, whatever the name resolved to before. It uses
// no proxy of the environment: a proxy would dial the address instead, unchecked.
func newClient(allow []string) *http.Client {
	d := dialer{
		guarded: net.Dialer{Timeout: 10 * time.Second, Control: guard.RefusePrivate},
		plain:   net.Dialer{Timeout: 10 * time.Second},
		allow:   allow,
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            d.dial,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns:           10,
			IdleConnTimeout:        30 * time.Second,
		},
		CheckRedirect: checkRedirect,
	}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return toolserver.Errorf("unreachable", "more than %d redirects", maxRedirects)
	}
	return checkURL(req.URL)
}

// dialer refuses private addresses, except for hosts that the operator allowed.
type dialer struct {
	guarded, plain net.Dialer
	allow          []string
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if slices.Contains(d.allow, host) || slices.Contains(d.allow, addr) {
		return d.plain.DialContext(ctx, network, addr)
	}
	return d.guarded.DialContext(ctx, network, addr)
}
