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

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/discovery"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/release"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/hostname"
	"github.com/vmcp-dev/vmcp/internal/memlimit"
	"github.com/vmcp-dev/vmcp/internal/origin"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/open"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/script/isolate"
)

const (
	// gatherTime is how long the first report waits for all backends, to name them in order.
	gatherTime = time.Second
	// greetTime is how long it waits for each of them; clients do not wait for it.
	greetTime = 5 * time.Second
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
this folder. Without either it runs a demo. The first interrupt or SIGTERM ends it when the
running calls are done, the second at once. Behind a load balancer, --shutdown-delay is the
time in which /readyz answers 503 while everything is still served.

The file, the scripts and the folders that it names are watched: what changes is served within
a second, and a hangup signal (SIGHUP) reads them anew. While one of them has a problem, the
version before goes on, and the log says what is wrong and where.

An address that other machines reach needs incomingAuth in the configuration, so that callers
say who they are, or --token-file, or --insecure-listen.

--token-file makes a file with a token, unless it is there already, and asks callers for it.
--discovery-file writes where the endpoint is, for programs on this machine, and takes the file
away at the end: without it ~/.vmcp/server.json, where "vmcp call" and others look, if no other has it.
With --stdio it serves one client on standard input and output instead of a port; with --url, too,
it passes that client on to an endpoint that runs already, so that many clients share one set of
servers. --token-file then names a file with the token for it; else VMCP_TOKEN has it.
Profiles of the configuration are at /mcp/NAME; --profile names that of the client on --stdio.

With --kubernetes it serves the VirtualMCPServers of a namespace, each at /NAME/mcp, and writes
into the status of the objects what became of them. --config may then name a file with what is
of the process alone, such as admin and limits.totalMemory.`,
		Example: "  vmcp serve\n  vmcp serve --config vmcp.yaml --listen 127.0.0.1:8080\n  vmcp serve --token-file ~/.vmcp/token --discovery-file ~/.vmcp/server.json\n  vmcp serve --stdio --config vmcp.yaml\n  vmcp serve --stdio --url http://127.0.0.1:4483/mcp",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runServe(c.Context(), f) },
	}
	c.Flags().StringVar(&f.config, "config", "", "the configuration file (default vmcp.yaml, if it is there)")
	c.Flags().StringVar(&f.listen, "listen", "", "the address to serve on, host:port, instead of the configured one")
	c.Flags().BoolVar(&f.insecure, "insecure-listen", false, "allow an address that other machines reach, without authentication")
	c.Flags().BoolVar(&f.locked, "locked", false, "withhold what is not as vmcp.lock has it (pins: onChange and onNew are block)")
	c.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client on standard input and output")
	c.Flags().StringVar(&f.profile, "profile", "", "with --stdio: serve this profile of the configuration")
	c.Flags().StringSliceVar(&f.hosts, "hosts", nil, "accept these names in the Host header, beside the configured ones")
	c.Flags().StringSliceVar(&f.origins, "origins", nil, "accept web pages of these origins, such as https://app.example.com, beside the configured ones")
	c.Flags().BoolVar(&f.isolate, "isolate-scripts", false, "run all scripts in worker processes of their own, for authors who are not trusted (Linux)")
	c.Flags().StringVar(&f.pprof, "pprof", "", "serve profiles of the Go runtime on this address, such as 127.0.0.1:6060")
	f.delay = durationFlag(c, "shutdown-delay", "serve on for this `time` after a signal, while /readyz answers 503 (default as configured, else 0s)")
	f.drain = durationFlag(c, "drain-time", "give running calls this `time` to end once the port is closed (default as configured, else 10s)")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "ask callers for the token in this file, which is made if it is not there")
	c.Flags().StringVar(&f.discovery, "discovery-file", "", "say in this file where the endpoint is, while it is served (default as configured, else ~/.vmcp/server.json if no other server has it; none: in no file)")
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
	stopPprof, err := a.servePprof(f.pprof, origin.New(f.hosts, f.origins))
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
		OpenStore: func(c *config.Config) (runs.Store, *seal.Ring, error) { return open.Store(ctx, c, open.How{}) }})
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

// check looks at what flags hold that the configuration would be held to.
func (f serveFlags) check() error {
	if err := f.kubernetes.check(); err != nil {
		return err
	}
	if err := f.bridge.check(f.stdio, f.tokenFile); err != nil {
		return err
	}
	if f.profile != "" && !f.stdio {
		return usage.WithHint(usageError("--profile: only with --stdio"), "over HTTP it is the path: /mcp/"+f.profile)
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

// listen opens the port, if the address is one that may be served with who may come in.
func listen(addr string, in config.IncomingAuth, insecure bool) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usageError(fmt.Sprintf("--listen: want host:port such as 127.0.0.1:4483, have %q", addr))
	}
	if err := mayReach(addr, in, insecure); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, usage.WithHint(fmt.Errorf("listen %s: another program uses this port", addr), "choose another one with --listen, such as --listen 127.0.0.1:0 for any")
	}
	return l, err
}

// mayReach refuses an address that other machines reach while callers are not asked who they are.
func mayReach(addr string, in config.IncomingAuth, insecure bool) error {
	if config.IsLoopback(addr) {
		return nil
	}
	switch in.Type {
	case "oidc", "tokens", "mtls":
		return nil
	case "local":
		return usageError(fmt.Sprintf("listen %s: other machines reach this address, and incomingAuth.type: local takes everybody for the user of this machine: it is for loopback addresses", addr))
	}
	if insecure || in.TokenFile != "" {
		return nil
	}
	return usage.WithHint(
		usageError(fmt.Sprintf("listen %s: other machines reach this address, and there is no incomingAuth: whoever connects can call every tool", addr)),
		"configure incomingAuth, ask for a token with --token-file, listen on 127.0.0.1, or allow it with --insecure-listen",
	)
}

// serveHTTP serves until the context ends, and then until the running calls are done.
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
	url := scheme + discovery.Reachable(host, port) + "/mcp"
	s.proxy.ServedBy(status.Server{URL: url, Commit: release.Read().Commit})
	forget, err := discovery.Announce(s.discovery, discovery.File{
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

// serveOn serves until the server is closed, over TLS if there is a configuration for it.
func serveOn(server interface{ Serve(net.Listener) error }, l net.Listener, secure *tls.Config, ended chan<- error) {
	l = edge.Listener(l)
	if secure != nil {
		l = tls.NewListener(l, secure) // outermost: that is how net/http knows
	}
	ended <- server.Serve(l)
}

// reportStart says where the endpoint is and, as soon as that is known, what is connected.
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
	if n := scripted(p.Status()); n > 0 {
		a.say("scripts: %s", client.Count(n, "tool"))
	}
	if s.from.demo {
		a.say("try: %s", tryCommand(endpoint, s.flags.tokenFile))
	}
}

// reportBackends says of each backend what came of its first attempt, when that is known:
// one that hangs holds up no others. Those that still connect after greetTime are the last.
func (a *app) reportBackends(ctx context.Context, p *proxy.Proxy) {
	late := time.NewTimer(greetTime)
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
				a.tellState(b)
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

// scripted counts the tools that are scripts.
func scripted(s proxy.Status) (n int) {
	for _, t := range s.Tools {
		if t.Backend == "" {
			n++
		}
	}
	return n
}
