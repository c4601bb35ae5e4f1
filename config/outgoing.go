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

// OutgoingAuth says with which credentials the requests to backends are made. The token of a
// client is never one of them.
type OutgoingAuth struct {
	// Source is where the strategies come from. discovered, from the resources of a Kubernetes cluster, is refused here.
	Source string `json:"source,omitempty" enum:"inline" crd:"yes"`
	// Default is for every backend with a URL that has no strategy of its own.
	Default OutgoingStrategy `json:"default,omitempty" crd:"yes"`
	// Backends are strategies by the name of the backend.
	Backends map[string]OutgoingStrategy `json:"backends,omitempty" crd:"yes"`
	// PublicURL is where browsers reach this endpoint, such as https://mcp.example.com: there are the pages of logins of principals (oauth.perUser). Without it: the origin of incomingAuth.oidc.resource, else the host that the client's request names.
	PublicURL string `json:"publicUrl,omitempty" crd:"yes"`
}

// OutgoingStrategy is how the requests to one backend are authenticated.
type OutgoingStrategy struct {
	// Type is the kind of credential: unauthenticated sends none, header_injection a header, client_credentials a token of this proxy's own, token_exchange a token for the principal who calls (RFC 8693), oauth the tokens of a login at the backend.
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
	// HeaderValueEnv names the environment variable with the value.
	HeaderValueEnv string `json:"headerValueEnv,omitempty" crd:"no"`
	// HeaderValueFile is a file with the value, without its last line break; relative to the configuration file, and read anew when it changes.
	HeaderValueFile string `json:"headerValueFile,omitempty" crd:"no"`
	// ValueSecretRef names the Secret with the value, in an object of Kubernetes.
	ValueSecretRef *KeyRef `json:"valueSecretRef,omitempty" config:"-" crd:"yes"`
	// HeaderValuePrefix stands before the value, such as "Bearer ".
	HeaderValuePrefix string `json:"headerValuePrefix,omitempty" crd:"yes"`
	// Secret is the value that the variable held.
	Secret string `json:"-"`
}

// ClientCredentials get a token of this proxy's own (RFC 6749, section 4.4).
type ClientCredentials struct {
	// TokenURL is the token endpoint.
	TokenURL string `json:"tokenUrl,omitempty" crd:"yes"`
	// ClientID is the name of this proxy with the authorization server.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is its secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv names the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file, and read for each token.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the secret that the variable held.
	Secret string `json:"-"`
	// Scopes are asked for.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// Audience is what the token is for, as the authorization server names it.
	Audience string `json:"audience,omitempty" crd:"yes"`
	// Resource is the URL of what the token is for (RFC 8707).
	Resource string `json:"resource,omitempty" crd:"yes"`
}

// TokenExchange gets a token for the principal who calls in exchange for the one that the
// client brought (RFC 8693).
type TokenExchange struct {
	// TokenURL is the token endpoint.
	TokenURL string `json:"tokenUrl,omitempty" crd:"yes"`
	// ClientID is the name of this proxy with the authorization server.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is its secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv names the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file, and read for each token.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the secret that the variable held.
	Secret string `json:"-"`
	// Audience is what the token is for, as the authorization server names it.
	Audience string `json:"audience,omitempty" crd:"yes"`
	// Resource is the URL of what the token is for (RFC 8707).
	Resource string `json:"resource,omitempty" crd:"yes"`
	// Scopes are asked for.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// SubjectTokenType is what the client's token is to the authorization server: access_token, which is the default, id_token, jwt, or a URN.
	SubjectTokenType string `json:"subjectTokenType,omitempty" crd:"yes"`
	// Discovery is the credential with which the backend's lists are read and its health is checked, which is nobody's. Without it the backend is connected when the first principal calls, and lists with that principal's token.
	Discovery DiscoveryStrategy `json:"discovery,omitempty" crd:"yes"`
}

// OutgoingOAuth is a login at a backend that asks for one: the backend says which authorization
// server, and tokenStore keeps the tokens.
type OutgoingOAuth struct {
	// Scopes are asked for instead of those that the backend names.
	Scopes []string `json:"scopes,omitempty" crd:"yes"`
	// ClientID is the name of this proxy with the authorization server, where it was registered there.
	ClientID string `json:"clientId,omitempty" crd:"yes"`
	// ClientSecret is its secret. ${NAME} is replaced from the environment, $${ stays ${.
	ClientSecret string `json:"clientSecret,omitempty" crd:"no"`
	// ClientSecretEnv names the environment variable with the secret.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty" crd:"no"`
	// ClientSecretFile is a file with the secret, without its last line break; relative to the configuration file.
	ClientSecretFile string `json:"clientSecretFile,omitempty" crd:"no"`
	// ClientSecretRef names the Secret with the secret, in an object of Kubernetes.
	ClientSecretRef *KeyRef `json:"clientSecretRef,omitempty" config:"-" crd:"yes"`
	// Secret is the secret that the variable held.
	Secret string `json:"-"`
	// ClientMetadataURL is an https URL with a client ID metadata document of this proxy, which is its name where the authorization server takes such. Without it and clientId the proxy registers itself (RFC 7591).
	ClientMetadataURL string `json:"clientMetadataUrl,omitempty" crd:"yes"`
	// PerUser gives each principal a login of its own. Without it there is one for this proxy, made with vmcp login.
	PerUser bool `json:"perUser,omitempty" crd:"yes"`
	// AllowPrivateIP allows an authorization server at a private or loopback address. One on the host of the backend's URL needs no permission.
	AllowPrivateIP bool `json:"allowPrivateIp,omitempty" crd:"yes"`
}

// TokenStore is a file with the tokens of logins at backends, each sealed with a key. In a cluster they are in sessionStorage instead, sealed with its keys.
type TokenStore struct {
	// File is the file, relative to the configuration file. It comes to be with the first login.
	File string `json:"file,omitempty"`
	// KeyEnv names the environment variable with the key: 32 random bytes in base64. Several, with commas between them, let keys be changed: the first seals, all open.
	KeyEnv string `json:"keyEnv,omitempty"`
	// Key is what the variable held.
	Key string `json:"-"`
}

// DiscoveryStrategy is a credential that belongs to no principal.
type DiscoveryStrategy struct {
	// Type is the kind of credential. Without it there is none.
	Type string `json:"type,omitempty" enum:"unauthenticated,header_injection,client_credentials" crd:"yes"`
	// HeaderInjection is the header, for type header_injection.
	HeaderInjection HeaderInjection `json:"headerInjection,omitempty" crd:"yes"`
	// ClientCredentials are for type client_credentials.
	ClientCredentials ClientCredentials `json:"clientCredentials,omitempty" crd:"yes"`
}

// BackendTLS is what a TLS connection to a backend is made with. The files are read anew when
// they change.
type BackendTLS struct {
	// CA is a file of certificates to trust for this backend instead of those of the system, in PEM, relative to the configuration file.
	CA string `json:"ca,omitempty"`
	// CAText is what such a file would hold, where there is none. Exclusive with CA.
	CAText string `json:"-"`
	// Cert is a file with the certificate that this proxy shows to the backend.
	Cert string `json:"cert,omitempty"`
	// Key is the file with that certificate's private key.
	Key string `json:"key,omitempty"`
	// ServerName is the name that the backend's certificate has to be for. Without it: the host of the URL.
	ServerName string `json:"serverName,omitempty"`
}

// The types of a strategy.
const (
	Unauthenticated       = "unauthenticated"
	InjectHeader          = "header_injection"
	UseClientCredentials  = "client_credentials"
	ExchangeToken         = "token_exchange"
	Login                 = "oauth"
	subjectTokenURNPrefix = "urn:ietf:params:oauth:token-type:"
)

// PerPrincipal reports whether each principal has a credential of its own.
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

// outgoing checks the strategies and hands them to the backends.
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
	if !v.inObject() {
		v.tokenStore(c)
	}
	v.publicURL(at+".publicUrl", c.OutgoingAuth.PublicURL)
	v.perUser(c)
	for i, name := range c.PassthroughHeaders {
		v.passthrough(document.IndexPath("passthroughHeaders", i), name)
	}
}

// outgoingOf checks what the strategies mean for one backend.
func (v *validator) outgoingOf(c *Config, b *Backend, at string) {
	s, own := c.OutgoingAuth.Backends[b.Name]
	path := document.KeyPath("outgoingAuth.backends", b.Name)
	if !own {
		s, path = c.OutgoingAuth.Default, "outgoingAuth.default"
	}
	if b.Command != "" {
		if own && s.Type != "" && s.Type != Unauthenticated {
			v.report(path+".type", "%s is for a backend with a url: a process gets its credentials in env", s.Type)
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
				v.report(document.KeyPath(at+".headers", name), "%s sets this header, too; remove one of them", injected[header])
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
		v.report(at+".oauth", "only for type: %s; the type is %q", Login, orDefault(s.Type, Unauthenticated))
	}
	switch {
	case v.broken(at + ".type"):
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

// strategyField is what a strategy has for one type.
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
			v.report(at+".type", "%s needs %s", kind, fields[of].name)
		case of != kind && is:
			v.report(path, "only for type: %s; the type is %q", of, orDefault(kind, Unauthenticated))
		}
	}
}

func (v *validator) exchange(at string, t *TokenExchange) {
	v.tokenURL(at+".tokenUrl", t.TokenURL)
	v.tokenSecret(at, t.ClientID, oneSecret{&t.ClientSecret, t.ClientSecretEnv, &t.ClientSecretFile, &t.Secret})
	v.scopes(at+".scopes", t.Scopes)
	v.resource(at+".resource", t.Resource)
	if name := t.SubjectTokenType; name != "" && !strings.HasPrefix(name, "urn:") && !slices.Contains([]string{"access_token", "id_token", "jwt"}, name) {
		v.report(at+".subjectTokenType", "want access_token, id_token, jwt or a URN, have %q", name)
	}
	d, path := &t.Discovery, at+".discovery"
	v.strategyOf(path, d.Type, map[string]strategyField{
		InjectHeader:         {"headerInjection", d.HeaderInjection},
		UseClientCredentials: {"clientCredentials", d.ClientCredentials},
	})
	switch {
	case v.broken(path + ".type"):
	case d.Type == InjectHeader:
		v.injection(path+".headerInjection", &d.HeaderInjection)
	case d.Type == UseClientCredentials:
		v.clientCredentials(path+".clientCredentials", &d.ClientCredentials)
	}
}

// login checks how this proxy presents itself at a login.
func (v *validator) login(at string, o *OutgoingOAuth) {
	if o.ClientID != "" || o.ClientSecret+o.ClientSecretEnv+o.ClientSecretFile != "" || o.ClientSecretRef != nil {
		v.tokenSecret(at, o.ClientID, oneSecret{&o.ClientSecret, o.ClientSecretEnv, &o.ClientSecretFile, &o.Secret})
	}
	v.scopes(at+".scopes", o.Scopes)
	if text := o.ClientMetadataURL; text != "" {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
			v.report(at+".clientMetadataUrl", "want an https URL with a path: where the client ID metadata document is")
		}
	}
}

// perUser warns of logins of principals where nobody is asked who they are.
func (v *validator) perUser(c *Config) {
	if v.inObject() {
		return
	}
	if kind := c.IncomingAuth.Type; kind != "" && kind != "anonymous" {
		return
	}
	for _, name := range keys(c.OutgoingAuth.Backends) {
		if c.OutgoingAuth.Backends[name].OAuth.PerUser {
			v.warn(document.KeyPath("outgoingAuth.backends", name)+".oauth.perUser", "every call is denied while callers are not told apart: incomingAuth, or vmcp serve --token-file, does that")
		}
	}
}

// publicURL checks where browsers reach the endpoint.
func (v *validator) publicURL(at, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "":
		v.report(at, "want a URL without a path, such as https://mcp.example.com")
	case u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
		v.warn(at, "without TLS, whoever is on the way can take the login over; want https")
	}
}

// BrowsersAt is the URL, without a path, at which browsers reach the endpoint; "" where the
// configuration does not say that.
func (c *Config) BrowsersAt() string {
	o := c.IncomingAuth.OIDC
	for _, text := range []string{c.OutgoingAuth.PublicURL, o.Resource, o.Audience} {
		if u, err := url.Parse(text); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
			return u.Scheme + "://" + u.Host
		}
	}
	return ""
}

// tokenStore checks the store, and that there is one where logins are kept.
func (v *validator) tokenStore(c *Config) {
	const at = "tokenStore"
	t := &c.TokenStore
	switch {
	case c.Cluster.On() && (t.File != "" || t.KeyEnv != ""):
		v.warn(at, "is not used in a cluster: logins are kept in sessionStorage, for all replicas, and sealed with its keys; log in again with vmcp login")
		return
	case c.Cluster.On():
		return
	}
	if t.File == "" && t.KeyEnv == "" {
		for _, name := range keys(c.OutgoingAuth.Backends) {
			if c.OutgoingAuth.Backends[name].Type == Login {
				v.report(document.KeyPath("outgoingAuth.backends", name)+".type", "oauth needs tokenStore, with file and keyEnv: where the tokens are kept")
			}
		}
		if c.OutgoingAuth.Default.Type == Login {
			v.report("outgoingAuth.default.type", "oauth needs tokenStore, with file and keyEnv: where the tokens are kept")
		}
		return
	}
	if t.File == "" {
		v.report(at, "want file: where the tokens are kept, such as tokens.db")
	}
	t.File = v.absolute(t.File)
	key, ok := v.env(t.KeyEnv)
	switch {
	case t.KeyEnv == "":
		v.report(at, "want keyEnv: the environment variable with the key, 32 random bytes in base64; openssl rand -base64 32 makes them")
	case !ok || key == "":
		v.report(at+".keyEnv", "the environment variable %s is not set; openssl rand -base64 32 makes a key", t.KeyEnv)
	default:
		for text := range strings.SplitSeq(key, ",") {
			v.secrets = append(v.secrets, strings.TrimSpace(text))
		}
	}
	t.Key = key
}

func (v *validator) clientCredentials(at string, c *ClientCredentials) {
	v.tokenURL(at+".tokenUrl", c.TokenURL)
	v.tokenSecret(at, c.ClientID, oneSecret{&c.ClientSecret, c.ClientSecretEnv, &c.ClientSecretFile, &c.Secret})
	if v.inObject() {
		v.secretRef(at, "clientSecretRef", c.ClientSecretRef, "", true)
	} else if c.ClientSecret == "" && c.ClientSecretFile == "" && c.ClientSecretEnv == "" {
		v.report(at, "want clientSecretEnv, clientSecretFile or clientSecret: a client credentials grant is for clients with a secret (RFC 6749, section 4.4)")
	}
	v.scopes(at+".scopes", c.Scopes)
	v.resource(at+".resource", c.Resource)
}

// tokenURL checks a token endpoint. Secrets go there.
func (v *validator) tokenURL(at, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		v.report(at, "want the token endpoint of the authorization server, such as https://idp.example.com/token")
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.report(at, "want a URL such as https://idp.example.com/token")
	case u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
		v.warn(at, "without TLS, whoever is on the way reads the client's secret and the tokens; want https")
	}
}

// resource checks the URL of what a token is for (RFC 8707, section 2).
func (v *validator) resource(at, text string) {
	if text == "" {
		return
	}
	if u, err := url.Parse(text); err != nil || !u.IsAbs() || u.Fragment != "" {
		v.report(at, "want an absolute URL without a fragment, have %q", text)
	}
}

// tokenSecret reads the secret of a client of a token endpoint.
func (v *validator) tokenSecret(at, id string, s oneSecret) {
	if id == "" {
		v.report(at+".clientId", "want the name of this proxy with the authorization server")
	}
	if !v.inObject() {
		v.oneSecret(at, "clientSecret", s, false)
	}
}

// injection checks a header and reads its value.
func (v *validator) injection(at string, h *HeaderInjection) {
	lower := strings.ToLower(h.HeaderName)
	switch {
	case h.HeaderName == "":
		v.report(at+".headerName", "want the name of the header, such as Authorization")
	case !headerName.MatchString(h.HeaderName):
		v.report(at+".headerName", "not a header's name")
	case slices.Contains(ownHeaders, lower):
		v.report(at+".headerName", "the protocol sets this header itself; want another one")
	}
	if v.inObject() {
		v.secretRef(at, "valueSecretRef", h.ValueSecretRef, "headerValue", true)
	} else {
		v.oneSecret(at, "headerValue", oneSecret{&h.HeaderValue, h.HeaderValueEnv, &h.HeaderValueFile, &h.Secret}, true)
	}
	for path, text := range map[string]string{at + ".headerValue": h.Value(), at + ".headerValuePrefix": h.HeaderValuePrefix} {
		if strings.ContainsAny(text, "\r\n\x00") {
			v.report(path, "the value holds a line break or NUL character")
		}
	}
}

// oneSecret are the fields that a secret can stand in, and where it goes that a variable held.
type oneSecret struct {
	value  *string
	env    string
	file   *string
	secret *string
}

// oneSecret checks the fields NAME, NAMEEnv and NAMEFile, of which one may be set, and reads the
// secret. A file is read when it is needed.
func (v *validator) oneSecret(at, name string, s oneSecret, required bool) {
	var given []string
	for _, f := range []struct{ name, value string }{{name, *s.value}, {name + "Env", s.env}, {name + "File", *s.file}} {
		if f.value != "" {
			given = append(given, f.name)
		}
	}
	switch path := at + "."; {
	case len(given) > 1:
		v.report(path+given[1], "want one of %s, %[1]sEnv and %[1]sFile; %s is there already", name, given[0])
	case len(given) == 0 && required:
		v.report(at, "want %sEnv, %[1]sFile or %[1]s", name)
	case s.env != "":
		path += given[0]
		text, ok := v.env(s.env)
		if !ok || text == "" {
			v.report(path, "the environment variable %s is not set", s.env)
		}
		v.expandedSecret(path, s.env, text)
		*s.secret = text
	case *s.file != "":
		v.existing(path+given[0], s.file)
	case *s.value != "":
		path += given[0]
		literal := *s.value
		*s.value = v.expand(path, literal)
		if literal == *s.value {
			v.tooShort(path, literal)
		}
	}
}

// Value is the value of the header without its prefix, unless that is in a file.
func (h *HeaderInjection) Value() string { return cmp.Or(h.Secret, h.HeaderValue) }

// ownedHeaders are headers that say who a client is or belong to one connection: they are
// never passed on.
var ownedHeaders = []string{
	"authorization", "cookie", "forwarded", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "host", "content-length", "content-type",
	"content-encoding", "accept", "accept-encoding", "expect", "last-event-id", "origin",
}

// passthrough checks the name of a header that clients' requests hand on.
func (v *validator) passthrough(at, name string) {
	lower := strings.ToLower(name)
	switch {
	case !headerName.MatchString(name):
		v.report(at, "not a header's name")
	case slices.Contains(ownedHeaders, lower), strings.HasPrefix(lower, "proxy-"), strings.HasPrefix(lower, "mcp-"):
		v.report(at, "%s is never passed on: it is the client's credential, or belongs to one connection", name)
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
		v.report(at, "only for a url that begins with https://")
		return
	case t.Cert != "" && t.Key == "":
		v.report(at+".cert", "needs key, the certificate's private key")
	case t.Key != "" && t.Cert == "":
		v.report(at+".key", "needs cert, the certificate")
	}
	v.existing(at+".ca", &t.CA)
	v.existing(at+".cert", &t.Cert)
	v.existing(at+".key", &t.Key)
}

// completeOutgoing hands a backend its strategy.
func (b *Backend) completeOutgoing(o *OutgoingAuth) {
	s, own := o.Backends[b.Name]
	if !own {
		s = o.Default
	}
	if b.Command != "" || s.Type == "" || s.Type == Unauthenticated {
		return
	}
	b.Outgoing = &s
}

// outgoingSecrets are the secrets of the strategies that stand in the configuration.
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
