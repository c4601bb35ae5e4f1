package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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
	config, listen, pprof string
	insecure, stdio       bool
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve the endpoint",
		Long: `Serve runs the endpoint over the backends of a configuration file: --config, or vmcp.yaml in
this folder. Without either it runs a demo. The first interrupt ends it when the running calls
are done, the second at once.

The file, the scripts and the folders that it names are watched: what changes is served within
a second, and a hangup signal (SIGHUP) reads them anew. While one of them has a problem, the
version before goes on, and the log says what is wrong and where.

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
	c.Flags().StringVar(&f.pprof, "pprof", "", "serve profiles of the Go runtime on this address, such as 127.0.0.1:6060")
	c.MarkFlagsMutuallyExclusive("listen", "stdio")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	return c
}

func (a *app) runServe(ctx context.Context, f serveFlags) error {
	from, err := a.source(f.config)
	if err != nil {
		return err
	}
	defer from.remove()
	log := a.log.logger(a.err, slog.LevelInfo)
	stopPprof, err := a.servePprof(f.pprof)
	if err != nil {
		return err
	}
	defer stopPprof()
	tracer, flush, err := tracing(ctx)
	if err != nil {
		return err
	}
	defer flush()
	p, err := proxy.New(proxy.Options{Log: log, Version: buildVersion(), Tracer: tracer})
	if err != nil {
		return err
	}
	defer p.Close()
	s := &served{flags: f, from: from, proxy: p, log: log, applied: make(chan struct{}), ended: make(chan struct{})}
	defer s.close()
	if err := s.start(ctx, isTerminal(a.err)); err != nil {
		return err
	}
	if !f.stdio {
		return a.serveHTTP(s.ctx, p, s.listener, from)
	}
	if err := p.ServeStdio(s.ctx, a.in, a.out); err != nil && s.ctx.Err() == nil {
		return fmt.Errorf("serve standard input: %w", err)
	}
	return nil
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
	server := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
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
	status := p.Status()
	for _, b := range status.Backends {
		if b.State == "ready" {
			a.say("backend %s: %s", b.Name, count(b.Tools, "tool"))
		} else {
			a.tellState(b)
		}
	}
	if n := scripted(status); n > 0 {
		a.say("scripts: %s", count(n, "tool"))
	}
	if from.demo {
		a.say("try: %s", tryCommand(endpoint))
	}
}

// scripted counts the tools that are scripts.
func scripted(s proxy.Status) (n int) {
	for _, t := range s.Tools {
		if t.Backend == "" {
			n++
		}
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
