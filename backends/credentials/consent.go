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
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/certs"
)

// A Consent is one login at a backend: a person is sent to an authorization server and comes
// back with a code (RFC 6749, section 4.1, with PKCE).
type Consent struct {
	Backend config.Backend
	// Redirect is the URL to which the person comes back.
	Redirect string
	// Ask sends the person to a URL and waits for the query with which they come back.
	Ask func(ctx context.Context, url string) (url.Values, error)
	// Scopes are asked for beside those of the configuration or the backend.
	Scopes []string
}

// firstRequests are the requests with which clients begin, in the order in which they try them.
// The refusal of one says where to log in.
var firstRequests = []struct {
	header http.Header
	body   string
}{
	{http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"server/discover"}},
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"vmcp","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`},
	{http.Header{},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"vmcp","version":"1"}}}`},
}

// LogIn goes through a login. Where to is found out as the specification of MCP says: by what the
// backend answers without a token (RFC 9728), and the authorization server's metadata.
func LogIn(ctx context.Context, c Consent) (*Grant, error) {
	if c.Backend.Outgoing == nil || c.Backend.Outgoing.Type != config.Login {
		return nil, fmt.Errorf("backend %s: its type of outgoingAuth is not oauth", c.Backend.Name)
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
		return nil, fmt.Errorf("backend %s: it answers HTTP %d without a token and asks for no login", c.Backend.Name, resp.StatusCode)
	}
	return l.grant, nil
}

// consenting is a login on its way.
type consenting struct {
	Consent
	resource string // that the authorization request names
	grant    *Grant // nil until there is one
}

// handler says how this client is known to the authorization server, and what is asked of it.
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

// scopes are those to ask for: the configured ones, else those that were found, and what is needed
// beside them.
func (l *consenting) scopes(found []string) []string {
	if configured := l.Backend.Outgoing.OAuth.Scopes; len(configured) > 0 {
		found = configured
	}
	return union(found, l.Scopes)
}

// fetch sends the person to the authorization server and takes what comes back.
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
			code = "an error"
		}
		return nil, fmt.Errorf("the authorization server answers %s", code)
	}
	return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
}

// keep takes the token that the code was good for.
func (l *consenting) keep(_ context.Context, at *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
	l.grant = &Grant{Issuer: originOf(at.Endpoint.TokenURL), TokenURL: at.Endpoint.TokenURL, ClientID: at.ClientID, ClientSecret: at.ClientSecret,
		Resource: l.resource, Scopes: at.Scopes, Refresh: t.RefreshToken}
	l.grant.take(t.AccessToken, t.Expiry, time.Now())
	return oauth2.StaticTokenSource(t), nil
}

// union is all of a, and of b what is not in a.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// withoutBody is err without what a token endpoint answered, which may repeat secrets.
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

// challenge asks a backend without a token, until it refuses a request for want of one.
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

// loginClient is the HTTP client for what a backend and its authorization server say of a
// login. URLs come from them: those of private addresses are not followed, beside those on the
// backend's own host, unless that is allowed. Redirects are not followed.
func loginClient(b config.Backend, private bool) (*http.Client, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: issuerTimeout}
	guarded := &net.Dialer{Timeout: issuerTimeout, Control: refusePrivate}
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

// withTLSOf is t, with the backend's certificates for the backend's own host.
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

// byHost has a transport of its own for one host.
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

// CloseIdleConnections does what it says for both.
func (b byHost) CloseIdleConnections() {
	b.own.CloseIdleConnections()
	b.other.CloseIdleConnections()
}

// isProxy reports whether a host is the proxy of the environment, which decides itself where
// it goes.
func isProxy(host string) bool {
	for _, scheme := range []string{"https", "http"} {
		u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "example.com"}})
		if err == nil && u != nil && u.Hostname() == host {
			return true
		}
	}
	return false
}

// refusePrivate refuses connections to addresses that are not public.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a := ap.Addr().Unmap(); a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() {
		return fmt.Errorf("%s is a private address that the backend named; oauth.allowPrivateIp allows it", a)
	}
	return nil
}
