package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Which endpoint a client command speaks to when it is not told, and with what.

// found is an endpoint, with what it takes to be let in.
type found struct {
	url       string
	tokenFile string // "": what VMCP_TOKEN holds, or nothing
	named     string // who named tokenFile
	caFile    string // to trust beside the system's certificates
	certFile  string // the endpoint's own certificate, where its configuration is here
}

// find is the endpoint that the flags name, or else the one of the configuration here, or else
// the user's.
func (t target) find() found {
	f := found{url: t.url}
	switch {
	case t.url != "":
	case exists(defaultFile):
		f = foundIn(defaultFile)
	default:
		f = foundBy(userDiscovery(), defaultURL)
	}
	f.caFile = t.caFile
	if t.tokenFile != "" {
		f.tokenFile, f.named = t.tokenFile, "--token-file"
	}
	return f
}

func exists(name string) bool {
	_, err := files.Read(name, config.MaxFile)
	return err == nil
}

// foundBy is what a discovery file says, unless it is stale.
func foundBy(file, otherwise string) found {
	if file != "" {
		if d, ok := discovered(file); ok {
			return found{url: d.URL, tokenFile: d.TokenFile, named: file}
		}
	}
	return found{url: otherwise}
}

// foundIn is where a configuration is served. The rest of the file is not looked at: it may
// need an environment that only the server has.
func foundIn(file string) found {
	var said struct {
		Listen string `json:"listen"`
		TLS    struct {
			Cert string `json:"cert"`
		} `json:"tls"`
		Discovery struct {
			File string `json:"file"`
		} `json:"discovery"`
	}
	data, err := files.Read(file, config.MaxFile)
	if err != nil || yaml.Unmarshal(data, &said) != nil {
		return found{url: defaultURL}
	}
	beside := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(file), name)
	}
	host, port, err := net.SplitHostPort(said.Listen)
	if err != nil || port == "0" {
		host, port = defaultHost, defaultPort
	}
	scheme := "http://"
	if said.TLS.Cert != "" {
		scheme = "https://"
	}
	f := foundBy(beside(said.Discovery.File), scheme+reachable(host, port)+"/mcp")
	f.certFile = beside(said.TLS.Cert)
	return f
}

// token is what the endpoint is told who asks; "" for nothing. The environment goes before what
// a file says that nobody named.
func (f found) token() (string, error) {
	token := environmentToken()
	if f.tokenFile == "" || token != "" && f.named != "--token-file" {
		return token, nil
	}
	token, err := config.ReadToken(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", f.named, f.tokenFile, err)
	}
	return token, nil
}

// transport trusts what the endpoint shows as its certificate, if there is more to trust than
// the system does.
func (f found) transport() (http.RoundTripper, error) {
	if f.caFile == "" && f.certFile == "" {
		return http.DefaultTransport, nil
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}
	name, flag := f.caFile, "--ca-file"
	if name == "" {
		name, flag = f.certFile, "tls.cert of "+defaultFile
	}
	data, err := files.Read(name, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, name, err)
	}
	if !trusted.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s: no certificates", flag, name)
	}
	if f.caFile == "" {
		secure.ServerName = ownName(data)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = secure
	return t, nil
}

// ownName is a name that the first certificate of a file is for: whoever has the certificate
// itself need not reach its server by that name. "" is the name that is dialled.
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
