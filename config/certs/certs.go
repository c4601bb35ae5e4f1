// Package certs reads the certificate files of TLS connections: of the server's port (Server), of
// connections to backends (ForBackend), and those that a client command trusts (Trusting). Files that
// change are read again; while a new version is invalid, the previous one stays in use.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// lookEvery is the shortest interval between two checks of the files for changes.
	lookEvery = time.Second
	// maxFile bounds each of the files, in bytes.
	maxFile = 4 << 20
)

// read reads a regular file of bounded size. setting names the file's setting in errors.
func read(setting, path string) ([]byte, error) {
	data, err := files.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", setting, path, err)
	}
	return data, nil
}

// addTo adds the certificates of a file to a pool.
func addTo(pool *x509.CertPool, setting, path string) (data []byte, err error) {
	if data, err = read(setting, path); err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s: no certificates", setting, path)
	}
	return data, nil
}

// pair reads tls.cert and tls.key.
func pair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := read("tls.cert", certFile)
	if err != nil {
		return nil, err
	}
	key, err := read("tls.key", keyFile)
	if err != nil {
		return nil, err
	}
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	return &p, nil
}

func stampsOf(names ...string) (stamps [3]files.Stamp) {
	for i, name := range names {
		if name != "" {
			stamps[i] = files.StampOf(name)
		}
	}
	return stamps
}
