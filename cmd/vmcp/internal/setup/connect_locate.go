package setup

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Locate returns the endpoint of a URL, else that of a configuration file, else the one that client commands
// find.
func Locate(address, file, defaultFile string) (Endpoint, error) {
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return Endpoint{}, fmt.Errorf("--config: %w", err)
		}
	}
	file = cmp.Or(file, defaultFile)
	at := cli.FindEndpoint(cli.Flags{Config: file})
	if address != "" {
		at = cli.At(cli.Flags{URL: address})
	}
	u, err := cli.ParseURL(at.URL)
	if err != nil {
		return Endpoint{}, err
	}
	guarded := at.TokenFile() != "" || address == "" && asksCallers(file) || refuses(u)
	return Endpoint{URL: u.String(), TokenFile: at.TokenFile(), Guarded: guarded}, nil
}

// asksCallers reports whether a configuration makes the endpoint ask callers for a token.
func asksCallers(file string) bool {
	var declared struct {
		IncomingAuth struct {
			Type string `json:"type"`
		} `json:"incomingAuth"`
	}
	data, err := files.Read(file, config.MaxFile)
	if err != nil || yaml.Unmarshal(data, &declared) != nil {
		return false
	}
	return declared.IncomingAuth.Type == "tokens" || declared.IncomingAuth.Type == "oidc"
}

// refuses reports whether a running endpoint answers a request without a token with 401.
func refuses(u *url.URL) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusUnauthorized
}

// ThisProgram returns the path of this program. A binary in the temporary folder of go run is deleted when that ends:
// then it is the path of the installed program.
func ThisProgram() string {
	path, err := os.Executable()
	if err == nil && !strings.Contains(path, "go-build") {
		return path
	}
	if installed, err := exec.LookPath("vmcp"); err == nil {
		return installed
	}
	return path
}
