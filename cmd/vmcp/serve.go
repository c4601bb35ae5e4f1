package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/hostname"
	"github.com/vmcp-dev/vmcp/internal/memlimit"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"

	"github.com/vmcp-dev/vmcp/proxy/isolate"
)

const (
	// gatherTime is how long the first report waits for all backends, to print them in order.
	gatherTime = time.Second
	// connectTime is how long the report waits for each of them; clients do not wait for it.
	connectTime = 5 * time.Second
)

// serveFlags are the flags of the serve command.
type serveFlags struct {
	config, listen, pprof string
	tokenFile, discovery  string
	profile               string
	insecure, stdio       bool
	isolate, locked       bool
	hosts, origins        []string
	delay, drain          *config.Duration // nil: as configured
	kubernetes            kubernetesFlags
	bridge                bridgeFlags
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve the endpoint",
		Long: `Serve runs the endpoint over the backends of a configuration file: --config, or vmcp.yaml in
this folder. Without either it runs a demo. The first SIGINT or SIGTERM ends it when the
pending calls are done, the second at once. Behind a load balancer, --shutdown-delay is the
time in which /readyz answers 503 while requests are still served.

The file, the scripts and the folders that it names are watched: changes are applied within
a second, and SIGHUP reloads them. While one of them has a problem, the
previous version stays in force, and the log has the problem with its position.

An address that other machines can reach needs incomingAuth in the configuration, so that clients
authenticate, or --token-file, or --insecure-listen.

--token-file creates a file with a token, unless it exists, and requires the token from clients.
--discovery-file is where the URL of the endpoint is written, for programs on this machine; the file is
removed at the end. The default is ~/.vmcp/server.json, which "vmcp call" and others read, if no other server uses it.
With --stdio it serves one client on standard input and output instead of a port; with --url as well,
it forwards that client to a running endpoint, so that many clients share one set of
servers. --token-file is then a file with the token for that endpoint, or VMCP_TOKEN has it.
Profiles of the configuration are served at /mcp/NAME; --profile selects one for --stdio.

With --kubernetes it serves the VirtualMCPServers of a namespace, each at /NAME/mcp, and writes
the status of the objects. --config is then a file with settings of the process, such as admin and
limits.totalMemory.`,
		Example: "  vmcp serve\n  vmcp serve --config vmcp.yaml --listen 127.0.0.1:8080\n  vmcp serve --token-file ~/.vmcp/token --discovery-file ~/.vmcp/server.json\n  vmcp serve --stdio --config vmcp.yaml\n  vmcp serve --stdio --url http://127.0.0.1:4483/mcp",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runServe(c.Context(), f) },
	}
	c.Flags().StringVar(&f.config, "config", "", "the configuration file (default vmcp.yaml, if it exists)")
	c.Flags().StringVar(&f.listen, "listen", "", "the address to serve on, host:port, instead of the configured one")
	c.Flags().BoolVar(&f.insecure, "insecure-listen", false, "allow an address that other machines can reach without authentication")
	c.Flags().BoolVar(&f.locked, "locked", false, "withhold everything that differs from vmcp.lock (pins: onChange and onNew are block)")
	c.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client on standard input and output")
	c.Flags().StringVar(&f.profile, "profile", "", "with --stdio: serve this profile of the configuration")
	c.Flags().StringSliceVar(&f.hosts, "hosts", nil, "accept these names in the Host header, in addition to the configured ones")
	c.Flags().StringSliceVar(&f.origins, "origins", nil, "accept requests with these Origin headers, such as https://app.example.com, in addition to the configured ones")
	c.Flags().BoolVar(&f.isolate, "isolate-scripts", false, "run all scripts in separate worker processes, for untrusted authors (Linux)")
	c.Flags().StringVar(&f.pprof, "pprof", "", "serve profiles of the Go runtime on this address, such as 127.0.0.1:6060")
	f.delay = durationFlag(c, "shutdown-delay", "keep serving for this `time` after a signal, while /readyz answers 503 (default as configured, else 0s)")
	f.drain = durationFlag(c, "drain-time", "wait this `time` for pending calls after the port is closed (default as configured, else 10s)")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "require the token in this file, which is created if it does not exist")
	c.Flags().StringVar(&f.discovery, "discovery-file", "", "write the URL of the endpoint to this file while it is served (default as configured, else ~/.vmcp/server.json if no other server uses it; none: no file)")
	for _, port := range []string{"listen", "discovery-file"} {
		c.MarkFlagsMutuallyExclusive(port, "stdio")
	}
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	f.kubernetes.register(c)
	f.bridge.register(c)
	a.registerEnvFile(c)
	return c
}

func (a *app) runServe(ctx context.Context, f serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.kubernetes.on {
		return a.serveKubernetes(ctx, f)
	}
	if f.bridge.url != "" {
		return a.serveBridge(ctx, f)
	}
	from, err := a.source(f.config)
	if err != nil {
		return err
	}
	defer from.remove()
	log := a.logger(slog.LevelInfo)
	if f.tokenFile != "" {
		if err := auth.MakeOwnToken(f.tokenFile); err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
	}
	stopPprof, err := a.servePprof(f.pprof, edge.NewOrigins(f.hosts, f.origins))
	if err != nil {
		return err
	}
	defer stopPprof()
	var p *proxy.Proxy
	sender := a.telemetry(log, func() prometheus.Gatherer { return p.Gatherer() })
	defer sender.Close()
	workers, closeWorkers := isolated()
	defer closeWorkers()
	memory := memlimit.New()
	p = proxy.New(proxy.Options{Log: log, Secrets: a.secrets, Version: buildVersion(), OpenTracer: sender.Open, Charged: memory.Note, MemoryLimit: memory.Ceiling(), AuditOut: a.out, Profile: f.profile, Workers: workers, IsolateScripts: f.isolate, Joined: a.joined,
		OpenStore: func(c *config.Config) (durable.Store, *durable.Ring, error) {
			return sqlstore.Open(ctx, c, sqlstore.How{Log: log})
		}})
	defer p.Close()
	s := &served{flags: f, from: from, proxy: p, log: log, ceiling: memory.Ceiling(), applied: make(chan struct{}), ended: make(chan struct{})}
	s.manager = s.managed()
	defer s.close()
	if f.tokenFile != "" {
		if s.tokenFile, err = filepath.Abs(f.tokenFile); err != nil {
			return err
		}
	}
	if err := s.start(ctx, isTerminal(a.err)); err != nil {
		return err
	}
	defer a.serveAdmin(s.admin, p.AdminHandler(), s.page, log)()
	if f.stdio {
		return a.serveStdio(s)
	}
	return a.serveHTTP(s)
}

// check checks the values of flags that replace settings of the configuration.
func (f serveFlags) check() error {
	if err := f.kubernetes.check(); err != nil {
		return err
	}
	if err := f.bridge.check(f.stdio, f.tokenFile); err != nil {
		return err
	}
	if f.profile != "" && !f.stdio {
		return cli.WithHint(usageError("--profile: only with --stdio"), "over HTTP it is the path: /mcp/"+f.profile)
	}
	if f.isolate {
		if err := isolate.Available(); err != nil {
			return usageError("--isolate-scripts: " + err.Error())
		}
	}
	for _, h := range f.hosts {
		if err := hostname.CheckHost(h); err != nil {
			return usageError("--hosts: " + err.Error())
		}
	}
	for _, o := range f.origins {
		if err := hostname.CheckOrigin(o); err != nil {
			return usageError("--origins: " + err.Error())
		}
	}
	return nil
}

// listen opens the port, if the address may be served with this incomingAuth.
func listen(addr string, in config.IncomingAuth, insecure bool) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usageError(fmt.Sprintf("--listen: want host:port such as 127.0.0.1:4483, have %q", addr))
	}
	if err := mayReach(addr, in, insecure); err != nil {
		return nil, err
	}
	return openPort(addr, "choose another one with --listen, such as --listen 127.0.0.1:0 for any")
}

// openPort opens a port; other says how to choose another one.
func openPort(addr, other string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, cli.WithHint(fmt.Errorf("listen %s: another program uses this port", addr), other)
	}
	return l, err
}

// mayReach refuses an address that other machines can reach if clients are not authenticated.
func mayReach(addr string, in config.IncomingAuth, insecure bool) error {
	if config.IsLoopback(addr) {
		return nil
	}
	switch in.Type {
	case "oidc", "tokens", "mtls":
		return nil
	case "local":
		return usageError(fmt.Sprintf("listen %s: other machines can reach this address, and incomingAuth.type: local treats every client as the user of this machine: it is for loopback addresses", addr))
	}
	if insecure || in.TokenFile != "" {
		return nil
	}
	return cli.WithHint(
		usageError(fmt.Sprintf("listen %s: other machines can reach this address, and there is no incomingAuth: everybody who connects could call every tool", addr)),
		"configure incomingAuth, require a token with --token-file, listen on 127.0.0.1, or allow it with --insecure-listen",
	)
}

// serveHTTP serves until the context ends, and then until the pending calls are done.
func (a *app) serveHTTP(s *served) error {
	l := s.manager.Listener(s.listener)
	server := newServer(s.proxy.Handler(), s.log)
	ended := make(chan error, 1)
	go serveOn(server, l, s.tls.Config(), ended)
	reported := make(chan struct{})
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // of a TCP port
	url := scheme + cli.Reachable(host, port) + "/mcp"
	s.proxy.ServedBy(status.Server{URL: url, Commit: cli.Read().Commit})
	forget, err := cli.Announce(s.discovery, cli.File{
		URL: url, PID: os.Getpid(), Config: s.from.path, TokenFile: s.tokenFile, AdminURL: adminURL(s.admin), AdminTokenFile: s.adminToken, Version: buildVersion(), StartedAt: time.Now().UTC(),
	}, s.log)
	if err != nil {
		_ = server.Close()
		<-ended
		return err
	}
	defer forget()
	s.manager.Started(l)
	defer s.manager.Close()
	go a.reportStart(s.ctx, s.proxy, s, scheme+l.Addr().String()+"/mcp", reported)
	defer func() { <-reported }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-s.ctx.Done():
	}
	s.manager.Stopping()
	return a.stopServer(stopping{s.proxy, s.shutdown.Load(), l, s.proxy.Drained}, server, ended)
}

// serveOn serves until the server is closed, over TLS if a TLS configuration is given.
func serveOn(to interface{ Serve(net.Listener) error }, l net.Listener, secure *tls.Config, ended chan<- error) {
	timed := edge.Listener(l)
	if s, ok := to.(*server); ok {
		s.listener.Store(timed)
	}
	l = timed
	if secure != nil {
		l = tls.NewListener(l, secure) // outermost: net/http checks for *tls.Conn
	}
	ended <- to.Serve(l)
}

// reportStart prints the URL of the endpoint and, as soon as they are known, the states of the backends.
func (a *app) reportStart(ctx context.Context, p *proxy.Proxy, s *served, endpoint string, done chan<- struct{}) {
	defer close(done)
	a.say("serving %s", endpoint)
	if s.page && s.admin == nil && config.IsLoopback(s.listener.Addr().String()) {
		a.say("the page for operators is at %s/", strings.TrimSuffix(endpoint, "/mcp"))
	}
	a.awaitBackends(ctx, p, gatherTime)
	a.reportBackends(ctx, p)
	if ctx.Err() != nil {
		return
	}
	if n := countScripted(p.Status()); n > 0 {
		a.say("scripts: %s", client.Count(n, "tool"))
	}
	if s.from.demo {
		a.say("try: %s", tryCommand(endpoint, s.flags.tokenFile))
	}
}

// reportBackends prints the result of the first connection attempt of each backend as soon as it
// is known. Those that are still connecting after connectTime are printed last.
func (a *app) reportBackends(ctx context.Context, p *proxy.Proxy) {
	late := time.NewTimer(connectTime)
	defer late.Stop()
	named := map[string]bool{}
	for ended := false; ; {
		changed, waiting := p.Changed(), false
		for _, b := range p.Status().Backends {
			switch {
			case named[b.Name]:
				continue
			case b.State == "ready":
				a.say("backend %s: %s", b.Name, client.Count(b.Tools, "tool"))
			case b.State == "connecting" && !ended:
				waiting = true
				continue
			default:
				a.reportState(b)
			}
			named[b.Name] = true
		}
		if !waiting {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			ended = true
		case <-ctx.Done():
			return
		}
	}
}

// countScripted counts the scripted tools.
func countScripted(s proxy.Status) (n int) {
	for _, t := range s.Tools {
		if t.Backend == "" {
			n++
		}
	}
	return n
}
