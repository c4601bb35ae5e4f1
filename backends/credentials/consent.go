package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// A Consent is one login at a backend: the authorization code flow with PKCE (RFC 6749, section
// 4.1; RFC 7636).
type Consent struct {
	Backend config.Backend
	// Redirect is the redirect URI, to which the authorization server sends the browser back.
	Redirect string
	// Ask opens the authorization URL in the person's browser and returns the query with which the browser
	// returns.
	Ask func(ctx context.Context, url string) (url.Values, error)
	// Scopes are requested in addition to those of the configuration or the backend.
	Scopes []string
}

// firstRequests are the first requests of clients of either protocol era. The 401 response to one
// names the authorization server.
var firstRequests = []struct {
	header http.Header
	body   string
}{
	{http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"server/discover"}},
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"vmcp","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`},
	{http.Header{},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"vmcp","version":"1"}}}`},
}

// LogIn performs a login and returns its grant. The authorization server is discovered as the MCP
// specification says: from the backend's response to a request without a token (RFC 9728) and the
// server's metadata (RFC 8414).
func LogIn(ctx context.Context, c Consent) (*Grant, error) {
	if c.Backend.Outgoing == nil || c.Backend.Outgoing.Type != config.Login {
		return nil, fmt.Errorf("backend %s: its outgoingAuth.type is not oauth", c.Backend.Name)
	}
	client, err := loginClient(c.Backend, c.Backend.Outgoing.OAuth.AllowPrivateIP)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	resp, err := challenge(ctx, client, c.Backend)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", c.Backend.Name, err)
	}
	l := &consenting{Consent: c}
	conf, err := l.handler(client)
	if err != nil {
		return nil, err
	}
	h, err := auth.NewAuthorizationCodeHandler(conf)
	if err != nil {
		return nil, err
	}
	if err := h.Authorize(ctx, resp.Request, resp); err != nil {
		return nil, fmt.Errorf("backend %s: login: %w", c.Backend.Name, withoutBody(err))
	}
	if l.grant == nil {
		return nil, fmt.Errorf("backend %s: a request without a token is answered with HTTP %d, want 401 with a login challenge", c.Backend.Name, resp.StatusCode)
	}
	return l.grant, nil
}

// consenting is a login in progress.
type consenting struct {
	Consent
	resource string // of the authorization request (RFC 8707)
	grant    *Grant // nil until there is one
}

// handler returns how this client identifies itself to the authorization server, and what it requests.
func (l *consenting) handler(client *http.Client) (*auth.AuthorizationCodeHandlerConfig, error) {
	o := l.Backend.Outgoing.OAuth
	conf := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL:           l.Redirect,
		RequestRefreshToken:   true,
		AcceptUnadvertisedIss: true,
		Client:                client,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "vmcp", RedirectURIs: []string{l.Redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}},
		ScopeFilter:              l.scopes,
		AuthorizationCodeFetcher: l.fetch,
		NewTokenSource:           l.keep,
	}
	if o.ClientMetadataURL != "" {
		conf.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: o.ClientMetadataURL}
	}
	if o.ClientID == "" {
		return conf, nil
	}
	conf.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID}
	secret := secretOf(o.Secret, o.ClientSecret)
	if o.ClientSecretFile != "" {
		var err error
		if secret, err = readSecret(o.ClientSecretFile); err != nil {
			return nil, err
		}
	}
	if secret != "" {
		conf.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
	}
	return conf, nil
}

// scopes returns the scopes to request: the configured ones, or else those that were discovered, and
// l.Scopes.
func (l *consenting) scopes(found []string) []string {
	if configured := l.Backend.Outgoing.OAuth.Scopes; len(configured) > 0 {
		found = configured
	}
	return union(found, l.Scopes)
}

// fetch opens the authorization URL and returns the parameters of the redirect back.
func (l *consenting) fetch(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	if u, err := url.Parse(args.URL); err == nil {
		l.resource = u.Query().Get("resource")
	}
	back, err := l.Ask(ctx, args.URL)
	if err != nil {
		return nil, err
	}
	if code := back.Get("error"); code != "" {
		if !errorCode.MatchString(code) {
			code = "with an error"
		}
		return nil, fmt.Errorf("the authorization server answers %s", code)
	}
	return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
}

// keep records the token that was issued for the code.
func (l *consenting) keep(_ context.Context, at *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
	l.grant = &Grant{Issuer: originOf(at.Endpoint.TokenURL), TokenURL: at.Endpoint.TokenURL, ClientID: at.ClientID, ClientSecret: at.ClientSecret,
		Resource: l.resource, Scopes: at.Scopes, Refresh: t.RefreshToken}
	l.grant.take(t.AccessToken, t.Expiry, time.Now())
	return oauth2.StaticTokenSource(t), nil
}

// union returns a, and after it the elements of b that are not in a.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// withoutBody returns err without the body of a token endpoint's response, which may repeat secrets.
func withoutBody(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return err
	}
	code := answer.ErrorCode
	if !errorCode.MatchString(code) {
		code = "no token"
	}
	return fmt.Errorf("the token endpoint answers %s (HTTP %d)", code, answer.Response.StatusCode)
}

// challenge sends requests without a token until the backend answers one with 401. It returns the last
// response.
func challenge(ctx context.Context, client *http.Client, b config.Backend) (resp *http.Response, err error) {
	for _, first := range firstRequests {
		if resp, err = begin(ctx, client, b, first.header, first.body); err != nil || resp.StatusCode == http.StatusUnauthorized {
			return resp, err
		}
	}
	return resp, nil
}

func begin(ctx context.Context, client *http.Client, b config.Backend, header http.Header, body string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range b.Headers {
		r.Header.Set(name, value)
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(nil))
	return resp, nil
}

func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Scheme + "://" + u.Host
}

// loginClient returns the HTTP client for the discovery and the token requests of a login. URLs
// are named by the backend and its authorization server: private addresses are refused unless they
// are the backend's own host or private is set. Redirects are not followed.
func loginClient(b config.Backend, private bool) (*http.Client, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: issuerTimeout}
	guarded := &net.Dialer{Timeout: issuerTimeout, Control: hostname.RefusePrivate(" that the backend named; oauth.allowPrivateIp allows it")}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: issuerTimeout, ResponseHeaderTimeout: issuerTimeout, IdleConnTimeout: time.Minute}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		if private || host == u.Hostname() || isProxy(host) {
			return dialer.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
	return &http.Client{
		Transport:     bounded{withTLSOf(b, t)},
		Timeout:       issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}, nil
}

// withTLSOf returns t, with the TLS configuration of the backend for requests to the backend's host.
func withTLSOf(b config.Backend, t *http.Transport) http.RoundTripper {
	u, err := url.Parse(b.URL)
	if err != nil {
		return t
	}
	conf := certs.ForBackend(b.TLS, u.Hostname(), slog.New(slog.DiscardHandler)).Config()
	if conf == nil {
		return t
	}
	own := t.Clone()
	own.TLSClientConfig = conf
	return byHost{u.Host, own, t}
}

// byHost uses the transport own for one host and other for all others.
type byHost struct {
	host       string
	own, other *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == b.host {
		return b.own.RoundTrip(r)
	}
	return b.other.RoundTrip(r)
}

// CloseIdleConnections closes those of both transports.
func (b byHost) CloseIdleConnections() {
	b.own.CloseIdleConnections()
	b.other.CloseIdleConnections()
}

// isProxy reports whether host is a proxy named by the environment (HTTPS_PROXY, HTTP_PROXY).
func isProxy(host string) bool {
	for _, scheme := range []string{"https", "http"} {
		u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "example.com"}})
		if err == nil && u != nil && u.Hostname() == host {
			return true
		}
	}
	return false
}
