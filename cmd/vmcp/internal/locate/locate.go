// Package locate finds the endpoint that a command speaks to when no flag says which, and what it takes to be let in.
package locate

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/discovery"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/certs"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Where an endpoint is that nothing else is said of.
const (
	defaultHost, defaultPort = "127.0.0.1", "4483"
	DefaultURL               = "http://" + defaultHost + ":" + defaultPort + "/mcp"
)

// Flags say where an endpoint is; "" says nothing.
type Flags struct {
	URL, TokenFile, CAFile string
	Config                 string // a configuration that says where it listens, if the file is there
}

// Endpoint is where one is.
type Endpoint struct {
	URL      string
	AdminURL string // of the port for operators; "" where it has none of its own

	tokenFile  string // "": what VMCP_TOKEN holds, or nothing
	named      string // who named tokenFile
	adminToken string // the file with the token of the port for operators
	caFile     string // to trust beside the system's certificates
	certFile   string // the endpoint's own certificate, where its configuration is here
	config     string // that named it
}

// Find is the endpoint that the flags name, or else the one of the configuration here, or else the user's.
func Find(flags Flags) Endpoint {
	f := Endpoint{URL: flags.URL}
	switch {
	case flags.URL != "":
	case Exists(flags.Config):
		f = foundIn(flags.Config)
	default:
		f = foundBy(discovery.UserFile(), DefaultURL)
	}
	f.caFile = flags.CAFile
	if flags.TokenFile != "" {
		f.tokenFile, f.named = flags.TokenFile, "--token-file"
	}
	return f
}

// At is the endpoint that a URL names. The user's discovery file says which token it takes, if it is of the same one and
// no flag says.
func At(flags Flags) Endpoint {
	f := Endpoint{URL: flags.URL, caFile: flags.CAFile}
	if flags.TokenFile != "" {
		f.tokenFile, f.named = flags.TokenFile, "--token-file"
		return f
	}
	if d := foundBy(discovery.UserFile(), ""); d.URL == f.URL {
		f.tokenFile, f.named = d.tokenFile, d.named
	}
	return f
}

// Exists reports whether a file can be read that may be a configuration.
func Exists(name string) bool {
	_, err := files.Read(name, config.MaxFile)
	return err == nil
}

// foundBy is what a discovery file says, unless it is stale.
func foundBy(file, otherwise string) Endpoint {
	if file != "" {
		if d, ok := discovery.Find(file); ok {
			return Endpoint{URL: d.URL, AdminURL: d.AdminURL, tokenFile: d.TokenFile, adminToken: d.AdminTokenFile, named: file}
		}
	}
	return Endpoint{URL: otherwise}
}

// foundIn is where a configuration is served. The rest of the file is not looked at: it may
// need an environment that only the server has.
func foundIn(file string) Endpoint {
	var declared struct {
		Listen string       `json:"listen"`
		Admin  config.Admin `json:"admin"`
		TLS    struct {
			Cert string `json:"cert"`
		} `json:"tls"`
		Discovery struct {
			File string `json:"file"`
		} `json:"discovery"`
	}
	data, err := files.Read(file, config.MaxFile)
	if err != nil || yaml.Unmarshal(data, &declared) != nil {
		return Endpoint{URL: DefaultURL}
	}
	beside := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(file), name)
	}
	host, port, err := net.SplitHostPort(declared.Listen)
	if err != nil || port == "0" {
		host, port = defaultHost, defaultPort
	}
	scheme := "http://"
	if declared.TLS.Cert != "" {
		scheme = "https://"
	}
	announced := beside(declared.Discovery.File)
	switch declared.Discovery.File {
	case config.NoDiscovery:
		announced = ""
	case "":
		announced = served(file)
	}
	f := foundBy(announced, scheme+discovery.Reachable(host, port)+"/mcp")
	f.certFile, f.config = beside(declared.TLS.Cert), file
	if host, port, err := net.SplitHostPort(declared.Admin.Listen); err == nil && port != "0" && f.AdminURL == "" {
		f.AdminURL = "http://" + discovery.Reachable(host, port)
	}
	f.adminToken = cmp.Or(f.adminToken, beside(declared.Admin.TokenFile))
	return f
}

// served is the user's discovery file if it is of a server of this configuration, which may listen elsewhere than
// the configuration says.
func served(file string) string {
	d, ok := discovery.Find(discovery.UserFile())
	abs, err := filepath.Abs(file)
	if !ok || err != nil || d.Config != abs {
		return ""
	}
	return discovery.UserFile()
}

// TokenFile is the file with the token, if it is known; VMCP_TOKEN goes before it.
func (f Endpoint) TokenFile() string { return f.tokenFile }

// Token is the credential for the endpoint; "" for nothing. The environment goes before what
// a file says that nobody named.
func (f Endpoint) Token() (string, error) { return f.token(f.tokenFile, f.named) }

// AdminToken is Token for the port for operators.
func (f Endpoint) AdminToken() (string, error) {
	if f.named == "--token-file" || f.AdminURL == "" {
		return f.Token()
	}
	return f.token(f.adminToken, "admin.tokenFile")
}

func (f Endpoint) token(file, named string) (string, error) {
	token := Environment()
	if file == "" || token != "" && named != "--token-file" {
		return token, nil
	}
	token, err := config.ReadToken(file)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", named, file, err)
	}
	return token, nil
}

// Environment is the token that the environment holds; "" for none.
func Environment() string { return strings.TrimSpace(os.Getenv("VMCP_TOKEN")) }

// Transport trusts what the endpoint shows as its certificate, if there is more to trust than
// the system does.
func (f Endpoint) Transport() (http.RoundTripper, error) {
	if f.caFile == "" && f.certFile == "" {
		return http.DefaultTransport, nil
	}
	trust, setting, file := certs.Trusting, "--ca-file", f.caFile
	if file == "" {
		trust, setting, file = certs.Pinned, "tls.cert of "+f.config, f.certFile
	}
	secure, err := trust(setting, file)
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = secure
	return t, nil
}
