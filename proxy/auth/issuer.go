package auth

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// maxBundle bounds a file of trusted certificates, in bytes.
const maxBundle = 4 << 20

// issuerClient returns the HTTP client for requests to an issuer: it follows no redirects, and
// connects to private addresses only with jwksAllowPrivateIP. It uses the proxy of the
// environment, whose connections are not checked.
func issuerClient(o config.OIDC) (*http.Client, error) {
	dialer := &net.Dialer{Timeout: fetchTimeout}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: fetchTimeout, IdleConnTimeout: time.Minute}
	if !o.JWKSAllowPrivateIP && !proxied(o.Issuer) {
		dialer.Control = hostname.RefusePrivate("; incomingAuth.oidc.jwksAllowPrivateIp allows it")
	}
	roots, err := issuerRoots(o)
	if err != nil {
		return nil, err
	}
	if roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	refuse := func(*http.Request, []*http.Request) error { return errRedirect }
	return &http.Client{Transport: t, CheckRedirect: refuse, Timeout: 2 * fetchTimeout}, nil
}

// issuerRoots returns the certificates to trust for an issuer; nil for those of the system.
func issuerRoots(o config.OIDC) (*x509.CertPool, error) {
	pem := []byte(o.CAText)
	if o.CABundlePath != "" {
		var err error
		if pem, err = files.Read(o.CABundlePath, maxBundle); err != nil {
			return nil, fmt.Errorf("caBundlePath: %s: %w", o.CABundlePath, err)
		}
	}
	if len(pem) == 0 {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", cmp.Or(o.CABundlePath, "the CA bundle for the issuer"))
	}
	return roots, nil
}

func proxied(issuer string) bool {
	r, err := http.NewRequest(http.MethodGet, issuer, nil)
	if err != nil {
		return false
	}
	u, err := http.ProxyFromEnvironment(r)
	return err == nil && u != nil
}

func algorithms(names []string) []jose.SignatureAlgorithm {
	if len(names) == 0 {
		names = []string{"RS256", "ES256"}
	}
	algs := make([]jose.SignatureAlgorithm, len(names))
	for i, n := range names {
		algs[i] = jose.SignatureAlgorithm(n)
	}
	return algs
}

// local returns the principal of the user that this process runs as.
var local = sync.OnceValue(func() *Principal {
	name := "user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return newPrincipal(Principal{Issuer: IssuerLocal, Subject: name})
})

// certified returns the principal of a verified client certificate, nil where there is none: by its SPIFFE ID
// (a URI SAN with the scheme spiffe), or its common name.
func certified(r *http.Request, subject string) (*Principal, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, nil
	}
	cert := r.TLS.VerifiedChains[0][0]
	name := ""
	if subject == "cn" {
		name = cert.Subject.CommonName
	} else if len(cert.URIs) == 1 && cert.URIs[0].Scheme == "spiffe" { // X.509-SVID, section 2: exactly one
		name = cert.URIs[0].String()
	}
	switch {
	case name == "" && subject == "cn":
		return nil, fmt.Errorf("the client certificate %q has no common name", cert.Subject)
	case name == "":
		return nil, fmt.Errorf("the client certificate %q has %d URIs: want one, a SPIFFE ID", cert.Subject, len(cert.URIs))
	}
	return newPrincipal(Principal{Issuer: IssuerMTLS, Subject: name, Expires: cert.NotAfter}), nil
}
