package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/internal/memlimit"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"

	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// kubernetesFlags are the flags of serve for --kubernetes.
type kubernetesFlags struct {
	on                            bool
	namespace, kubeconfig, server string
}

func (f *kubernetesFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "kubernetes", false, "serve the configuration in the objects of a Kubernetes namespace; --config may have settings of the process")
	c.Flags().StringVar(&f.namespace, "namespace", "", "with --kubernetes: the `namespace` (default the context's, else the pod's, else default)")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "with --kubernetes: the `file` that says how to reach the cluster (default $KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config)")
	c.Flags().StringVar(&f.server, "server", "", "with --kubernetes: serve this VirtualMCPServer only, at /mcp, too")
	for _, other := range []string{"stdio", "token-file", "discovery-file", "locked"} {
		c.MarkFlagsMutuallyExclusive("kubernetes", other)
	}
	_ = c.MarkFlagFilename("kubeconfig") // the flag exists
}

// check refuses flags that need --kubernetes without it.
func (f *kubernetesFlags) check() error {
	if !f.on && cmp.Or(f.namespace, f.kubeconfig, f.server) != "" {
		return usageError("--namespace, --kubeconfig and --server are for --kubernetes")
	}
	return nil
}

// kubernetes is one run of serve over the objects of a namespace.
type kubernetes struct {
	app     *app
	flags   serveFlags
	process *config.Config
	log     *slog.Logger
	source  *cluster.Source
	servers *serve.Servers
}

// serveKubernetes serves the configuration in the objects of a namespace until the context ends.
func (a *app) serveKubernetes(ctx context.Context, f serveFlags) error {
	k := &kubernetes{app: a, flags: f, log: a.logger(slog.LevelInfo)}
	var err error
	if k.process, err = k.readProcess(); err != nil {
		return err
	}
	client, err := cluster.Connect(cluster.Access{
		Kubeconfig: f.kubernetes.kubeconfig, Environment: os.Getenv("KUBECONFIG"), Namespace: f.kubernetes.namespace, UserAgent: "vmcp/" + buildVersion(),
	}, k.log)
	if err != nil {
		return err
	}
	sender := a.telemetry(k.log, func() prometheus.Gatherer { return k.servers.Gatherer() })
	begin, err := sender.Open(k.process)
	if err != nil {
		return err
	}
	defer sender.Close()
	workers, closeWorkers := isolated()
	defer closeWorkers()
	memory := memlimit.New()
	shared := proxy.NewProcess(memory.Note)
	var tracer trace.TracerProvider
	k.servers = serve.NewServers(serve.ServersOptions{
		Log: k.log, Process: k.process, Only: f.kubernetes.server, Version: buildVersion(), MemoryLimit: memory.Ceiling(),
		Health: func() cluster.Health { return k.source.Health() }, Stats: func() cluster.Stats { return k.source.Stats() },
		Make: func(name string, metrics prometheus.Registerer) *proxy.Proxy {
			p := proxy.New(proxy.Options{
				Log: k.log, Secrets: &secret.Redactor{}, Version: buildVersion(), Tracer: tracer, AuditOut: a.out, Workers: workers, IsolateScripts: f.isolate,
				Server: name, Process: shared, Metrics: metrics, Joined: a.joined,
				OpenStore: func(c *config.Config) (durable.Store, *durable.Ring, error) {
					return sqlstore.Open(ctx, c, sqlstore.How{Log: k.log.With("server", name), Server: k.source.Health().Namespace + "/" + name})
				},
			})
			p.ServedBy(status.Server{Commit: cli.Read().Commit})
			return p
		},
	})
	defer k.servers.Close()
	tracer = begin()
	k.source = cluster.New(client, cluster.Options{
		Servers: k.servers, Only: f.kubernetes.server, Identity: identity(),
		Resolver: resolve.New(resolve.Options{
			Check: proxy.CheckTools, Only: f.kubernetes.server,
			AllowAnonymous: f.insecure || config.IsLoopback(k.process.Listen),
		}),
	})
	return k.serve(ctx)
}

// readProcess reads the settings of the process from --config.
func (k *kubernetes) readProcess() (*config.Config, error) {
	cfg := config.Default()
	if k.flags.config != "" {
		var err error
		if cfg, err = k.app.load(k.flags.config); err != nil {
			return nil, err
		}
		if found := cfg.BesideProcess(); len(found) > 0 {
			return nil, found
		}
	}
	cfg.Complete()
	if k.flags.listen != "" {
		cfg.Listen = k.flags.listen
	}
	if _, _, err := net.SplitHostPort(cfg.Listen); err != nil {
		return nil, usageError(fmt.Sprintf("--listen: want host:port such as 127.0.0.1:4483, have %q", cfg.Listen))
	}
	if cfg.SessionStorage.Lasting() && k.flags.kubernetes.server == "" { // cluster needs such a one
		return nil, usageError("sessionStorage and cluster: stored runs belong to one server: set --server, and give each server its own process and store")
	}
	cfg.Hosts = append(cfg.Hosts, k.flags.hosts...)
	cfg.Origins = append(cfg.Origins, k.flags.origins...)
	k.app.secrets.Use(cfg.Secrets())
	return cfg, nil
}

// identity is a unique name for this process.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "vmcp"
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	return host + "_" + hex.EncodeToString(random)
}

// serve opens the port before any object is read, so that probes are answered from the beginning.
func (k *kubernetes) serve(ctx context.Context) error {
	l, err := listen(k.process.Listen, config.IncomingAuth{}, true) // anonymous servers are refused one by one
	if err != nil {
		return err
	}
	defer l.Close()
	secure, err := certs.NewServer(k.process.TLS, k.log)
	if err != nil {
		return err
	}
	if k.process.Admin.Listen != "" {
		admin, err := listenAdmin(&k.process.Admin, &config.IncomingAuth{})
		if err != nil {
			return err
		}
		defer k.app.serveAdmin(admin, k.servers.AdminHandler(), k.process.Admin.HasPage(), k.log)()
	}
	manager := k.managed()
	l = manager.Listener(l)
	// The source runs until the calls have ended: its lease is released last.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.source.Run(following)
	}()
	defer func() { stop(); <-done }()
	server := newServer(k.servers, k.log)
	ended := make(chan error, 1)
	go serveOn(server, l, secure.Config(), ended)
	k.app.say("serving the VirtualMCPServers of namespace %s at %s", k.source.Health().Namespace, l.Addr())
	manager.Started(l)
	defer manager.Close()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	manager.Stopping()
	return k.app.stopServer(stopping{endpoint: k.servers, how: k.shutdown(), listener: l}, server, ended)
}

// managed reports the state of the service to the service manager, if there is one.
func (k *kubernetes) managed() *serve.Manager {
	return serve.NewNotifier(serve.NotifierOptions{Log: k.log, Changed: k.servers.News, Probe: func() { k.servers.Summary() }, Status: func() string { return k.servers.Summary() }})
}

// shutdown has the drain times of the file or, if given, of the flags.
func (k *kubernetes) shutdown() *config.Shutdown { return shutdownOf(k.process, k.flags) }
