package cli

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// This part of the package finds the endpoint that a command connects to when no flag names it, and the credentials and certificates for it.

// The endpoint when neither a flag nor a file names one.
const (
	defaultHost, defaultPort = "127.0.0.1", "4483"
	DefaultURL               = "http://" + defaultHost + ":" + defaultPort + "/mcp"
)

// Flags are the flags that name an endpoint; "" is not set.
type Flags struct {
	URL, TokenFile, CAFile string
	Config                 string // a configuration with the endpoint's address, if the file is there
	// Running uses the user's endpoint, if it runs, instead of one of Config where nothing listens: for commands that
	// change nothing.
	Running bool
}

// Endpoint is where an endpoint is, and what a connection to it needs.
type Endpoint struct {
	URL      string
	AdminURL string // of the port for operators; "" where there is none

	tokenFile  string // "": the token is that of VMCP_TOKEN, or none
	named      string // the flag or file that named tokenFile
	adminToken string // the file with the token of the port for operators
	caFile     string // CA certificates to trust besides the system's
	certFile   string // the endpoint's own certificate, where its configuration is here
	config     string // the configuration that names it

	// Instead is the URL at which nothing listens, when Flags.Running led to another endpoint.
	Instead string
}

// FindEndpoint returns the endpoint that the flags name, else that of the configuration, else the user's.
func FindEndpoint(flags Flags) Endpoint {
	f := Endpoint{URL: flags.URL}
	switch {
	case flags.URL != "":
	case Exists(flags.Config):
		if f = foundIn(flags.Config); flags.Running && !listens(f.URL) {
			if user := foundBy(UserFile(), ""); user.URL != "" {
				user.Instead = f.URL
				f = user
			}
		}
	default:
		f = foundBy(UserFile(), DefaultURL)
	}
	f.caFile = flags.CAFile
	if flags.TokenFile != "" {
		f.tokenFile, f.named = flags.TokenFile, "--token-file"
	}
	return f
}

// ParseURL parses the value of --url. A URL without a path gets /mcp.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, Error("--url: want a URL such as " + DefaultURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	return u, nil
}

// listens reports whether a connection to a URL can be opened.
func listens(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// At returns the endpoint at a URL. Its token file is that of the flags, else that of the user's discovery file if this
// names the same URL.
func At(flags Flags) Endpoint {
	f := Endpoint{URL: flags.URL, caFile: flags.CAFile}
	if flags.TokenFile != "" {
		f.tokenFile, f.named = flags.TokenFile, "--token-file"
		return f
	}
	if d := foundBy(UserFile(), ""); d.URL == f.URL {
		f.tokenFile, f.named = d.tokenFile, d.named
	}
	return f
}

// Exists reports whether a file exists that can be read and is no larger than a configuration may be.
func Exists(name string) bool {
	_, err := files.Read(name, config.MaxFile)
	return err == nil
}

// foundBy returns the endpoint of a discovery file, or one at the URL otherwise if the file is missing or stale.
func foundBy(file, otherwise string) Endpoint {
	if file != "" {
		if d, ok := FindServer(file); ok {
			return Endpoint{URL: d.URL, AdminURL: d.AdminURL, tokenFile: d.TokenFile, adminToken: d.AdminTokenFile, named: file}
		}
	}
	return Endpoint{URL: otherwise}
}

// foundIn returns the endpoint at which a configuration is served. It reads only the fields for that: the rest may
// use variables that only the server has.
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
	host, port, err := net.SplitHostPort(config.Address(file, declared.Listen))
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
	f := foundBy(announced, scheme+Reachable(host, port)+"/mcp")
	f.certFile, f.config = beside(declared.TLS.Cert), file
	if host, port, err := net.SplitHostPort(config.Address(file, declared.Admin.Listen)); err == nil && port != "0" && f.AdminURL == "" {
		f.AdminURL = "http://" + Reachable(host, port)
	}
	f.adminToken = cmp.Or(f.adminToken, beside(declared.Admin.TokenFile))
	return f
}

// served returns the user's discovery file if a server of this configuration has written it; that may listen elsewhere
// than the configuration says, by a flag for example.
func served(file string) string {
	d, ok := FindServer(UserFile())
	abs, err := filepath.Abs(file)
	if !ok || err != nil || d.Config != abs {
		return ""
	}
	return UserFile()
}

// TokenFile is the file with the token, if it is known; a token in VMCP_TOKEN is used instead of it.
func (f Endpoint) TokenFile() string { return f.tokenFile }

// Token returns the bearer token for the endpoint; "" for none. VMCP_TOKEN has precedence over a token file
// unless that is named by --token-file.
func (f Endpoint) Token() (string, error) { return f.token(f.tokenFile, f.named) }

// AdminToken returns the bearer token for the port for operators.
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

// Environment returns the token in VMCP_TOKEN; "" for none.
func Environment() string { return strings.TrimSpace(os.Getenv("VMCP_TOKEN")) }

// Transport trusts the certificates of --ca-file, or else the one in the configuration, besides those that the system
// trusts.
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
