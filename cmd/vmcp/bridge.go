package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/backends/bridge"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/locate"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
)

// bridgeFlags are the flags of serve --stdio in front of an endpoint that runs already.
type bridgeFlags struct{ url, caFile string }

func (f *bridgeFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "url", "", "with --stdio: pass everything on to this endpoint, which runs already")
	c.Flags().StringVar(&f.caFile, "ca-file", "", "with --url: a file of certificates to trust for an https endpoint, beside the system's")
	for _, own := range []string{"profile", "config", "listen", "insecure-listen", "locked", "hosts", "origins", "isolate-scripts", "kubernetes", "pprof", "shutdown-delay", "discovery-file"} {
		c.MarkFlagsMutuallyExclusive("url", own)
	}
}

// bridgeDrain is how long running calls have after the end of the input, unless --drain-time says.
const bridgeDrain = 10 * time.Second

// check holds the flags that belong to a bridge to --stdio, and --token-file to one of its two
// meanings.
func (f *bridgeFlags) check(stdio bool, tokenFile string) error {
	switch {
	case f.url != "" && !stdio:
		return usageError("--url is for --stdio: a port over another endpoint is a backend with a url in vmcp.yaml")
	case f.url == "" && f.caFile != "":
		return usageError("--ca-file is for --url")
	case stdio && f.url == "" && tokenFile != "":
		return usageError("--token-file is for a port or, with --stdio, for the endpoint in --url")
	}
	return nil
}

// serveBridge carries the client on standard input and output to an endpoint.
func (a *app) serveBridge(ctx context.Context, f serveFlags) error {
	u, err := endpointURL(f.bridge.url)
	if err != nil {
		return err
	}
	at := locate.At(locate.Flags{URL: u.String(), TokenFile: f.tokenFile, CAFile: f.bridge.caFile})
	token, err := at.Token()
	if err != nil {
		return err
	}
	transport, err := at.Transport()
	if err != nil {
		return err
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	drain := bridgeDrain
	if d := *f.drain; d != notGiven {
		drain = d.Std()
	}
	err = bridge.Serve(ctx, a.in, a.out, bridge.Options{URL: u, Header: header, Transport: transport, Say: a.say, DrainTime: drain})
	if err != nil {
		return fmt.Errorf("serve standard input: %w", err)
	}
	return nil
}

// endpointURL is a URL of --url, with the path that an endpoint has.
func endpointURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage.Error("--url: want a URL such as " + locate.DefaultURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	return u, nil
}
