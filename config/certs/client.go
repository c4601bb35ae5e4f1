package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
)

// Trusting returns a configuration that trusts the certificates of a file, of servers or authorities,
// in addition to those that the system trusts. setting names the file's setting in errors.
func Trusting(setting, file string) (*tls.Config, error) {
	secure, _, err := trusting(setting, file)
	return secure, err
}

// Pinned is Trusting for the server whose certificate is the first in the file. It verifies that
// certificate's name, so that the server can be dialled by another one.
func Pinned(setting, file string) (*tls.Config, error) {
	secure, data, err := trusting(setting, file)
	if err == nil {
		secure.ServerName = ownName(data)
	}
	return secure, err
}

func trusting(setting, file string) (*tls.Config, []byte, error) {
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	data, err := addTo(trusted, setting, file)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}, data, nil
}

// ownName returns a name of the first certificate of a file; "" when it has none, and the dialled name is
// verified.
func ownName(data []byte) string {
	block, _ := pem.Decode(data)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return ""
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	case len(cert.IPAddresses) > 0:
		return cert.IPAddresses[0].String()
	}
	return ""
}
