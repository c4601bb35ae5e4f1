package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// TLS is the endpoint's certificate. The files are read anew when they change.
type TLS struct {
	// Cert is a file with the certificate and those that vouch for it, in PEM, relative to the configuration file.
	Cert string `json:"cert,omitempty"`
	// Key is the file with the certificate's private key.
	Key string `json:"key,omitempty"`
	// ClientCA is a file with the certificates that client certificates are checked against. A client is asked for one and may come without.
	ClientCA string `json:"clientCA,omitempty"`
}

// IncomingAuth says who may come in. Without it everybody may who reaches the endpoint,
// which then has to listen on a loopback address.
type IncomingAuth struct {
	// Type is how clients say who they are: anonymous asks nobody, local takes everybody on this machine for its user, tokens and oidc want a bearer token, mtls a client certificate. Static tokens and certificates are also accepted beside oidc where they are configured.
	Type string `json:"type,omitempty" enum:"anonymous,local,oidc,tokens,mtls" default:"anonymous"`
	// OIDC is the issuer of access tokens, for type oidc.
	OIDC OIDC `json:"oidc,omitempty"`
	// Tokens are static tokens in a file.
	Tokens StaticTokens `json:"tokens,omitempty"`
	// MTLS says what in a client certificate is the subject; tls.clientCA says whose certificates.
	MTLS MTLS `json:"mtls,omitempty"`
	// Authz says what principals may do.
	Authz Authz `json:"authz,omitempty"`
	// TokenFile is a file with the one token of the user of this machine, which is asked for
	// whatever the type, and is good beside what the type wants.
	TokenFile string `json:"-"`
}

// OIDC is an issuer of access tokens, and what a token of it must have.
type OIDC struct {
	// Issuer is the identity provider's URL, exactly as its tokens name it.
	Issuer string `json:"issuer,omitempty"`
	// ClientID is what the proxy is to the issuer: it asks for introspection as this client, and refuses ID tokens that were made for it.
	ClientID string `json:"clientId,omitempty"`
	// ClientSecretEnv names the environment variable with the client's secret, for introspection.
	ClientSecretEnv string `json:"clientSecretEnv,omitempty"`
	// Secret is the client's secret that the variable held.
	Secret string `json:"-"`
	// Audience is what a token has to be for.
	Audience string `json:"audience,omitempty"`
	// Resource is the endpoint's URL, which tokens may name as their audience. Without it: the audience if that is a URL.
	Resource string `json:"resource,omitempty"`
	// Scopes are named to clients that bring no token; they are not asked for.
	Scopes []string `json:"scopes,omitempty"`
	// RequiredScopes have to be in every token.
	RequiredScopes []string `json:"requiredScopes,omitempty"`
	// JWKSURL is where the issuer's keys are. Without it the issuer's discovery document says.
	JWKSURL string `json:"jwksUrl,omitempty"`
	// IntrospectionURL is where tokens that are no JWTs are asked about (RFC 7662).
	IntrospectionURL string `json:"introspectionUrl,omitempty"`
	// InsecureAllowHTTP allows an issuer without TLS.
	InsecureAllowHTTP bool `json:"insecureAllowHttp,omitempty"`
	// JWKSAllowPrivateIP allows an issuer at a private or loopback address.
	JWKSAllowPrivateIP bool `json:"jwksAllowPrivateIp,omitempty"`
	// ProtectedResourceAllowPrivateIP is accepted and has no meaning here.
	ProtectedResourceAllowPrivateIP bool `json:"protectedResourceAllowPrivateIp,omitempty"`
	// CABundlePath is a file of certificates to trust for the issuer, relative to the configuration file.
	CABundlePath string `json:"caBundlePath,omitempty"`
	// CAText is what such a file would hold, where there is none.
	CAText string `json:"-"`
	// Algorithms are the signatures that are accepted.
	Algorithms []string `json:"algorithms,omitempty"`
	// ClockSkew is by how much the issuer's clock may differ, both ways.
	ClockSkew Duration `json:"clockSkew,omitempty" default:"30s"`
	// JWKSRefresh is how often the keys are fetched again.
	JWKSRefresh Duration `json:"jwksRefresh,omitempty" default:"10m"`
	// IntrospectionCache is how long an answer that a token is active holds at most.
	IntrospectionCache Duration `json:"introspectionCache,omitempty" default:"60s"`
	// SubjectClaim is the claim with the subject; dots lead into objects.
	SubjectClaim string `json:"subjectClaim,omitempty" default:"sub"`
}

// StaticTokens are bearer tokens in a file.
type StaticTokens struct {
	// File holds the hashes of the tokens, with groups, scopes and ends; vmcp token writes it. It is read anew when it changes. Relative to the configuration file.
	File string `json:"file,omitempty"`
}

// MTLS is about client certificates.
type MTLS struct {
	// Subject is what names the client: its SPIFFE URI, or the common name.
	Subject string `json:"subject,omitempty" enum:"uri,cn"`
}

// signatures are the algorithms that a token may be signed with: those of which the verifier
// holds no secret.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Authentication is a without what it says about what principals may do, but for the claims
// that groups come from.
func (a IncomingAuth) Authentication() IncomingAuth {
	a.Authz = Authz{GroupClaimName: a.Authz.GroupClaimName, RoleClaimName: a.Authz.RoleClaimName}
	return a
}

// access checks who may come in.
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
			v.report("incomingAuth.type", "mtls needs tls.clientCA: it says whose certificates are good")
		}
	case "local":
		if !IsLoopback(c.Listen) {
			v.report("incomingAuth.type", "local is for a loopback address, where everybody is the user of this machine; listen has %q", c.Listen)
		}
	}
	if a.Type != "oidc" && a.OIDC.Issuer != "" {
		v.report("incomingAuth.oidc", "only with type: oidc; the type is %q", orDefault(a.Type, "anonymous"))
	}
	if a.Type != "mtls" && a.MTLS.Subject != "" && c.TLS.ClientCA == "" {
		v.report("incomingAuth.mtls", "needs tls.clientCA: it says whose certificates are good")
	}
}

// IsLoopback reports whether only this machine reaches an address to listen on, host:port.
// An empty one is the default, which is such.
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
		v.report("tls.cert", "needs tls.key, the certificate's private key")
	case t.Key != "" && t.Cert == "":
		v.report("tls.key", "needs tls.cert, the certificate")
	case t.ClientCA != "" && t.Cert == "":
		v.report("tls.clientCA", "needs tls.cert and tls.key")
	}
	v.existing("tls.cert", &t.Cert)
	v.existing("tls.key", &t.Key)
	v.existing("tls.clientCA", &t.ClientCA)
}

// existing makes the name of a file absolute; it has to be a regular one.
func (v *validator) existing(path string, name *string) {
	if *name == "" {
		return
	}
	given := *name
	*name = v.absolute(given)
	switch info, err := os.Stat(*name); {
	case err != nil:
		v.report(path, "no such file %q", given)
	case !info.Mode().IsRegular():
		v.report(path, "%q is no regular file", given)
	}
}

func (v *validator) tokens(a *IncomingAuth) {
	const path = "incomingAuth.tokens"
	switch {
	case a.Type == "tokens" && a.Tokens.File == "":
		v.report("incomingAuth.type", "tokens needs incomingAuth.tokens.file; vmcp token new NAME --file tokens.yaml makes one")
	case a.Tokens.File != "" && a.Type != "tokens" && a.Type != "oidc" && a.Type != "mtls":
		v.report(path, "only with type: tokens, oidc or mtls; the type is %q", orDefault(a.Type, "anonymous"))
	}
	v.existing(path+".file", &a.Tokens.File)
}

func (v *validator) oidc(o *OIDC) {
	const path = "incomingAuth.oidc"
	if o.Issuer == "" {
		v.report(path+".issuer", "want the identity provider's URL, exactly as its tokens name it in iss")
	}
	if o.Audience == "" && o.Resource == "" {
		v.report(path+".audience", "want what tokens have to be for, such as the endpoint's URL: without it tokens for any other service would come in")
	}
	v.issuerURL(path+".issuer", o.Issuer, o.InsecureAllowHTTP)
	v.issuerURL(path+".jwksUrl", o.JWKSURL, o.InsecureAllowHTTP)
	v.issuerURL(path+".introspectionUrl", o.IntrospectionURL, o.InsecureAllowHTTP)
	v.issuerURL(path+".resource", o.Resource, true)
	for i, alg := range o.Algorithms {
		at := document.IndexPath(path+".algorithms", i)
		switch {
		case strings.EqualFold(alg, "none"):
			v.report(at, "none is no signature: anybody could write such a token")
		case strings.HasPrefix(alg, "HS"):
			v.report(at, "%s is signed with a secret that both sides know, which an issuer's keys are not; want one of %s", alg, strings.Join(signatures, ", "))
		case !slices.Contains(signatures, alg):
			v.report(at, "want one of %s, have %q", strings.Join(signatures, ", "), alg)
		}
	}
	v.scopes(path+".scopes", o.Scopes)
	v.scopes(path+".requiredScopes", o.RequiredScopes)
	v.existing(path+".caBundlePath", &o.CABundlePath)
	v.clientSecret(path, o)
}

// clientSecret reads the secret for introspection.
func (v *validator) clientSecret(path string, o *OIDC) {
	if o.IntrospectionURL != "" && (o.ClientID == "" || o.ClientSecretEnv == "") {
		v.report(path+".introspectionUrl", "needs clientId and clientSecretEnv: the issuer wants to know who asks about tokens (RFC 7662, section 2.1)")
		return
	}
	if o.ClientSecretEnv == "" {
		return
	}
	secret, ok := v.env(o.ClientSecretEnv)
	if !ok || secret == "" {
		v.report(path+".clientSecretEnv", "the environment variable %s is not set", o.ClientSecretEnv)
	}
	o.Secret = secret
	v.secrets = append(v.secrets, secret)
}

func (v *validator) issuerURL(path, text string, insecure bool) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.report(path, "want a URL such as https://idp.example.com")
	case u.Scheme == "http" && !insecure:
		v.report(path, "want https: whoever is on the way could answer instead; insecureAllowHttp allows it")
	}
}

func (v *validator) scopes(path string, scopes []string) {
	for i, s := range scopes {
		if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			v.report(document.IndexPath(path, i), "want one scope without spaces and quotes, have %q", s)
		}
	}
}

// TokensFile returns the absolute path of incomingAuth.tokens.file of a configuration file;
// "" when it names none. The rest of the file need not be right: the tokens file may be
// about to be made.
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
