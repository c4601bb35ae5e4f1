package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

const (
	defaultHost, defaultPort = "127.0.0.1", "4483"
	defaultURL               = "http://" + defaultHost + ":" + defaultPort + "/mcp"
	// settleTime is how long a command waits for the backends of a configuration
	// before it works with those that are there.
	settleTime = 15 * time.Second
)

// target is where a client command finds its tools.
type target struct{ url, config, tokenFile, caFile string }

func (t *target) register(c *cobra.Command) {
	c.Flags().StringVar(&t.url, "url", "", "the endpoint to use (default where ./vmcp.yaml listens, else the one that ~/.vmcp/server.json names, else "+defaultURL+")")
	c.Flags().StringVar(&t.config, "config", "", "a configuration file to use instead of a running endpoint")
	c.Flags().StringVar(&t.tokenFile, "token-file", "", "a file with the bearer token for the endpoint (default: the token in VMCP_TOKEN, else the file that a discovery file names)")
	c.Flags().StringVar(&t.caFile, "ca-file", "", "a file of certificates to trust for an https endpoint, beside the system's (default tls.cert of ./vmcp.yaml)")
	c.MarkFlagsMutuallyExclusive("url", "config")
	c.MarkFlagsMutuallyExclusive("token-file", "config")
	c.MarkFlagsMutuallyExclusive("ca-file", "config")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
}

// endpoint is a connection to a running vmcp, or to one inside this process.
type endpoint struct {
	*client.Endpoint
	release func()
}

// Close ends the session and, for a proxy of our own, the proxy and its backends.
func (e *endpoint) Close() {
	if e.Endpoint != nil {
		e.Endpoint.Close()
	}
	e.release()
}

// open connects to the target. o says how the client is asked and notified.
func (a *app) open(ctx context.Context, t target, o client.Options) (*endpoint, error) {
	o.Version = buildVersion()
	if t.config != "" {
		return a.openConfig(ctx, t.config, o)
	}
	here := t.find()
	u, err := url.Parse(here.url)
	if err != nil || u.Host == "" {
		return nil, usageError("--url: want a URL such as " + defaultURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	if o.Token, err = here.token(); err != nil {
		return nil, err
	}
	if o.Transport, err = here.transport(); err != nil {
		return nil, err
	}
	o.URL = u.String()
	e, err := client.Dial(ctx, o)
	if err != nil {
		return nil, explainDial(u, o.Token, err)
	}
	return &endpoint{e, func() {}}, nil
}

// explainDial adds what to do about an endpoint that cannot be used.
func explainDial(u *url.URL, token string, err error) error {
	if errors.Is(err, client.ErrUnauthorized) {
		err = fmt.Errorf("%s: %w", u, client.ErrUnauthorized)
		if token != "" {
			err = fmt.Errorf("%s: the token is not accepted", u)
		}
		return &hintError{err, "name a file with a token in --token-file, or put a token in VMCP_TOKEN"}
	}
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		return &hintError{err, "name a file with the certificate, or with that of who signed it, in --ca-file"}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &hintError{fmt.Errorf("%s: nothing is listening there", u), `start it with "vmcp serve", or name a configuration with --config`}
	}
	return err
}

// openConfig runs a configuration inside this process and goes through its HTTP
// edge, as any client would.
func (a *app) openConfig(ctx context.Context, file string, o client.Options) (*endpoint, error) {
	cfg, err := a.load(file)
	if err != nil {
		return nil, err
	}
	cfg.IncomingAuth = config.IncomingAuth{} // whoever has the file and its secrets is in already
	cfg.Audit = config.Audit{}               // it is the server's
	p := proxy.New(proxy.Options{Log: a.logger(slog.LevelError), Secrets: a.secrets, Version: buildVersion()})
	inside := client.NewInside(p.Handler())
	e := &endpoint{release: func() { inside.Close(); _ = p.Close() }} // what a backend says at its end is logged
	if err := p.Apply(cfg); err != nil {
		e.Close()
		return nil, err
	}
	a.settle(ctx, p, settleTime)
	o.URL, o.Transport = client.InsideURL, inside.Transport()
	o.Status = func(context.Context) (proxy.Status, error) { return p.Status(), nil }
	if e.Endpoint, err = client.Dial(ctx, o); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// settle waits until every backend is connected or down, but not for longer than limit.
func (a *app) settle(ctx context.Context, p *proxy.Proxy, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if isTerminal(a.err) {
		slow := time.AfterFunc(time.Second, func() { a.say("waiting for the backends") })
		defer slow.Stop()
	}
	_ = p.Settled(ctx) // the status shows who is missing
}
