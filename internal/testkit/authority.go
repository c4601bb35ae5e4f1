package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates that are valid for an hour.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	pair := sign(t, nil, x509.Certificate{Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{cert, pair.PrivateKey.(*ecdsa.PrivateKey)}
}

// Issue makes a certificate for servers and clients with the names of template. Serial number, key usage and validity
// are set; NotAfter of template is kept.
func (a *Authority) Issue(t testing.TB, template x509.Certificate) tls.Certificate {
	t.Helper()
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return sign(t, a, template)
}

// WriteCert writes the certificate of the authority to a file.
func (a *Authority) WriteCert(t testing.TB, file string) {
	t.Helper()
	writePEM(t, file, "CERTIFICATE", a.Cert.Raw)
}

// SelfSigned writes a self-signed certificate for a DNS name, and its key: name.crt and name.key in dir.
func SelfSigned(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	return WritePair(t, dir, name, sign(t, nil, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}))
}

// WritePair writes a certificate and its key: name.crt and name.key in dir.
func WritePair(t testing.TB, dir, name string, pair tls.Certificate) (cert, key string) {
	t.Helper()
	private, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, cert, "CERTIFICATE", pair.Certificate[0])
	writePEM(t, key, "EC PRIVATE KEY", private)
	return cert, key
}

// sign makes a certificate of template, signed by a; self-signed for nil.
func sign(t testing.TB, a *Authority, template x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template.SerialNumber, template.NotBefore = big.NewInt(now.UnixNano()), now.Add(-48*time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = now.Add(time.Hour)
	}
	parent, signer := &template, key
	if a != nil {
		parent, signer = a.Cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
