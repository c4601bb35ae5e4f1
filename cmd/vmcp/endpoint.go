package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/isolate"
)

// target is the endpoint or configuration of a client command.
type target struct {
	url, config, tokenFile, caFile string
	keeping                        *keeping // what is recorded; may be nil
}

func (t *target) register(c *cobra.Command) {
	c.Flags().StringVar(&t.url, "url", "", "the endpoint to use (default the address of ./vmcp.yaml, else the one in ~/.vmcp/server.json, else "+cli.DefaultURL+")")
	c.Flags().StringVar(&t.config, "config", "", "a configuration file to use instead of a running endpoint")
	c.Flags().StringVar(&t.tokenFile, "token-file", "", "a file with the bearer token for the endpoint (default: the token in VMCP_TOKEN, else the file named in a discovery file)")
	c.Flags().StringVar(&t.caFile, "ca-file", "", "a file of CA certificates to trust for an https endpoint, in addition to the system's (default tls.cert of ./vmcp.yaml)")
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

// Close ends the session and, for a proxy in this process, the proxy and its backends.
func (e *endpoint) Close() {
	if e.Endpoint != nil {
		e.Endpoint.Close()
	}
	e.release()
}

// open connects to the target. o has the handlers of questions and notifications.
func (a *app) open(ctx context.Context, t target, o client.Options) (*endpoint, error) {
	o.Version = buildVersion()
	if t.config != "" {
		return a.openConfig(ctx, t, o)
	}
	here := t.find()
	u, err := cli.ParseURL(here.URL)
	if err != nil {
		return nil, err
	}
	if o.Token, err = here.Token(); err != nil {
		return nil, err
	}
	if o.Transport, err = here.Transport(); err != nil {
		return nil, err
	}
	o.URL = u.String()
	e, err := client.Dial(ctx, o)
	if err != nil {
		return nil, explainDial(u, o.Token, err)
	}
	return &endpoint{e, func() {}}, nil
}

// explainDial adds a hint to the error of an endpoint that cannot be reached.
func explainDial(u *url.URL, token string, err error) error {
	if errors.Is(err, client.ErrUnauthorized) {
		err = fmt.Errorf("%s: %w", u, client.ErrUnauthorized)
		if token != "" {
			err = fmt.Errorf("%s: the token is not accepted", u)
		}
		return cli.WithHint(err, "name a file with a token in --token-file, or put a token in VMCP_TOKEN")
	}
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
		return cli.WithHint(err, "name a file with the certificate, or with that of who signed it, in --ca-file")
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return cli.WithHint(fmt.Errorf("%s: nothing is listening there", u), `start it with "vmcp serve", or name a configuration with --config`)
	}
	return err
}

// openConfig serves a configuration inside this process and connects to its HTTP handler, as
// any client would.
func (a *app) openConfig(ctx context.Context, t target, o client.Options) (*endpoint, error) {
	cfg, err := a.load(t.config)
	if err != nil {
		return nil, err
	}
	return a.openLoaded(ctx, cfg, t.keeping, o)
}

// openLoaded is openConfig for a configuration that has been read, which it changes. k may be nil.
func (a *app) openLoaded(ctx context.Context, cfg *config.Config, k *keeping, o client.Options) (*endpoint, error) {
	o.Version = buildVersion()
	in := config.IncomingAuth{} // the user can read the file and its secrets
	if cfg.IncomingAuth.Type == "local" {
		in.Type = "local"
	}
	cfg.IncomingAuth, cfg.Audit = in, config.Audit{} // the audit log is the server's
	recorded, full := k.prepare(cfg)
	workers, closeWorkers := isolated()
	p := proxy.New(proxy.Options{
		Log: a.logger(slog.LevelError), Secrets: a.secrets, Version: buildVersion(), Workers: workers, Recorded: recorded, RecordFull: full,
	})
	inside := client.NewInside(p.Handler())
	e := &endpoint{release: func() { inside.Close(); _ = p.Close(); closeWorkers() }} // what a backend says at its end is logged
	err := p.Apply(cfg)
	if err != nil {
		e.Close()
		return nil, err
	}
	a.awaitBackends(ctx, p, author.Time(cfg))
	o.URL, o.Transport = client.InsideURL, inside.Transport()
	o.Status = func(context.Context) (proxy.Status, error) { return p.Status(), nil }
	if e.Endpoint, err = client.Dial(ctx, o); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// offered starts the backends of a configuration, and returns the lists once each is connected or down.
func (a *app) offered(ctx context.Context, cfg *config.Config) (proxy.Status, error) {
	workers, closeWorkers := isolated()
	defer closeWorkers()
	p := proxy.New(proxy.Options{Log: a.logger(slog.LevelError), Secrets: a.secrets, Version: buildVersion(), Workers: workers})
	defer p.Close()
	if err := p.Apply(cfg); err != nil {
		return proxy.Status{}, err
	}
	a.awaitBackends(ctx, p, author.Time(cfg))
	return p.Status(), nil
}

// awaitBackends waits until every backend is connected or down, but not for longer than limit.
func (a *app) awaitBackends(ctx context.Context, p *proxy.Proxy, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer a.reportWaiting(limit, func() (missing []string) {
		for _, b := range p.Status().Backends {
			if b.State == "connecting" {
				missing = append(missing, b.Name)
			}
		}
		return missing
	})()
	_ = p.Settled(ctx) // the status shows who is missing
}

// reportWaiting prints to a terminal which backends a command waits for, after one second and
// then every five, until stop is called.
func (a *app) reportWaiting(limit time.Duration, missing func() []string) (stop func()) {
	if !isTerminal(a.err) {
		return func() {}
	}
	var told sync.WaitGroup
	ended := make(chan struct{})
	told.Go(func() {
		for wait := time.Second; ; wait = 5 * time.Second {
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
			if names := missing(); len(names) > 0 {
				a.say("waiting for %s, for %s at most", named(names), limit)
			}
		}
	})
	return func() { close(ended); told.Wait() }
}

// named is the first names of a list, in one line.
func named(names []string) string {
	const shown = 5
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// find is the endpoint of the flags, or else the one that is running on this machine.
func (t target) find() cli.Endpoint {
	return cli.FindEndpoint(cli.Flags{URL: t.url, TokenFile: t.tokenFile, CAFile: t.caFile, Config: defaultFile})
}

// isolated are the workers for isolated scripts; nil on systems without them, where no
// configuration has such scripts. A worker is started when the first run needs it.
func isolated() (workers *isolate.Workers, done func()) {
	workers, err := isolate.New()
	if err != nil {
		return nil, func() {}
	}
	return workers, workers.Close
}

// gather starts the backends of a configuration, returns what they offer, and stops them.
func (a *app) gather(ctx context.Context, cfg *config.Config) (*lock.File, error) {
	a.secrets.Use(cfg.Secrets())
	who := new(jsonscan.Object).Text("name", cmp.Or(cfg.Name, "vmcp")).Text("version", buildVersion()).JSON() // as serve does
	return author.Gather(ctx, cfg, author.OffersOptions{Log: a.logger(slog.LevelError), Secrets: a.secrets, Client: who, Limit: author.Time(cfg), Waiting: a.reportWaiting})
}
