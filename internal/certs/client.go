package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
)

// Trusting is for connections to servers whose certificates, or those of who signed them, are in a
// file, beside those that the system trusts. setting is where the file was named.
func Trusting(setting, file string) (*tls.Config, error) {
	secure, _, err := trusting(setting, file)
	return secure, err
}

// Pinned is Trusting for the server whose own certificate the file begins with: whoever has that
// need not reach the server by its name.
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

// ownName is a name that the first certificate of a file is for. "" is the name that is dialled.
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
