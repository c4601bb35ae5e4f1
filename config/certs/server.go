package certs

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Server is the certificates of the server's port, read again when their files or
// paths change. While a new version is invalid, the previous one stays in use.
type Server struct {
	log *slog.Logger

	mu     sync.Mutex
	serves served    // guarded by mu
	looked time.Time // guarded by mu
}

// served is one state of the files.
type served struct {
	cfg    config.TLS
	loaded *tls.Config
	stamps [3]files.Stamp // of the files at the last read
}

// NewServer reads the certificates of a configuration; nil where it has none.
func NewServer(cfg config.TLS, log *slog.Logger) (*Server, error) {
	if cfg.Cert == "" {
		return nil, nil
	}
	c, err := readServed(cfg)
	if err != nil {
		return nil, err
	}
	return &Server{log: log, serves: c, looked: time.Now()}, nil
}

// Config returns the configuration for the listener; nil means plain HTTP.
func (f *Server) Config() *tls.Config {
	if f == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current(), nil },
	}
}

// Follow reads the files of a new configuration. They are used once serve is called.
func (f *Server) Follow(cfg config.TLS) (serve func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg == f.serves.cfg {
		return func() {}, nil
	}
	c, err := readServed(cfg)
	if err != nil {
		return nil, err
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.serves, f.looked = c, time.Now()
	}, nil
}

// current returns the current certificates, read again if they have changed.
func (f *Server) current() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookEvery {
		return f.serves.loaded
	}
	f.looked = time.Now()
	stamps := stampsOfServer(f.serves.cfg)
	if slices.EqualFunc(stamps[:], f.serves.stamps[:], files.Stamp.Same) {
		return f.serves.loaded
	}
	f.serves.stamps = stamps
	c, err := readServed(f.serves.cfg)
	if err != nil {
		f.log.Error("certificate not read, the previous one stays in use", "err", err)
		return f.serves.loaded
	}
	f.serves = c
	f.log.Info("certificate reloaded", "file", c.cfg.Cert)
	return c.loaded
}

func readServed(cfg config.TLS) (served, error) {
	stamps := stampsOfServer(cfg) // before the files are read, so that a change meanwhile is found
	loaded, err := loadServer(cfg)
	return served{cfg, loaded, stamps}, err
}

func loadServer(cfg config.TLS) (*tls.Config, error) {
	own, err := pair(cfg.Cert, cfg.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*own}, NextProtos: []string{"http/1.1"}}
	if cfg.ClientCA == "" {
		return c, nil
	}
	c.ClientCAs = x509.NewCertPool()
	if _, err := addTo(c.ClientCAs, "tls.clientCA", cfg.ClientCA); err != nil {
		return nil, err
	}
	// A client without a certificate gets a response with 401 and a description, which a
	// failed handshake would not have.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

func stampsOfServer(cfg config.TLS) [3]files.Stamp { return stampsOf(cfg.Cert, cfg.Key, cfg.ClientCA) }
