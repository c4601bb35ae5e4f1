package serve

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package serves several configurations on one port: a proxy for each, the routing by path, and the pages
// about all of them.
//
//	s := servers.New(servers.Options{Make: newProxy, Health: source.Health})
//	err := s.Apply("ops", cfg) // its endpoint is /ops/mcp
//	http.Serve(l, s)

// ServersOptions are the surroundings of Servers.
type ServersOptions struct {
	Log *slog.Logger
	// Make makes the proxy of a server, which registers its metrics with metrics.
	Make func(name string, metrics prometheus.Registerer) *proxy.Proxy
	// Process is the configuration of the process: its process-wide fields override those of every server.
	Process *config.Config
	// Only is the name of the one server that is served; "" is all.
	Only string
	// Health returns the state of the source of objects, Stats its counters.
	Health func() cluster.Health
	Stats  func() cluster.Stats
	// Version is shown at /.
	Version string
	// MemoryLimit is the memory that the process may use, in bytes; 0: no limit.
	MemoryLimit int64
}

// Servers are the servers of one process. It is safe for concurrent use.
type Servers struct {
	o        ServersOptions
	log      *slog.Logger
	policy   *edge.Policy
	admin    tokenFile
	registry *prometheus.Registry // of the process
	changed  chan struct{}        // cap 1
	stopping atomic.Bool
	ready    atomic.Bool // it has been ready once
	work     sync.WaitGroup

	mu     sync.RWMutex
	all    map[string]*server // guarded by mu
	ending map[string]*server // those that are being closed, the last of each name; guarded by mu
	closed bool               // guarded by mu
	news   chan struct{}      // guarded by mu: closed at a change, and replaced
}

// server is one server. Known makes it, with a proxy that serves nothing, when its name appears; Apply gives it a
// configuration, and without one makes it not served again. When its name is gone, Known moves it from all to
// ending, and a goroutine closes it. If the name comes back meanwhile, that is another server, whose first Apply
// waits for the end of this one.
type server struct {
	name     string
	proxy    *proxy.Proxy
	registry *prometheus.Registry
	served   bool          // guarded by Servers.mu: a configuration is applied
	gone     chan struct{} // closed when the server is being closed; ends watch
	ended    chan struct{} // closed when the proxy has released its store and port
	before   *server       // the one before it of the same name, which has to end first; nil: none
}

// NewServers makes Servers without a server.
func NewServers(o ServersOptions) *Servers {
	s := &Servers{o: o, log: o.Log, policy: edge.NewOrigins(o.Process.Hosts, o.Process.Origins), registry: prometheus.NewRegistry(), changed: make(chan struct{}, 1), news: make(chan struct{}), all: map[string]*server{}, ending: map[string]*server{}}
	s.admin.path = o.Process.Admin.TokenFile
	s.registry.MustRegister(append(observe.Process(o.MemoryLimit), collector(o.Stats))...)
	return s
}

// Known implements cluster.Servers.
func (s *Servers) Known(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	defer s.wake()
	for name, v := range s.all {
		if !slices.Contains(names, name) {
			delete(s.all, name)
			s.ending[name] = v
			s.work.Go(func() { s.end(v) })
		}
	}
	for _, name := range names {
		if s.all[name] == nil {
			s.all[name] = s.make(name)
		}
	}
}

// make makes a server for a known name, which is not served yet. mu is held.
func (s *Servers) make(name string) *server {
	v := &server{name: name, registry: prometheus.NewRegistry(), gone: make(chan struct{}), ended: make(chan struct{}), before: s.ending[name]}
	v.proxy = s.o.Make(name, prometheus.WrapRegistererWith(prometheus.Labels{"server": name}, v.registry))
	s.work.Go(func() { s.watch(v) })
	return v
}

// watch reports changes of the proxy's state until the server is closed.
func (s *Servers) watch(v *server) {
	for {
		select {
		case <-v.proxy.Changed():
			s.noteChange()
		case <-v.gone:
			return
		}
	}
}

// wake wakes all that wait for News. mu is held.
func (s *Servers) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

func (s *Servers) noteChange() {
	s.mu.Lock()
	s.wake()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (v *server) close() {
	close(v.gone)
	_ = v.proxy.Close() // it logs its errors
	v.begin()           // it may not have waited in Apply
	close(v.ended)
}

// end closes a server whose name is no longer known.
func (s *Servers) end(v *server) {
	v.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending[v.name] == v {
		delete(s.ending, v.name)
	}
}

// begin waits until the server before it of the same name has ended: they use the same store, port for other replicas
// and place among these.
func (v *server) begin() {
	if v.before != nil {
		<-v.before.ended
	}
}

// Apply implements cluster.Servers.
func (s *Servers) Apply(name string, cfg *config.Config) error {
	v := s.find(name)
	if v == nil {
		return nil // its name is no longer known
	}
	if cfg == nil {
		s.serve(v, false)
		return nil
	}
	v.begin()
	join(cfg, s.o.Process)
	if err := v.proxy.Apply(cfg); err != nil {
		v.proxy.Refused(err)
		return err
	}
	s.serve(v, true)
	s.noteChange()
	return nil
}

// serve sets whether a server is served.
func (s *Servers) serve(v *server, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.served != served {
		s.log.Info("server", "server", v.name, "served", served)
	}
	v.served = served
	s.wake()
}

// join sets the process-wide fields of a server's configuration.
func join(cfg, process *config.Config) {
	cfg.Hosts, cfg.Origins, cfg.TrustedProxies = process.Hosts, process.Origins, process.TrustedProxies
	cfg.Listen, cfg.TLS, cfg.Admin = process.Listen, process.TLS, process.Admin
	cfg.SessionStorage, cfg.Runs, cfg.TokenStore, cfg.Cluster = process.SessionStorage, process.Runs, process.TokenStore, process.Cluster
	cfg.Audit, cfg.Telemetry = process.Audit, process.Telemetry
	cfg.Operational.Startup, cfg.Operational.Shutdown = process.Operational.Startup, process.Operational.Shutdown
	cfg.Limits.Runs, cfg.Limits.TotalMemory = process.Limits.Runs, process.Limits.TotalMemory
}

// find finds a server by its name; nil: there is none.
func (s *Servers) find(name string) *server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// names are the names of the servers, sorted.
func (s *Servers) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.all))
}

// each calls f for every server in order of their names, with whether it is served.
func (s *Servers) each(f func(v *server, served bool)) {
	for _, name := range s.names() {
		s.mu.RLock()
		v := s.all[name]
		served := v != nil && v.served
		s.mu.RUnlock()
		if v != nil {
			f(v, served)
		}
	}
}

// Backends implements cluster.Servers.
func (s *Servers) Backends(name string) map[string]string {
	v := s.find(name)
	if v == nil {
		return nil
	}
	all := map[string]string{}
	for _, b := range v.proxy.Status().Backends {
		switch b.State {
		case "ready":
			all[b.Name] = ""
		case "down":
			all[b.Name] = cmp.Or(still(b.Error), "does not answer")
		}
	}
	return all
}

// ours matches the local address of a connection in an error, which differs with each attempt.
var ours = regexp.MustCompile(`[^\s"]+:[0-9]+->`)

// still is the text of an error without local addresses, so that the same error is the same text in a status, which
// is not written again then.
func still(text string) string { return ours.ReplaceAllString(text, "") }

// News returns a channel that is closed at the next change. Unlike Changed it can have any number of receivers.
func (s *Servers) News() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.news
}

// Summary is a line about all servers, for the service manager.
func (s *Servers) Summary() string {
	all, served, backends, ready, tools := 0, 0, 0, 0, 0
	s.each(func(v *server, is bool) {
		all++
		if !is {
			return
		}
		served++
		now := v.proxy.Overview()
		tools += now.Tools.Visible
		for _, b := range now.Backends {
			switch b.State {
			case status.Disabled:
				continue
			case status.Ready:
				ready++
			}
			backends++
		}
	})
	return fmt.Sprintf("%d of %d servers served, %d of %d backends ready, %d tools", served, all, ready, backends, tools)
}

// Changed implements cluster.Servers.
func (s *Servers) Changed() <-chan struct{} { return s.changed }

// Stopping announces that the process is about to end: /readyz answers 503, and requests are still served.
func (s *Servers) Stopping() {
	s.stopping.Store(true)
	s.each(func(v *server, _ bool) { v.proxy.Stopping() })
}

// Drain ends the streams of clients that only listen.
func (s *Servers) Drain() { s.each(func(v *server, _ bool) { v.proxy.Drain() }) }

// Cut cancels and answers the calls of sessions that are still pending.
func (s *Servers) Cut() { s.each(func(v *server, _ bool) { v.proxy.Cut() }) }

// Close closes all servers and waits until they have ended.
func (s *Servers) Close() {
	s.mu.Lock()
	if !s.closed {
		for _, v := range s.all {
			s.work.Go(v.close)
		}
	}
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}
