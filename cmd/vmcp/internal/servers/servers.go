// Package servers serves several configurations on one port: a proxy for each, the paths over them, and the pages
// about all of them.
//
//	s := servers.New(servers.Options{Make: newProxy, Health: source.Health})
//	err := s.Apply("ops", cfg) // its endpoint is /ops/mcp
//	http.Serve(l, s)
package servers

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
	"github.com/vmcp-dev/vmcp/internal/origin"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// Options are what Servers take from their surroundings.
type Options struct {
	Log *slog.Logger
	// Make makes the proxy of a server; metrics get its metrics.
	Make func(name string, metrics prometheus.Registerer) *proxy.Proxy
	// Process is the configuration of the process: what it says goes into that of every server.
	Process *config.Config
	// Only is the one server that is served; "" is all.
	Only string
	// Health says what is known of the objects, Stats what was counted.
	Health func() cluster.Health
	Stats  func() cluster.Stats
	// Version is shown to who asks what this is.
	Version string
	// MemoryLimit is the memory that the process may have; 0: as much as there is.
	MemoryLimit int64
}

// Servers are the servers of one process. They are safe for concurrent use.
type Servers struct {
	o        Options
	log      *slog.Logger
	policy   *origin.Policy
	admin    tokenFile
	registry *prometheus.Registry // of the process
	changed  chan struct{}        // cap 1
	stopping atomic.Bool
	ready    atomic.Bool // it was ready once
	work     sync.WaitGroup

	mu     sync.RWMutex
	all    map[string]*server // guarded by mu
	ending map[string]*server // those that are being closed, the last one of each name; guarded by mu
	closed bool               // guarded by mu
	news   chan struct{}      // guarded by mu: closed when something has changed, and replaced
}

// server is one of them.
type server struct {
	name     string
	proxy    *proxy.Proxy
	registry *prometheus.Registry
	served   bool          // guarded by Servers.mu: it has a configuration
	gone     chan struct{} // closed when nobody looks after it any more
	ended    chan struct{} // closed when it has given back its store and its port
	before   *server       // of the same name, which has to end first; nil: none
}

// New makes Servers without any.
func New(o Options) *Servers {
	s := &Servers{o: o, log: o.Log, policy: origin.New(o.Process.Hosts, o.Process.Origins), registry: prometheus.NewRegistry(), changed: make(chan struct{}, 1), news: make(chan struct{}), all: map[string]*server{}, ending: map[string]*server{}}
	s.admin.path = o.Process.Admin.TokenFile
	s.registry.MustRegister(append(metrics.Process(o.MemoryLimit), collector(o.Stats))...)
	return s
}

// Known implements cluster.Servers.
func (s *Servers) Known(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	defer s.poke()
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

// make makes a server that is known, and not served yet. mu is held.
func (s *Servers) make(name string) *server {
	v := &server{name: name, registry: prometheus.NewRegistry(), gone: make(chan struct{}), ended: make(chan struct{}), before: s.ending[name]}
	v.proxy = s.o.Make(name, prometheus.WrapRegistererWith(prometheus.Labels{"server": name}, v.registry))
	s.work.Go(func() { s.watch(v) })
	return v
}

// watch passes on that the state of a server's backends has changed.
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

// poke has everybody look who waits for News. mu is held.
func (s *Servers) poke() {
	close(s.news)
	s.news = make(chan struct{})
}

func (s *Servers) noteChange() {
	s.mu.Lock()
	s.poke()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (v *server) close() {
	close(v.gone)
	_ = v.proxy.Close() // it reports by itself
	v.begin()           // one that was never served has not waited yet
	close(v.ended)
}

// end closes a server that is not known any more.
func (s *Servers) end(v *server) {
	v.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending[v.name] == v {
		delete(s.ending, v.name)
	}
}

// begin waits until the server of the same name has ended that was there before: a process has one store, one port for other replicas
// and one place among them.
func (v *server) begin() {
	if v.before != nil {
		<-v.before.ended
	}
}

// Apply implements cluster.Servers.
func (s *Servers) Apply(name string, cfg *config.Config) error {
	v := s.find(name)
	if v == nil {
		return nil // it has gone since
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

// serve notes whether a server is served.
func (s *Servers) serve(v *server, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.served != served {
		s.log.Info("server", "server", v.name, "served", served)
	}
	v.served = served
	s.poke()
}

// join puts what is said of the process into the configuration of a server.
func join(cfg, process *config.Config) {
	cfg.Hosts, cfg.Origins, cfg.TrustedProxies = process.Hosts, process.Origins, process.TrustedProxies
	cfg.Listen, cfg.TLS, cfg.Admin = process.Listen, process.TLS, process.Admin
	cfg.SessionStorage, cfg.Runs, cfg.TokenStore, cfg.Cluster = process.SessionStorage, process.Runs, process.TokenStore, process.Cluster
	cfg.Audit, cfg.Telemetry = process.Audit, process.Telemetry
	cfg.Operational.Startup, cfg.Operational.Shutdown = process.Operational.Startup, process.Operational.Shutdown
	cfg.Limits.Runs, cfg.Limits.TotalMemory = process.Limits.Runs, process.Limits.TotalMemory
}

// find is a server by its name; nil: there is none.
func (s *Servers) find(name string) *server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// names are those of the servers, in order.
func (s *Servers) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.all))
}

// each are the servers in order of their names, with whether they are served.
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

// ours is the end of a connection that is ours: another one with each attempt.
var ours = regexp.MustCompile(`[^\s"]+:[0-9]+->`)

// still is the text of an error without what is another one with each attempt: it goes into a status, in which
// nothing moves by itself.
func still(text string) string { return ours.ReplaceAllString(text, "") }

// News is closed when something has changed since it was asked for. Changed is for one who waits, this for any number.
func (s *Servers) News() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.news
}

// Summary is a line about all servers.
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

// Stopping says that the process is about to end: /readyz answers 503, and everything is served.
func (s *Servers) Stopping() {
	s.stopping.Store(true)
	s.each(func(v *server, _ bool) { v.proxy.Stopping() })
}

// Drain ends the streams on which clients only listen.
func (s *Servers) Drain() { s.each(func(v *server, _ bool) { v.proxy.Drain() }) }

// Close ends all servers and waits for them.
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
