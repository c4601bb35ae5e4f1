package auth

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/user"
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// maxBundle bounds a file of certificates to trust, in bytes.
const maxBundle = 4 << 20

// issuerClient is the HTTP client for everything that an issuer is asked: it follows no
// redirects, and goes to addresses of the own network only if the configuration says so. A
// proxy of the environment is used, and then decides itself where it goes.
func issuerClient(o config.OIDC) (*http.Client, error) {
	dialer := &net.Dialer{Timeout: fetchTimeout}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: fetchTimeout, IdleConnTimeout: time.Minute}
	if !o.JWKSAllowPrivateIP && !proxied(o.Issuer) {
		dialer.Control = refusePrivate
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

// issuerRoots are the certificates to trust for an issuer; nil: those of the system.
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
		return nil, fmt.Errorf("%s: no certificates", cmp.Or(o.CABundlePath, "the bundle for the issuer"))
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

// refusePrivate refuses connections to addresses that are not public.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a := ap.Addr().Unmap(); a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() {
		return fmt.Errorf("%s is a private address; incomingAuth.oidc.jwksAllowPrivateIp allows it", a)
	}
	return nil
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

// local is the user whom this process runs as.
var local = sync.OnceValue(func() *Principal {
	name := "user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return newPrincipal(Principal{Issuer: IssuerLocal, Subject: name})
})

// certified is who a verified client certificate stands for, nil where there is none: its SPIFFE ID (a URI
// SAN with the scheme spiffe), or the common name.
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
