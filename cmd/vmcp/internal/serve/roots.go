package serve

import (
	"crypto/x509"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// This part of the package provides public certificate authorities in an image that has no files.

// Where Linux systems have certificate authorities, unless environment variables name them; a folder
// counts if it is not empty.
var (
	rootFiles   = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem", "/etc/ssl/cert.pem"}
	rootFolders = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// FallBack makes Mozilla's certificate authorities trusted on a Linux that has none. Parsing
// them takes as long as all else of a start, so that it is not done where a system has its own.
func FallBack() {
	files, folders := rootFiles, rootFolders
	if name := os.Getenv("SSL_CERT_FILE"); name != "" {
		files = []string{name}
	}
	if names := os.Getenv("SSL_CERT_DIR"); names != "" {
		folders = strings.Split(names, ":")
	}
	if runtime.GOOS != "linux" || slices.ContainsFunc(slices.Concat(files, folders), holds) {
		return
	}
	pool := x509.NewCertPool()
	for c := range bundle.Roots() {
		cert, err := x509.ParseCertificate(c.Certificate)
		if err != nil {
			continue // the authority is left out
		}
		if c.Constraint == nil {
			pool.AddCert(cert)
		} else {
			pool.AddCertWithConstraint(cert, c.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
}

// holds reports whether there is a file at a path, or a folder that is not empty.
func holds(place string) bool {
	f, err := os.Open(place)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.IsDir() {
		return err == nil
	}
	names, _ := f.Readdirnames(1)
	return len(names) > 0
}
