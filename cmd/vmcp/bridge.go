package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/backends/bridge"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// bridgeFlags are the flags of serve --stdio that forwards to a running endpoint.
type bridgeFlags struct{ url, caFile string }

func (f *bridgeFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "url", "", "with --stdio: forward everything to this running endpoint")
	c.Flags().StringVar(&f.caFile, "ca-file", "", "with --url: a file of CA certificates to trust for an https endpoint, in addition to the system's")
	for _, own := range []string{"profile", "config", "listen", "insecure-listen", "locked", "hosts", "origins", "isolate-scripts", "kubernetes", "pprof", "shutdown-delay", "discovery-file"} {
		c.MarkFlagsMutuallyExclusive("url", own)
	}
}

// bridgeDrain is how long pending calls may take after the end of the input, unless --drain-time is given.
const bridgeDrain = 10 * time.Second

// check refuses the flags of a bridge without --stdio, and --token-file with --stdio but without
// --url.
func (f *bridgeFlags) check(stdio bool, tokenFile string) error {
	switch {
	case f.url != "" && !stdio:
		return usageError("--url is for --stdio: to serve another endpoint on a port, configure it as a backend with a url in vmcp.yaml")
	case f.url == "" && f.caFile != "":
		return usageError("--ca-file is for --url")
	case stdio && f.url == "" && tokenFile != "":
		return usageError("--token-file is for a port or, with --stdio, for the endpoint in --url")
	}
	return nil
}

// serveBridge forwards the messages of the client on standard input and output to an endpoint.
func (a *app) serveBridge(ctx context.Context, f serveFlags) error {
	u, err := cli.ParseURL(f.bridge.url)
	if err != nil {
		return err
	}
	at := cli.At(cli.Flags{URL: u.String(), TokenFile: f.tokenFile, CAFile: f.bridge.caFile})
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
