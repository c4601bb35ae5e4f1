package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// tlsFiles are the certificates of the port, read anew when their files or their names
// change. While a new version is broken, the one before serves on.
type tlsFiles struct {
	log *slog.Logger

	mu     sync.Mutex
	serves certificates // guarded by mu
	looked time.Time    // guarded by mu
}

// certificates are one state of the files.
type certificates struct {
	cfg    config.TLS
	loaded *tls.Config
	stamps [3]files.Stamp // of the files that were tried last
}

const (
	// tlsLookEvery is how often the files are looked at, at the most.
	tlsLookEvery = time.Second
	// maxCertificates bounds each of the files, in bytes.
	maxCertificates = 4 << 20
)

// tlsFor is what a port needs to speak TLS; nil where the configuration has no certificate.
func tlsFor(cfg config.TLS, log *slog.Logger) (*tlsFiles, error) {
	if cfg.Cert == "" {
		return nil, nil
	}
	c, err := readCertificates(cfg)
	if err != nil {
		return nil, err
	}
	return &tlsFiles{log: log, serves: c, looked: time.Now()}, nil
}

// config is for the listener; nil is plain HTTP.
func (f *tlsFiles) config() *tls.Config {
	if f == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current(), nil },
	}
}

// follow reads the files that a new configuration names. They serve when it is called.
func (f *tlsFiles) follow(cfg config.TLS) (serve func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg == f.serves.cfg {
		return func() {}, nil
	}
	c, err := readCertificates(cfg)
	if err != nil {
		return nil, err
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.serves, f.looked = c, time.Now()
	}, nil
}

// current is what serves now.
func (f *tlsFiles) current() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < tlsLookEvery {
		return f.serves.loaded
	}
	f.looked = time.Now()
	stamps := stampsOf(f.serves.cfg)
	if slices.EqualFunc(stamps[:], f.serves.stamps[:], files.Stamp.Same) {
		return f.serves.loaded
	}
	f.serves.stamps = stamps
	c, err := readCertificates(f.serves.cfg)
	if err != nil {
		f.log.Error("certificate not read, the one before goes on", "err", err)
		return f.serves.loaded
	}
	f.serves = c
	f.log.Info("certificate read anew", "file", c.cfg.Cert)
	return c.loaded
}

func readCertificates(cfg config.TLS) (certificates, error) {
	stamps := stampsOf(cfg) // before the files are read: what changes meanwhile is read again
	loaded, err := loadCertificates(cfg)
	return certificates{cfg, loaded, stamps}, err
}

func loadCertificates(cfg config.TLS) (*tls.Config, error) {
	cert, err := readPEM("tls.cert", cfg.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM("tls.key", cfg.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if cfg.ClientCA == "" {
		return c, nil
	}
	pem, err := readPEM("tls.clientCA", cfg.ClientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.clientCA: %s: no certificates", cfg.ClientCA)
	}
	// A client without one is answered 401, which says what is wanted; a handshake that
	// fails says nothing.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// readPEM reads a file while clients wait for it: it must not be a pipe, nor endless.
func readPEM(key, path string) ([]byte, error) {
	data, err := files.Read(path, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", key, path, err)
	}
	return data, nil
}

func stampsOf(cfg config.TLS) (stamps [3]files.Stamp) {
	for i, name := range []string{cfg.Cert, cfg.Key, cfg.ClientCA} {
		stamps[i] = files.StampOf(name)
	}
	return stamps
}
