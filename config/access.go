package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// TLS is the certificate of the endpoint. The files are reloaded when they change.
type TLS struct {
	// Cert is a file with the certificate and its intermediate certificates, in PEM, relative to the configuration file.
	Cert string `json:"cert,omitempty"`
	// Key is the file with the certificate's private key.
	Key string `json:"key,omitempty"`
	// ClientCA is a file with the CA certificates that client certificates are verified with. A client certificate is requested and optional.
	ClientCA string `json:"clientCA,omitempty"`
}

// IncomingAuth is how clients authenticate and what they may do. If unset, clients are not
// authenticated, and the endpoint has to listen on a loopback address.
type IncomingAuth struct {
	// Type is how clients authenticate. anonymous: not at all. local: every client on this machine is its user. tokens, oidc: with a bearer token. mtls: with a client certificate. With oidc, static tokens and client certificates are accepted, too, if they are configured.
	Type string `json:"type,omitempty" enum:"anonymous,local,oidc,tokens,mtls" default:"anonymous"`
	// OIDC is the issuer of access tokens, for type oidc.
	OIDC OIDC `json:"oidc,omitempty"`
	// Tokens are static tokens in a file.
	Tokens StaticTokens `json:"tokens,omitempty"`
	// MTLS is which field of a client certificate is the subject; tls.clientCA has the CA certificates.
	MTLS MTLS `json:"mtls,omitempty"`
	// Authz is what principals may do.
	Authz Authz `json:"authz,omitempty,omitzero"`
	// TokenFile is a file with the token of the user of this machine. It is accepted whatever the
	// type, and required if the type is anonymous or local.
	TokenFile string `json:"-"`
}

// OIDC is an issuer of access tokens, and the required claims of its tokens.
type OIDC struct {
	// Issuer is the identity provider's URL, exactly as in the claim iss of its tokens.
	Issuer string `json:"issuer,omitempty"`
	// ClientID is the client ID of the proxy at the issuer: introspection requests use it, and ID tokens issued to it are refused.
	ClientID string `json:"clientId,omitempty"`
	// ClientSecretEnv is the name of the environment variable with the client secret, for introspection.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty"`
	// Secret is the value of the variable.
	Secret string `json:"-"`
	// Audience is the required audience of tokens.
	Audience string `json:"audience,omitempty"`
	// Resource is the endpoint's URL, which tokens may name as their audience. Default: the audience if that is a URL.
	Resource string `json:"resource,omitempty"`
	// Scopes are advertised to clients without a token; they are not required.
	Scopes []string `json:"scopes,omitempty"`
	// RequiredScopes are the scopes that every token must have.
	RequiredScopes []string `json:"requiredScopes,omitempty"`
	// JWKSURL is the URL of the issuer's keys. Default: as in the issuer's discovery document.
	JWKSURL string `json:"jwksUrl,omitempty"`
	// IntrospectionURL is the introspection endpoint for tokens that are not JWTs (RFC 7662).
	IntrospectionURL string `json:"introspectionUrl,omitempty"`
	// IntrospectionAudience is what responses of the introspection endpoint have to say about the audience. required: aud with the audience or the resource. optional: responses without aud are accepted for tokens of introspectionClients that the response calls bearer tokens (token_type).
	IntrospectionAudience string `json:"introspectionAudience,omitempty" enum:"required,optional" default:"required"`
	// IntrospectionClients are the client IDs of OAuth clients, by client_id or azp, whose tokens are accepted without aud. Only with introspectionAudience: optional.
	IntrospectionClients []string `json:"introspectionClients,omitempty"`
	// InsecureAllowHTTP allows an issuer without TLS.
	InsecureAllowHTTP bool `json:"insecureAllowHttp,omitempty"`
	// JWKSAllowPrivateIP allows an issuer at an address that is not public: private, loopback, or 100.64.0.0/10 of overlay networks.
	JWKSAllowPrivateIP bool `json:"jwksAllowPrivateIp,omitempty"`
	// ProtectedResourceAllowPrivateIP is accepted and ignored.
	ProtectedResourceAllowPrivateIP bool `json:"protectedResourceAllowPrivateIp,omitempty"`
	// CABundlePath is a file of certificates to trust for the issuer, relative to the configuration file.
	CABundlePath string `json:"caBundlePath,omitempty"`
	// CAText is the content of such a file.
	CAText string `json:"-"`
	// Algorithms are the accepted signature algorithms.
	Algorithms []string `json:"algorithms,omitempty"`
	// ClockSkew is the accepted difference between the issuer's clock and this machine's.
	ClockSkew Duration `json:"clockSkew,omitempty" default:"30s"`
	// JWKSRefresh is the interval at which the keys are fetched.
	JWKSRefresh Duration `json:"jwksRefresh,omitempty" default:"10m"`
	// IntrospectionCache is how long a response that a token is active is cached at most.
	IntrospectionCache Duration `json:"introspectionCache,omitempty" default:"60s"`
	// SubjectClaim is the claim with the subject; dots separate the members of nested objects.
	SubjectClaim string `json:"subjectClaim,omitempty" default:"sub"`
}

// StaticTokens are bearer tokens in a file.
type StaticTokens struct {
	// File has the hashes of the tokens, with groups, scopes and expiry; vmcp token writes it. It is reloaded when it changes. Relative to the configuration file.
	File string `json:"file,omitempty"`
}

// MTLS is how client certificates are mapped to principals.
type MTLS struct {
	// Subject is the field with the subject: the SPIFFE URI, or the common name.
	Subject string `json:"subject,omitempty" enum:"uri,cn"`
}

// signatures are the asymmetric signature algorithms of JWTs: the verifier needs no secret.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Authentication is a without authorization, except for the claims that groups come from.
func (a IncomingAuth) Authentication() IncomingAuth {
	a.Authz = Authz{GroupClaimName: a.Authz.GroupClaimName, RoleClaimName: a.Authz.RoleClaimName}
	return a
}

// access checks incomingAuth and tls.
func (v *validator) access(c *Config) {
	v.tls(&c.TLS)
	a := &c.IncomingAuth
	v.authz(c)
	v.tokens(a)
	switch a.Type {
	case "oidc":
		v.oidc(&a.OIDC)
	case "mtls":
		if c.TLS.ClientCA == "" {
			v.Report("incomingAuth.type", "mtls needs tls.clientCA, the CA of the client certificates")
		}
	case "local":
		if !IsLoopback(c.Listen) {
			v.Report("incomingAuth.type", "local is for a loopback address, where everybody is the user of this machine; listen has %q", c.Listen)
		}
	}
	if a.Type != "oidc" && a.OIDC.Issuer != "" {
		v.Report("incomingAuth.oidc", "only with type: oidc; the type is %q", orDefault(a.Type, "anonymous"))
	}
	if a.Type != "mtls" && a.MTLS.Subject != "" && c.TLS.ClientCA == "" {
		v.Report("incomingAuth.mtls", "needs tls.clientCA, the CA of the client certificates")
	}
}

// IsLoopback reports whether an address to listen on, host:port, is a loopback address.
// An empty one is the default, which is one.
func IsLoopback(addr string) bool {
	return addr == "" || hostname.IsLoopback(addr)
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (v *validator) tls(t *TLS) {
	switch {
	case t.Cert != "" && t.Key == "":
		v.Report("tls.cert", "needs tls.key, the certificate's private key")
	case t.Key != "" && t.Cert == "":
		v.Report("tls.key", "needs tls.cert, the certificate")
	case t.ClientCA != "" && t.Cert == "":
		v.Report("tls.clientCA", "needs tls.cert and tls.key")
	}
	v.Existing("tls.cert", &t.Cert)
	v.Existing("tls.key", &t.Key)
	v.Existing("tls.clientCA", &t.ClientCA)
}

func (v *validator) tokens(a *IncomingAuth) {
	const path = "incomingAuth.tokens"
	switch {
	case a.Type == "tokens" && a.Tokens.File == "":
		v.Report("incomingAuth.type", "tokens needs incomingAuth.tokens.file; vmcp token new NAME --file tokens.yaml makes one")
	case a.Tokens.File != "" && a.Type != "tokens" && a.Type != "oidc" && a.Type != "mtls":
		v.Report(path, "only with type: tokens, oidc or mtls; the type is %q", orDefault(a.Type, "anonymous"))
	}
	v.Existing(path+".file", &a.Tokens.File)
}

func (v *validator) oidc(o *OIDC) {
	const path = "incomingAuth.oidc"
	if o.Issuer == "" {
		v.Report(path+".issuer", "want the identity provider's URL, exactly as in the claim iss of its tokens")
	}
	if o.Audience == "" && o.Resource == "" {
		v.Report(path+".audience", "want the audience of the tokens, such as the endpoint's URL: without it tokens for any other service would be accepted")
	}
	v.issuerURL(path+".issuer", o.Issuer, o.InsecureAllowHTTP)
	v.issuerURL(path+".jwksUrl", o.JWKSURL, o.InsecureAllowHTTP)
	v.issuerURL(path+".introspectionUrl", o.IntrospectionURL, o.InsecureAllowHTTP)
	v.issuerURL(path+".resource", o.Resource, true)
	for i, alg := range o.Algorithms {
		at := document.IndexPath(path+".algorithms", i)
		switch {
		case strings.EqualFold(alg, "none"):
			v.Report(at, "none is no signature: anybody could make such a token")
		case strings.HasPrefix(alg, "HS"):
			v.Report(at, "%s is a signature with a shared secret, and the keys of an issuer are public; want one of %s", alg, strings.Join(signatures, ", "))
		case !slices.Contains(signatures, alg):
			v.Report(at, "want one of %s, have %q", strings.Join(signatures, ", "), alg)
		}
	}
	v.Scopes(path+".scopes", o.Scopes)
	v.Scopes(path+".requiredScopes", o.RequiredScopes)
	v.Existing(path+".caBundlePath", &o.CABundlePath)
	v.clientSecret(path, o)
	v.introspection(path, o)
}

// introspection checks what introspection responses have to say.
func (v *validator) introspection(path string, o *OIDC) {
	at := path + ".introspectionAudience"
	switch optional := o.IntrospectionAudience == "optional"; {
	case optional && o.IntrospectionURL == "":
		v.Report(at, "only with introspectionUrl")
	case optional && len(o.IntrospectionClients) == 0:
		v.Report(at, "optional needs introspectionClients, the clients whose tokens are accepted: without them a token for any other service would be")
	case !optional && len(o.IntrospectionClients) > 0:
		v.Report(path+".introspectionClients", "only with introspectionAudience: optional")
	}
	for i, id := range o.IntrospectionClients {
		if id == "" {
			v.Report(document.IndexPath(path+".introspectionClients", i), "want a client ID, not an empty string")
		}
	}
}

// clientSecret reads the secret for introspection.
func (v *validator) clientSecret(path string, o *OIDC) {
	if o.IntrospectionURL != "" && (o.ClientID == "" || o.ClientSecretEnv == "") {
		v.Report(path+".introspectionUrl", "needs clientId and clientSecretEnv: introspection requests are authenticated (RFC 7662, section 2.1)")
		return
	}
	if o.ClientSecretEnv == "" {
		return
	}
	secret, ok := v.Env(o.ClientSecretEnv)
	if !ok || secret == "" {
		v.Report(path+".clientSecretEnv", "the environment variable %s is not set", o.ClientSecretEnv)
	}
	o.Secret = secret
	v.Secrets = append(v.Secrets, secret)
}

func (v *validator) issuerURL(path, text string, insecure bool) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.Report(path, "want a URL such as https://idp.example.com")
	case u.Scheme == "http" && !insecure:
		v.Report(path, "want https: without TLS the keys could be replaced on the way; insecureAllowHttp: true allows it")
	}
}

// TokensFile returns the absolute path of incomingAuth.tokens.file of a configuration file;
// "" if it is not set. Other problems of the file are ignored: vmcp token may be about to
// create the tokens file.
func TokensFile(path string) (string, error) {
	data, err := files.Read(path, MaxFile)
	if err != nil {
		return "", err
	}
	var c struct {
		IncomingAuth struct {
			Tokens StaticTokens `json:"tokens"`
		} `json:"incomingAuth"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	file := c.IncomingAuth.Tokens.File
	if file == "" || filepath.IsAbs(file) {
		return file, nil
	}
	return filepath.Join(filepath.Dir(path), file), nil
}
