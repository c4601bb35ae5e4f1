package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/vmcp-dev/vmcp/config"
)

const (
	// issuerTimeout bounds one token request.
	issuerTimeout = 10 * time.Second
	// maxIssued bounds the response of a token endpoint, in bytes.
	maxIssued = 1 << 20
)

// issuerClient returns the HTTP client for token endpoints. It follows no redirect, because requests
// contain secrets. It uses the proxy of the environment.
func issuerClient() *http.Client { return issuerClientOf(config.Backend{}) }

// issuerClientOf returns an issuerClient that uses the TLS configuration of a backend for requests
// to the backend's host, which may be the issuer, too.
func issuerClientOf(b config.Backend) *http.Client {
	dialer := &net.Dialer{Timeout: issuerTimeout}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: issuerTimeout, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: issuerTimeout}
	return &http.Client{
		Transport:     bounded{withTLSOf(b, t)},
		Timeout:       issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}

var (
	errRedirect = errors.New("redirects of an authorization server are not followed")
	errTooLarge = fmt.Errorf("response of %d bytes or more", maxIssued)
)

// bounded refuses responses of more than maxIssued bytes.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		// One byte less than what the oauth2 library reads, because it truncates silently.
		resp.Body = &boundedBody{resp.Body, maxIssued - 1, r.Context()}
	}
	return resp, err
}

// CloseIdleConnections closes those of the wrapped transport.
func (b bounded) CloseIdleConnections() {
	if t, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type boundedBody struct {
	io.ReadCloser
	left int
	ctx  context.Context // of the request
}

// tooLarge is the context key of a *bool that is set when the response is too large: the oauth2
// library drops the error of reading a body.
type tooLarge struct{}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		if is, ok := b.ctx.Value(tooLarge{}).(*bool); ok {
			*is = true
		}
		return 0, errTooLarge
	}
	return n, err
}

// endpoint is a token endpoint with the client credentials of this proxy.
type endpoint struct {
	pool             *Pool
	client           *http.Client // nil: that of the pool
	url              string
	id, secret, file string
	inBody           atomic.Bool // client authentication is client_secret_post, not client_secret_basic
}

// ask requests a token (RFC 6749, section 3.2). It authenticates with HTTP Basic, which every
// server has to support (section 2.3.1), and after invalid_client in the body.
func (e *endpoint) ask(ctx context.Context, scopes []string, params url.Values) (*oauth2.Token, error) {
	secret := e.secret
	if e.file != "" {
		var err error
		if secret, err = readSecret(e.file); err != nil {
			return nil, unavailable("clientSecretFile: %w", err)
		}
		e.pool.hide(secret)
	}
	large := false
	ctx = context.WithValue(ctx, tooLarge{}, &large)
	inBody := e.inBody.Load() || secret == ""
	t, err := e.askAs(ctx, secret, inBody, scopes, params)
	var answer *oauth2.RetrieveError
	if !inBody && errors.As(err, &answer) && answer.ErrorCode == "invalid_client" {
		var second error
		if t, second = e.askAs(ctx, secret, true, scopes, params); second == nil {
			e.inBody.Store(true)
			err = nil
		}
	}
	switch {
	case large:
		return nil, unavailable("token endpoint %s: %w", e.url, errTooLarge)
	case err != nil:
		return nil, e.failure(ctx, err)
	}
	if kind := t.Type(); !strings.EqualFold(kind, "Bearer") {
		return nil, unavailable("token endpoint %s: the token's type is not Bearer", e.url)
	}
	if strings.IndexFunc(t.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		return nil, unavailable("token endpoint %s: the token has characters that are not allowed in a header", e.url)
	}
	return t, nil
}

func (e *endpoint) askAs(ctx context.Context, secret string, inBody bool, scopes []string, params url.Values) (*oauth2.Token, error) {
	style := oauth2.AuthStyleInHeader
	if inBody {
		style = oauth2.AuthStyleInParams
	}
	c := clientcredentials.Config{ClientID: e.id, ClientSecret: secret, TokenURL: e.url, Scopes: scopes, EndpointParams: params, AuthStyle: style}
	client := e.client
	if client == nil {
		client = e.pool.client
	}
	return c.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
}

// errorCode matches the error codes of a token endpoint that may be shown: other texts might repeat secrets
// of the request.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// failure returns the error for a failed token request. Of the response it shows the error code alone,
// because the rest may repeat secrets of the request.
func (e *endpoint) failure(ctx context.Context, err error) error {
	e.pool.o.Log.Debug("no token", "endpoint", e.url, "err", err)
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer):
		return e.answered(answer)
	case errors.Is(err, errRedirect):
		return unavailable("token endpoint %s: %w", e.url, errRedirect)
	case ctx.Err() != nil:
		return unavailable("token endpoint %s: no answer within %s", e.url, issuerTimeout)
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		return unavailable("token endpoint %s: %w", e.url, transport.Err)
	}
	return unavailable("token endpoint %s: the response is not a token", e.url)
}

// answered classifies an error response: 5xx, 408, 429 and temporary errors are unavailable, all others
// refused.
func (e *endpoint) answered(answer *oauth2.RetrieveError) error {
	status, code := answer.Response.StatusCode, answer.ErrorCode
	if !errorCode.MatchString(code) {
		code = ""
	}
	text := fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))
	if code != "" {
		text = code + " (" + text + ")"
	}
	switch {
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, code == "temporarily_unavailable", code == "server_error":
		return unavailable("token endpoint %s: %s", e.url, text)
	}
	return refused("token endpoint %s refuses a token: %s", e.url, text)
}

// ownTokens returns the source of this proxy's own token for a backend, by the client credentials grant (RFC
// 6749, section 4.4).
func ownTokens(p *Pool, c config.ClientCredentials) Source {
	e := &endpoint{pool: p, url: c.TokenURL, id: c.ClientID, secret: secretOf(c.Secret, c.ClientSecret), file: c.ClientSecretFile}
	params := url.Values{}
	for name, value := range map[string]string{"audience": c.Audience, "resource": c.Resource} {
		if value != "" {
			params.Set(name, value)
		}
	}
	return &tokens{pool: p, fetch: func(ctx context.Context) (token, error) {
		t, err := e.ask(ctx, c.Scopes, params)
		if err != nil {
			return token{}, err
		}
		return lasting(t.AccessToken, p.o.Now(), t.Expiry), nil
	}}
}

func secretOf(fromEnv, literal string) string {
	if fromEnv != "" {
		return fromEnv
	}
	return literal
}
