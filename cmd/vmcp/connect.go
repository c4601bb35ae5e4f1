package main

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

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/connect"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/locate"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// connect is the command that writes the endpoint into the configurations of clients.
func (a *app) connect() *cobra.Command {
	return connect.Command(connect.Env{
		In: a.in, Out: a.out, Tell: a.say, JSON: a.printJSON, Output: outputFlag, Found: errReported,
		Terminal: isTerminal(a.err) && isTerminal(a.in), DefaultFile: defaultFile, Program: thisProgram(), Endpoint: connectTo,
	})
}

// connectTo is the endpoint of --url, else that of a configuration, else the one that client commands
// find.
func connectTo(address, file string) (connect.Endpoint, error) {
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return connect.Endpoint{}, fmt.Errorf("--config: %w", err)
		}
	}
	file = cmp.Or(file, defaultFile)
	at := locate.Find(locate.Flags{Config: file})
	if address != "" {
		at = locate.At(locate.Flags{URL: address})
	}
	u, err := endpointURL(at.URL)
	if err != nil {
		return connect.Endpoint{}, err
	}
	guarded := at.TokenFile() != "" || address == "" && asksCallers(file) || refuses(u)
	return connect.Endpoint{URL: u.String(), TokenFile: at.TokenFile(), Guarded: guarded}, nil
}

// asksCallers reports whether a configuration asks callers for a token.
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

// refuses reports whether an endpoint that runs asks who has no token for one.
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

// thisProgram is where this program is. One that go run has built goes with it: then it is the one
// that is installed.
func thisProgram() string {
	path, err := os.Executable()
	if err == nil && !strings.Contains(path, "go-build") {
		return path
	}
	if installed, err := exec.LookPath("vmcp"); err == nil {
		return installed
	}
	return path
}
