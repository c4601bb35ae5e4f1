package config

import (
	"cmp"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// OutgoingAuth is with which credentials the requests to backends are made. The token of a
// client is never forwarded.
type OutgoingAuth struct {
	// Source is where the strategies come from. discovered, from the resources of a Kubernetes cluster, is refused here.
	Source string `json:"source,omitempty" enum:"inline" crd:"yes"`
	// Default is the strategy of every backend with a URL that is not in backends.
	Default OutgoingStrategy `json:"default,omitempty" crd:"yes"`
	// Backends are strategies by the name of the backend.
	Backends map[string]OutgoingStrategy `json:"backends,omitempty" crd:"yes"`
	// PublicURL is the URL at which browsers reach this endpoint, such as https://mcp.example.com, for the login pages of oauth.perUser. Default: the origin of incomingAuth.oidc.resource, else the host of the client's request.
	PublicURL string `json:"publicUrl,omitempty" crd:"yes"`
}

// OutgoingStrategy is how the requests to one backend are authenticated.
type OutgoingStrategy struct {
	// Type is the kind of credential: unauthenticated sends none, header_injection a header, client_credentials a token for this proxy (RFC 6749, section 4.4), token_exchange a token for the calling principal (RFC 8693), oauth the tokens of a login at the backend.
	Type string `json:"type,omitempty" enum:"unauthenticated,header_injection,client_credentials,token_exchange,oauth" default:"unauthenticated" crd:"yes"`
	// HeaderInjection is the header, for type header_injection.
	HeaderInjection HeaderInjection `json:"headerInjection,omitempty" crd:"yes"`
	// ClientCredentials are for type client_credentials.
	ClientCredentials ClientCredentials `json:"clientCredentials,omitempty" crd:"yes"`
	// TokenExchange is for type token_exchange.
	TokenExchange TokenExchange `json:"tokenExchange,omitempty" crd:"yes"`
	// OAuth is for type oauth.
	OAuth OutgoingOAuth `json:"oauth,omitempty" crd:"yes"`
}

// HeaderInjection is a header with a secret. Exactly one of the values is set.
type HeaderInjection struct {
	// HeaderName is the name of the header.
	HeaderName string `json:"headerName,omitempty" crd:"yes"`
	// HeaderValue is its value. ${NAME} is replaced from the environment, $${ stays ${.
	HeaderValue string `json:"headerValue,omitempty" crd:"yes"`
	// HeaderValueEnv is the name of the environment variable with the value.
	HeaderValueEnv string `json:"headerValueEnv,omitempty" crd:"no"`
	// HeaderValueFile is a file with the value, without its last line break; relative to the configuration file, and reloaded when it changes.
	HeaderValueFile string `json:"headerValueFile,omitempty" crd:"no"`
	// ValueSecretRef names the Secret with the value, in an object of Kubernetes.
	ValueSecretRef *KeyRef `json:"valueSecretRef,omitempty" config:"-" crd:"yes"`
	// HeaderValuePrefix is put before the value, such as "Bearer ".
	HeaderValuePrefix string `json:"headerValuePrefix,omitempty" crd:"yes"`
	// Secret is the value of the variable.
	Secret string `json:"-"`
}

// ClientCredentials get a token for this proxy (RFC 6749, section 4.4).
type ClientCredentials struct {
	// TokenURL is the token endpoint.
	TokenURL string `json:"tokenUrl,omitempty" crd:"yes"`
	// ClientID is the client ID of this proxy at the authorization server.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is the client secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv is the name of the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file, and read for each token.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the value of the variable.
	Secret string `json:"-"`
	// Scopes are the requested scopes.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// Audience is the requested audience of the token, in the terms of the authorization server.
	Audience string `json:"audience,omitempty" crd:"yes"`
	// Resource is the URL of the resource that the token is requested for (RFC 8707).
	Resource string `json:"resource,omitempty" crd:"yes"`
}

// TokenExchange exchanges the token of the client's request for one that the backend accepts, for
// the same principal (RFC 8693).
type TokenExchange struct {
	// TokenURL is the token endpoint.
	TokenURL string `json:"tokenUrl,omitempty" crd:"yes"`
	// ClientID is the client ID of this proxy at the authorization server.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is the client secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv is the name of the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file, and read for each token.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the value of the variable.
	Secret string `json:"-"`
	// Audience is the requested audience of the token, in the terms of the authorization server.
	Audience string `json:"audience,omitempty" crd:"yes"`
	// Resource is the URL of the resource that the token is requested for (RFC 8707).
	Resource string `json:"resource,omitempty" crd:"yes"`
	// Scopes are the requested scopes.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// SubjectTokenType is the type of the client's token: access_token, which is the default, id_token, jwt, or a URN.
	SubjectTokenType string `json:"subjectTokenType,omitempty" crd:"yes"`
	// Discovery is the credential, of no principal, with which the backend's lists are read and its health is checked. If unset, the backend is connected at the first call of a principal, and its lists are read with that principal's token.
	Discovery DiscoveryStrategy `json:"discovery,omitempty" crd:"yes"`
}

// OutgoingOAuth is an OAuth login at a backend that requires one: the backend's metadata names the
// authorization server, and tokenStore keeps the tokens.
type OutgoingOAuth struct {
	// Scopes are requested instead of those that the backend advertises.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// ClientID is the client ID of this proxy at the authorization server, if it is registered there.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is the client secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv is the name of the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the value of the variable.
	Secret string `json:"-"`
	// ClientMetadataURL is the https URL of a client ID metadata document of this proxy, used as its client ID if the authorization server supports such documents. If neither it nor clientId is set, the proxy registers itself (RFC 7591).
	ClientMetadataURL string `json:"clientMetadataUrl,omitempty" crd:"yes"`
	// PerUser makes each principal log in. If false, there is one login for this proxy, made with vmcp login.
	PerUser bool `json:"perUser,omitempty" crd:"yes"`
	// AllowPrivateIP allows an authorization server at an address that is not public: private, loopback, or 100.64.0.0/10 of overlay networks. An authorization server on the host of the backend's URL is always allowed.
	AllowPrivateIP bool `json:"allowPrivateIp,omitempty" crd:"yes"`
}

// TokenStore is a file with the tokens of logins at backends, each encrypted with a key. In a cluster they are stored in sessionStorage instead, encrypted with its keys.
type TokenStore struct {
	// File is the file, relative to the configuration file. It is created at the first login.
	File string `json:"file,omitempty"`
	// KeyEnv is the name of the environment variable with the key: 32 random bytes in base64. Several keys, separated by commas, allow key rotation: the first encrypts, all decrypt.
	KeyEnv string `json:"keyEnv,omitempty"`
	// Key is the value of the variable.
	Key string `json:"-"`
}

// DiscoveryStrategy is a credential that belongs to no principal.
type DiscoveryStrategy struct {
	// Type is the kind of credential. Default: none.
	Type string `json:"type,omitempty" enum:"unauthenticated,header_injection,client_credentials" crd:"yes"`
	// HeaderInjection is the header, for type header_injection.
	HeaderInjection HeaderInjection `json:"headerInjection,omitempty" crd:"yes"`
	// ClientCredentials are for type client_credentials.
	ClientCredentials ClientCredentials `json:"clientCredentials,omitempty" crd:"yes"`
}

// BackendTLS configures TLS connections to a backend. The files are reloaded when they change.
type BackendTLS struct {
	// CA is a file of certificates to trust for this backend instead of those of the system, in PEM, relative to the configuration file.
	CA string `json:"ca,omitempty"`
	// CAText is the content of such a file. Exclusive with CA.
	CAText string `json:"-"`
	// Cert is a file with the client certificate of this proxy.
	Cert string `json:"cert,omitempty"`
	// Key is the file with that certificate's private key.
	Key string `json:"key,omitempty"`
	// ServerName is the name that the backend's certificate must be valid for. Default: the host of the URL.
	ServerName string `json:"serverName,omitempty"`
}

// The types of a strategy.
const (
	unauthenticated       = "unauthenticated"
	InjectHeader          = "header_injection"
	UseClientCredentials  = "client_credentials"
	ExchangeToken         = "token_exchange"
	Login                 = "oauth"
	subjectTokenURNPrefix = "urn:ietf:params:oauth:token-type:"
)

// PerPrincipal reports whether the credential depends on the principal who calls.
func (s *OutgoingStrategy) PerPrincipal() bool {
	return s != nil && (s.Type == ExchangeToken || s.Type == Login && s.OAuth.PerUser)
}

// SubjectToken is the URN of the type of the client's token.
func (t *TokenExchange) SubjectToken() string {
	switch name := t.SubjectTokenType; {
	case name == "":
		return subjectTokenURNPrefix + "access_token"
	case strings.Contains(name, ":"):
		return name
	default:
		return subjectTokenURNPrefix + name
	}
}

// outgoing checks the strategies and sets that of each backend.
func (v *validator) outgoing(c *Config) {
	const at = "outgoingAuth"
	v.workloads(c, at+".backends", keys(c.OutgoingAuth.Backends))
	v.strategy(at+".default", &c.OutgoingAuth.Default)
	for _, name := range keys(c.OutgoingAuth.Backends) {
		s := c.OutgoingAuth.Backends[name]
		v.strategy(document.KeyPath(at+".backends", name), &s)
		c.OutgoingAuth.Backends[name] = s
	}
	for i := range c.Backends {
		v.outgoingOf(c, &c.Backends[i], document.IndexPath("backends", i))
	}
	if !v.InObject() {
		v.tokenStore(c)
	}
	v.publicURL(at+".publicUrl", c.OutgoingAuth.PublicURL)
	v.perUser(c)
	for i, name := range c.PassthroughHeaders {
		v.passthrough(document.IndexPath("passthroughHeaders", i), name)
	}
}

// outgoingOf checks the strategy of one backend against its other fields.
func (v *validator) outgoingOf(c *Config, b *Backend, at string) {
	s, own := c.OutgoingAuth.Backends[b.Name]
	path := document.KeyPath("outgoingAuth.backends", b.Name)
	if !own {
		s, path = c.OutgoingAuth.Default, "outgoingAuth.default"
	}
	if b.Command != "" {
		if own && s.Type != "" && s.Type != unauthenticated {
			v.Report(path+".type", "%s is for a backend with a url: a process gets its credentials in env", s.Type)
		}
		return
	}
	injected := map[string]string{}
	if s.Type == InjectHeader {
		injected[s.HeaderInjection.HeaderName] = path + ".headerInjection"
	}
	if d := s.TokenExchange.Discovery; s.Type == ExchangeToken && d.Type == InjectHeader {
		injected[d.HeaderInjection.HeaderName] = path + ".tokenExchange.discovery.headerInjection"
	}
	if s.Type == UseClientCredentials || s.Type == ExchangeToken || s.Type == Login {
		injected["Authorization"] = path
	}
	for name := range b.Headers {
		for _, header := range keys(injected) {
			if strings.EqualFold(name, header) {
				v.Report(document.KeyPath(at+".headers", name), "%s sets this header, too; remove one of them", injected[header])
			}
		}
	}
}

// strategy checks one strategy.
func (v *validator) strategy(at string, s *OutgoingStrategy) {
	v.strategyOf(at, s.Type, map[string]strategyField{
		InjectHeader:         {"headerInjection", s.HeaderInjection},
		UseClientCredentials: {"clientCredentials", s.ClientCredentials},
		ExchangeToken:        {"tokenExchange", s.TokenExchange},
	})
	if s.Type != Login && !reflect.ValueOf(s.OAuth).IsZero() {
		v.Report(at+".oauth", "only for type: %s; the type is %q", Login, orDefault(s.Type, unauthenticated))
	}
	switch {
	case v.Broken(at + ".type"):
	case s.Type == InjectHeader:
		v.injection(at+".headerInjection", &s.HeaderInjection)
	case s.Type == UseClientCredentials:
		v.clientCredentials(at+".clientCredentials", &s.ClientCredentials)
	case s.Type == ExchangeToken:
		v.exchange(at+".tokenExchange", &s.TokenExchange)
	case s.Type == Login:
		v.login(at+".oauth", &s.OAuth)
	}
}

// strategyField is the field of a strategy for one type.
type strategyField struct {
	name  string
	value any
}

// strategyOf checks that the fields which are set belong to the type.
func (v *validator) strategyOf(at, kind string, fields map[string]strategyField) {
	for _, of := range keys(fields) {
		path := at + "." + fields[of].name
		is := !reflect.ValueOf(fields[of].value).IsZero()
		switch {
		case of == kind && !is:
			v.Report(at+".type", "%s needs %s", kind, fields[of].name)
		case of != kind && is:
			v.Report(path, "only for type: %s; the type is %q", of, orDefault(kind, unauthenticated))
		}
	}
}

func (v *validator) exchange(at string, t *TokenExchange) {
	v.tokenURL(at+".tokenUrl", t.TokenURL)
	v.tokenSecret(at, t.ClientID, oneSecret{&t.ClientSecret, t.ClientSecretEnv, &t.ClientSecretFile, &t.Secret})
	v.Scopes(at+".scopes", t.Scopes)
	v.resource(at+".resource", t.Resource)
	if name := t.SubjectTokenType; name != "" && !strings.HasPrefix(name, "urn:") && !slices.Contains([]string{"access_token", "id_token", "jwt"}, name) {
		v.Report(at+".subjectTokenType", "want access_token, id_token, jwt or a URN, have %q", name)
	}
	d, path := &t.Discovery, at+".discovery"
	v.strategyOf(path, d.Type, map[string]strategyField{
		InjectHeader:         {"headerInjection", d.HeaderInjection},
		UseClientCredentials: {"clientCredentials", d.ClientCredentials},
	})
	switch {
	case v.Broken(path + ".type"):
	case d.Type == InjectHeader:
		v.injection(path+".headerInjection", &d.HeaderInjection)
	case d.Type == UseClientCredentials:
		v.clientCredentials(path+".clientCredentials", &d.ClientCredentials)
	}
}

// login checks the client identification of an OAuth login.
func (v *validator) login(at string, o *OutgoingOAuth) {
	if o.ClientID != "" || o.ClientSecret+o.ClientSecretEnv+o.ClientSecretFile != "" || o.ClientSecretRef != nil {
		v.tokenSecret(at, o.ClientID, oneSecret{&o.ClientSecret, o.ClientSecretEnv, &o.ClientSecretFile, &o.Secret})
	}
	v.Scopes(at+".scopes", o.Scopes)
	if text := o.ClientMetadataURL; text != "" {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
			v.Report(at+".clientMetadataUrl", "want an https URL with a path: where the client ID metadata document is")
		}
	}
}

// perUser warns of logins per principal if clients are not authenticated.
func (v *validator) perUser(c *Config) {
	if v.InObject() {
		return
	}
	if kind := c.IncomingAuth.Type; kind != "" && kind != "anonymous" {
		return
	}
	for _, name := range keys(c.OutgoingAuth.Backends) {
		if c.OutgoingAuth.Backends[name].OAuth.PerUser {
			v.Warn(document.KeyPath("outgoingAuth.backends", name)+".oauth.perUser", "every call is denied because callers are not authenticated: configure incomingAuth, or use vmcp serve --token-file")
		}
	}
}

// publicURL checks the URL at which browsers reach the endpoint.
func (v *validator) publicURL(at, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "":
		v.Report(at, "want a URL without a path, such as https://mcp.example.com")
	case u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
		v.Warn(at, "without TLS the login can be intercepted; want https")
	}
}

// BrowsersAt is the URL, without a path, at which browsers reach the endpoint; "" if the
// configuration does not set it.
func (c *Config) BrowsersAt() string {
	o := c.IncomingAuth.OIDC
	for _, text := range []string{c.OutgoingAuth.PublicURL, o.Resource, o.Audience} {
		if u, err := url.Parse(text); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
			return u.Scheme + "://" + u.Host
		}
	}
	return ""
}

// tokenStore checks the token store, and that there is one if a strategy needs it.
func (v *validator) tokenStore(c *Config) {
	const at = "tokenStore"
	t := &c.TokenStore
	switch {
	case c.Cluster.On() && (t.File != "" || t.KeyEnv != ""):
		v.Warn(at, "is not used in a cluster: logins are kept in sessionStorage, for all replicas, and sealed with its keys; log in again with vmcp login")
		return
	case c.Cluster.On():
		return
	}
	if t.File == "" && t.KeyEnv == "" {
		for _, name := range keys(c.OutgoingAuth.Backends) {
			if c.OutgoingAuth.Backends[name].Type == Login {
				v.Report(document.KeyPath("outgoingAuth.backends", name)+".type", "oauth needs tokenStore, with file and keyEnv: where the tokens are kept")
			}
		}
		if c.OutgoingAuth.Default.Type == Login {
			v.Report("outgoingAuth.default.type", "oauth needs tokenStore, with file and keyEnv: where the tokens are kept")
		}
		return
	}
	if t.File == "" {
		v.Report(at, "want file: where the tokens are kept, such as tokens.db")
	}
	t.File = v.Absolute(t.File)
	key, ok := v.Env(t.KeyEnv)
	switch {
	case t.KeyEnv == "":
		v.Report(at, "want keyEnv: the environment variable with the key, 32 random bytes in base64; openssl rand -base64 32 makes them")
	case !ok || key == "":
		v.Report(at+".keyEnv", "the environment variable %s is not set; openssl rand -base64 32 makes a key", t.KeyEnv)
	default:
		for text := range strings.SplitSeq(key, ",") {
			v.Secrets = append(v.Secrets, strings.TrimSpace(text))
		}
	}
	t.Key = key
}

func (v *validator) clientCredentials(at string, c *ClientCredentials) {
	v.tokenURL(at+".tokenUrl", c.TokenURL)
	v.tokenSecret(at, c.ClientID, oneSecret{&c.ClientSecret, c.ClientSecretEnv, &c.ClientSecretFile, &c.Secret})
	if v.InObject() {
		v.secretRef(at, "clientSecretRef", c.ClientSecretRef, "", true)
	} else if c.ClientSecret == "" && c.ClientSecretFile == "" && c.ClientSecretEnv == "" {
		v.Report(at, "want clientSecretEnv, clientSecretFile or clientSecret: a client credentials grant is for clients with a secret (RFC 6749, section 4.4)")
	}
	v.Scopes(at+".scopes", c.Scopes)
	v.resource(at+".resource", c.Resource)
}

// tokenURL checks the URL of a token endpoint, to which secrets are sent.
func (v *validator) tokenURL(at, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		v.Report(at, "want the token endpoint of the authorization server, such as https://idp.example.com/token")
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.Report(at, "want a URL such as https://idp.example.com/token")
	case u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
		v.Warn(at, "without TLS the client secret and the tokens can be intercepted; want https")
	}
}

// resource checks a resource indicator (RFC 8707, section 2).
func (v *validator) resource(at, text string) {
	if text == "" {
		return
	}
	if u, err := url.Parse(text); err != nil || !u.IsAbs() || u.Fragment != "" {
		v.Report(at, "want an absolute URL without a fragment, have %q", text)
	}
}

// tokenSecret reads the secret of a client of a token endpoint.
func (v *validator) tokenSecret(at, id string, s oneSecret) {
	if id == "" {
		v.Report(at+".clientId", "want the client ID of this proxy at the authorization server")
	}
	if !v.InObject() {
		v.oneSecret(at, "clientSecret", s, false)
	}
}

// injection checks a header and reads its value.
func (v *validator) injection(at string, h *HeaderInjection) {
	lower := strings.ToLower(h.HeaderName)
	switch {
	case h.HeaderName == "":
		v.Report(at+".headerName", "want the name of the header, such as Authorization")
	case !headerName.MatchString(h.HeaderName):
		v.Report(at+".headerName", "not a header's name")
	case slices.Contains(ownHeaders, lower):
		v.Report(at+".headerName", "the protocol sets this header itself; want another one")
	}
	if v.InObject() {
		v.secretRef(at, "valueSecretRef", h.ValueSecretRef, "headerValue", true)
	} else {
		v.oneSecret(at, "headerValue", oneSecret{&h.HeaderValue, h.HeaderValueEnv, &h.HeaderValueFile, &h.Secret}, true)
	}
	for path, text := range map[string]string{at + ".headerValue": h.Value(), at + ".headerValuePrefix": h.HeaderValuePrefix} {
		if strings.ContainsAny(text, "\r\n\x00") {
			v.Report(path, "the value holds a line break or NUL character")
		}
	}
}

// oneSecret are the alternative fields of a secret, and where the value of its variable is stored.
type oneSecret struct {
	value  *string
	env    string
	file   *string
	secret *string
}

// oneSecret checks the fields NAME, NAMEEnv and NAMEFile, of which one may be set, and reads the
// secret. A file is read when the secret is used.
func (v *validator) oneSecret(at, name string, s oneSecret, required bool) {
	var given []string
	for _, f := range []struct{ name, value string }{{name, *s.value}, {name + "Env", s.env}, {name + "File", *s.file}} {
		if f.value != "" {
			given = append(given, f.name)
		}
	}
	switch path := at + "."; {
	case len(given) > 1:
		v.Report(path+given[1], "want one of %s, %[1]sEnv and %[1]sFile; %s is there already", name, given[0])
	case len(given) == 0 && required:
		v.Report(at, "want %sEnv, %[1]sFile or %[1]s", name)
	case s.env != "":
		path += given[0]
		text, ok := v.Env(s.env)
		if !ok || text == "" {
			v.Report(path, "the environment variable %s is not set", s.env)
		}
		v.NoteSecret(path, s.env, text)
		*s.secret = text
	case *s.file != "":
		v.Existing(path+given[0], s.file)
	case *s.value != "":
		path += given[0]
		literal := *s.value
		*s.value = v.Expand(path, literal)
		if literal == *s.value {
			v.TooShort(path, literal)
		}
	}
}

// Value is the value of the header without its prefix; "" if it is in a file.
func (h *HeaderInjection) Value() string { return cmp.Or(h.Secret, h.HeaderValue) }

// ownedHeaders are the client's credentials and hop-by-hop headers, which are never forwarded.
var ownedHeaders = []string{
	"authorization", "cookie", "forwarded", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "host", "content-length", "content-type",
	"content-encoding", "accept", "accept-encoding", "expect", "last-event-id", "origin",
}

// passthrough checks the name of a header that is forwarded to backends.
func (v *validator) passthrough(at, name string) {
	lower := strings.ToLower(name)
	switch {
	case !headerName.MatchString(name):
		v.Report(at, "not a header's name")
	case slices.Contains(ownedHeaders, lower), strings.HasPrefix(lower, "proxy-"), strings.HasPrefix(lower, "mcp-"):
		v.Report(at, "%s is never forwarded: it is the client's credential, or a hop-by-hop header", name)
	}
}

// backendTLS checks the files of a backend's connections.
func (v *validator) backendTLS(b *Backend, at string) {
	t := &b.TLS
	if *t == (BackendTLS{}) {
		return
	}
	switch u, err := url.Parse(b.URL); {
	case err == nil && u.Scheme != "https":
		v.Report(at, "only for a url that begins with https://")
		return
	case t.Cert != "" && t.Key == "":
		v.Report(at+".cert", "needs key, the certificate's private key")
	case t.Key != "" && t.Cert == "":
		v.Report(at+".key", "needs cert, the certificate")
	}
	v.Existing(at+".ca", &t.CA)
	v.Existing(at+".cert", &t.Cert)
	v.Existing(at+".key", &t.Key)
}

// completeOutgoing sets the strategy of a backend.
func (b *Backend) completeOutgoing(o *OutgoingAuth) {
	s, own := o.Backends[b.Name]
	if !own {
		s = o.Default
	}
	if b.Command != "" || s.Type == "" || s.Type == unauthenticated {
		return
	}
	if b.Outgoing == nil || !reflect.DeepEqual(*b.Outgoing, s) {
		b.Outgoing = &s
	}
}

// secrets are the secrets of the strategies, as far as the configuration has their values.
func (o *OutgoingAuth) secrets() (found []string) {
	all := []OutgoingStrategy{o.Default}
	for _, name := range keys(o.Backends) {
		all = append(all, o.Backends[name])
	}
	for _, s := range all {
		d := s.TokenExchange.Discovery
		for _, h := range []HeaderInjection{s.HeaderInjection, d.HeaderInjection} {
			if value := h.Value(); value != "" {
				found = append(found, value)
				found = append(found, inHeader(h.HeaderName, h.HeaderValuePrefix+value)...)
			}
		}
		for _, text := range []string{s.ClientCredentials.ClientSecret, s.TokenExchange.ClientSecret, d.ClientCredentials.ClientSecret, s.OAuth.ClientSecret} {
			if text != "" {
				found = append(found, text)
			}
		}
	}
	return found
}
