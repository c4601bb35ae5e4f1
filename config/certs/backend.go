package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Backend is the TLS configuration of connections to a backend. Files are checked for changes
// when a connection is made. While a new version is invalid, the previous one stays in use.
type Backend struct {
	cfg  config.BackendTLS
	host string // the name that the backend's certificate must have
	log  *slog.Logger

	mu     sync.Mutex
	roots  *x509.CertPool   // guarded by mu; nil: those of the system
	own    *tls.Certificate // guarded by mu; nil: none
	loaded bool             // guarded by mu: a valid version was read
	stamps [3]files.Stamp   // guarded by mu: of the files at the last read
	looked time.Time        // guarded by mu
	err    error            // guarded by mu: of the last read
	text   string           // guarded by mu: further trusted certificates, in PEM
}

// ForBackend returns the TLS configuration of connections to a backend; nil where none is
// configured.
func ForBackend(cfg config.BackendTLS, host string, log *slog.Logger) *Backend {
	if cfg == (config.BackendTLS{}) {
		return nil
	}
	if cfg.ServerName != "" {
		host = cfg.ServerName
	}
	return &Backend{cfg: cfg, host: host, log: log, text: cfg.CAText}
}

// Config returns the configuration for crypto/tls; nil for a nil *Backend.
func (c *Backend) Config() *tls.Config {
	if c == nil {
		return nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.host, GetClientCertificate: c.present}
	if c.cfg.CA != "" || c.cfg.CAText != "" {
		// The pool of a tls.Config cannot be replaced: verify makes the same check against the
		// current one.
		conf.InsecureSkipVerify, conf.VerifyConnection = true, c.verify
	}
	return conf
}

// Trusts reports whether text is the present text of Trust.
func (c *Backend) Trusts(text string) bool {
	if c == nil {
		return text == ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text == text
}

// Trust replaces the text with trusted certificates, in PEM. The configuration must have had one from the
// beginning.
func (c *Backend) Trust(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.stamps, c.looked, c.loaded = text, [3]files.Stamp{}, time.Time{}, false
}

// verify verifies the backend's certificate, as crypto/tls does without
// InsecureSkipVerify.
func (c *Backend) verify(s tls.ConnectionState) error {
	roots, _, err := c.current()
	if err != nil {
		return err
	}
	o := x509.VerifyOptions{Roots: roots, DNSName: c.host, Intermediates: x509.NewCertPool()}
	for _, cert := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(cert)
	}
	if _, err := s.PeerCertificates[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// present returns the proxy's client certificate.
func (c *Backend) present(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	_, own, err := c.current()
	if own == nil {
		own = &tls.Certificate{} // none
	}
	return own, err
}

// current returns the current version, read again if it has changed.
func (c *Backend) current() (*x509.CertPool, *tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.read()
	}
	if !c.loaded {
		return nil, nil, c.err
	}
	return c.roots, c.own, nil
}

// read reads the files if they have changed. mu is held.
func (c *Backend) read() {
	stamps := stampsOf(c.cfg.CA, c.cfg.Cert, c.cfg.Key) // before the files are read, so that a change meanwhile is found
	if c.loaded && slices.EqualFunc(stamps[:], c.stamps[:], files.Stamp.Same) {
		return
	}
	c.stamps = stamps
	roots, own, err := load(c.cfg, c.text)
	if err != nil {
		if c.loaded {
			c.log.Error("certificates not read, the previous ones stay in use", "err", err)
		}
		c.err = err
		return
	}
	c.roots, c.own, c.loaded, c.err = roots, own, true, nil
}

// load reads the files; text has further trusted certificates.
func load(cfg config.BackendTLS, text string) (roots *x509.CertPool, own *tls.Certificate, err error) {
	if cfg.CA != "" || text != "" {
		roots = x509.NewCertPool()
	}
	if text != "" && !roots.AppendCertsFromPEM([]byte(text)) {
		return nil, nil, errors.New("no certificates in the configured text")
	}
	if cfg.CA != "" {
		if _, err := addTo(roots, "tls.ca", cfg.CA); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Cert == "" {
		return roots, nil, nil
	}
	own, err = pair(cfg.Cert, cfg.Key)
	return roots, own, err
}
