package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

const (
	// drainTime is how long running calls may take to end after the first signal.
	drainTime = 10 * time.Second
	// greetTime is how long the greeting waits for backends; clients do not wait.
	greetTime = 5 * time.Second
)

// serveFlags are the flags of the serve command.
type serveFlags struct {
	config, listen  string
	insecure, stdio bool
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve the endpoint",
		Long: `Serve runs the endpoint over the backends of a configuration file: --config, or vmcp.yaml in
this folder. Without either it runs a demo. The first interrupt ends it when the running calls
are done, the second at once.

There is no authentication yet: an address that other machines reach needs --insecure-listen.
With --stdio it serves one client on standard input and output instead of a port.`,
		Example: "  vmcp serve\n  vmcp serve --config vmcp.yaml --listen 127.0.0.1:8080\n  vmcp serve --stdio --config vmcp.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runServe(c.Context(), f) },
	}
	c.Flags().StringVar(&f.config, "config", "", "the configuration file (default vmcp.yaml, if it is there)")
	c.Flags().StringVar(&f.listen, "listen", "", "the address to serve on, host:port, instead of the configured one")
	c.Flags().BoolVar(&f.insecure, "insecure-listen", false, "allow an address that other machines reach, without authentication")
	c.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client on standard input and output")
	c.MarkFlagsMutuallyExclusive("listen", "stdio")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	return c
}

func (a *app) runServe(ctx context.Context, f serveFlags) error {
	source, err := a.findConfig(f.config)
	if err != nil {
		return err
	}
	cfg := source.config
	if f.listen != "" {
		cfg.Listen = f.listen
	}
	var listener net.Listener
	if !f.stdio {
		if listener, err = listen(cfg.Listen, f.insecure); err != nil {
			return err
		}
		defer listener.Close()
	}
	p, err := proxy.New(proxy.Options{Log: a.log.logger(a.err, slog.LevelInfo), Version: buildVersion()})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Apply(ctx, cfg); err != nil {
		return err
	}
	if !f.stdio {
		return a.serveHTTP(ctx, p, listener, source)
	}
	if err := p.ServeStdio(ctx, a.in, a.out); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve standard input: %w", err)
	}
	return nil
}

// source is a configuration and where it is from.
type source struct {
	config *config.Config
	demo   bool
}

// findConfig loads the named file, or vmcp.yaml, or makes the demo.
func (a *app) findConfig(name string) (source, error) {
	if name == "" {
		if _, err := os.Stat(defaultFile); errors.Is(err, fs.ErrNotExist) {
			return a.demo()
		}
		name = defaultFile
	}
	cfg, err := a.load(name)
	return source{config: cfg}, err
}

// listen opens the port, if the address is one that may be served without authentication.
func listen(addr string, insecure bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usageError(fmt.Sprintf("--listen: want host:port such as 127.0.0.1:4483, have %q", addr))
	}
	if !insecure && !loopback(host) {
		return nil, &hintError{
			usageError(fmt.Sprintf("listen %s: other machines reach this address, and there is no authentication yet: whoever connects can call every tool", addr)),
			"listen on 127.0.0.1, or allow it with --insecure-listen",
		}
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &hintError{fmt.Errorf("listen %s: another program uses this port", addr), "choose another one with --listen, such as --listen 127.0.0.1:0 for any"}
	}
	return l, err
}

// loopback reports whether only this machine reaches the host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// serveHTTP serves until the context ends, and then until the running calls are done.
func (a *app) serveHTTP(ctx context.Context, p *proxy.Proxy, l net.Listener, from source) error {
	server := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go serveOn(server, l, ended)
	greeted := make(chan struct{})
	go a.greet(ctx, p, from, "http://"+l.Addr().String()+"/mcp", greeted)
	defer func() { <-greeted }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	a.say("stopping; interrupt again to stop at once")
	p.Drain()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.say("some calls are cut: they took longer than %s", drainTime)
		_ = server.Close()
	}
	<-ended
	return nil
}

func serveOn(server *http.Server, l net.Listener, ended chan<- error) { ended <- server.Serve(l) }

// greet says where the endpoint is and, as soon as that is known, what is connected.
func (a *app) greet(ctx context.Context, p *proxy.Proxy, from source, endpoint string, done chan<- struct{}) {
	defer close(done)
	a.say("serving %s", endpoint)
	a.settle(ctx, p, greetTime)
	if ctx.Err() != nil {
		return
	}
	for _, b := range p.Status().Backends {
		if b.State == "ready" {
			a.say("backend %s: %d tools", b.Name, b.Tools)
		} else {
			a.tellState(b)
		}
	}
	if from.demo {
		a.say("try: %s", tryCommand(endpoint))
	}
}
