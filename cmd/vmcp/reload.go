package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// source is the source of the configuration of serve.
type source struct {
	path   string
	load   func(path string) (*config.Config, error)
	fixed  *config.Config // instead of a file: it was read from standard input
	demo   bool
	remove func() // deletes temporary files
}

// source returns the named file, or vmcp.yaml, or the demo.
func (a *app) source(name string) (source, error) {
	if name == "" {
		if _, err := os.Stat(defaultFile); errors.Is(err, fs.ErrNotExist) {
			return a.demo()
		}
		name = defaultFile
	}
	from := source{path: name, load: a.load, remove: func() {}}
	var err error
	if name == "-" {
		from.fixed, err = a.load(name)
	}
	return from, err
}

// served is one run of serve: a watched configuration, the proxy and its ports.
type served struct {
	flags serveFlags
	from  source
	proxy *proxy.Proxy
	log   *slog.Logger

	manager *serve.Manager // nil: there is no service manager

	ceiling int64 // the memory limit of the process, in bytes

	ctx      context.Context // ends with the service
	stop     context.CancelFunc
	work     sync.WaitGroup
	listener net.Listener
	tls      *certs.Server // nil: plain HTTP
	admin    net.Listener  // for operators; nil without admin.listen
	page     bool          // the page for operators is served, there or at the endpoint
	applied  chan struct{} // closed when the first configuration is
	ended    chan struct{} // closed when the source is not watched any more
	err      error         // the error of the source; set before ended is closed

	listen, adminListen string // the addresses as configured at the start
	adminToken          string // the file with the token for operators; "" for none
	discovery           string // the discovery file; "" for none
	tokenFile           string // the absolute path of the file with the required token; "" for none

	shutdown atomic.Pointer[config.Shutdown] // of the last configuration and the flags
}

// start watches the source and returns when its first configuration is applied.
func (s *served) start(ctx context.Context, terminal bool) error {
	s.ctx, s.stop = context.WithCancel(ctx)
	hangups, reload := make(chan os.Signal, 1), make(chan os.Signal)
	signal.Notify(hangups, syscall.SIGHUP)
	s.work.Go(func() { s.follow(reload) })
	s.work.Go(func() { s.hangups(hangups, reload, terminal) })
	select {
	case <-s.applied:
		return nil
	case <-s.ended:
		if ctx.Err() != nil {
			return errInterrupted
		}
		return s.err
	}
}

// close ends the goroutines and waits for them.
func (s *served) close() {
	if s.stop != nil {
		s.stop()
	}
	s.work.Wait()
	if s.listener != nil {
		_ = s.listener.Close() // the server has closed it already, if there was one
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
}

func (s *served) follow(reload <-chan os.Signal) {
	defer close(s.ended)
	var from config.Source = config.Fixed{Config: s.from.fixed}
	if s.from.fixed == nil {
		from = &config.File{Path: s.from.path, Load: s.read, Reload: reload, Rejected: s.rejected}
	}
	s.err = from.Watch(s.ctx, func(cfg *config.Config) error {
		defer s.manager.Reloaded()
		return s.apply(cfg)
	})
}

// read reads the configuration, and notifies the service manager of the reload.
func (s *served) read(path string) (*config.Config, error) {
	s.manager.Reloading()
	cfg, err := s.from.load(path)
	if err != nil {
		s.manager.Reloaded()
	}
	return cfg, err
}

// managed reports the state of the service to the service manager, if there is one.
func (s *served) managed() *serve.Manager {
	return serve.NewNotifier(serve.NotifierOptions{Log: s.log, Changed: s.proxy.Changed, Probe: func() { s.proxy.Overview() }, Status: func() string {
		now := s.proxy.Overview()
		enabled, ready := 0, 0
		for _, b := range now.Backends {
			switch b.State {
			case status.Disabled:
			case status.Ready:
				ready++
				enabled++
			default:
				enabled++
			}
		}
		return fmt.Sprintf("%d of %d backends ready, %d tools, configuration %d", ready, enabled, now.Tools.Visible, now.Config.Generation)
	}})
}

// hangups triggers a reload at SIGHUP. If the cause of SIGHUP is that the terminal was closed,
// the service ends, as other programs do.
func (s *served) hangups(hangups chan os.Signal, reload chan<- os.Signal, terminal bool) {
	defer signal.Stop(hangups)
	for {
		select {
		case <-s.ctx.Done():
			return
		case sig := <-hangups:
			if terminal && terminalGone() {
				s.stop()
				return
			}
			s.proxy.ReopenAudit()
			select {
			case reload <- sig:
			case <-s.ctx.Done():
			case <-s.ended: // the source is not watched any more
			}
		}
	}
}

// memoryNeed is the memory, in bytes, that scripts, with a limit of total bytes, and clients can use.
func memoryNeed(total int64) int64 {
	return total + total/4 + script.MostReading(total) + proxy.Held + 64<<20
}

// warnMemory warns if scripts and clients together can use more memory than the limit of the
// process.
func (s *served) warnMemory(total int64) {
	if memoryNeed(total) <= s.ceiling {
		return
	}
	fits := total
	for fits > 64<<20 && memoryNeed(fits) > s.ceiling {
		fits -= 64 << 20
	}
	s.log.Warn("scripts and clients can use more memory than the limit of this process: lower limits.totalMemory, or raise the memory limit",
		"needed", script.Bytes(memoryNeed(total)>>20<<20), "allowed", script.Bytes(s.ceiling>>20<<20),
		"limits.totalMemory", script.Bytes(total), "fits", script.Bytes(fits))
}

func terminalGone() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return true
	}
	return tty.Close() != nil
}

// apply applies a configuration: the first one opens the port.
func (s *served) apply(cfg *config.Config) error {
	if s.flags.listen != "" {
		cfg.Listen = s.flags.listen
	}
	cfg.IncomingAuth.TokenFile = s.tokenFile
	if s.flags.locked {
		cfg.Pins.Enforce()
	}
	if s.flags.stdio && cfg.Audit.Enabled && cfg.Audit.LogFile == "" {
		return errors.New("audit.logFile: with --stdio standard output carries the protocol: set a file")
	}
	cfg.Hosts = append(cfg.Hosts, s.flags.hosts...)
	cfg.Origins = append(cfg.Origins, s.flags.origins...)
	if s.listen == "" && !s.flags.stdio {
		if err := s.open(cfg); err != nil {
			return err
		}
	}
	secure, err := s.checkPort(cfg)
	if err != nil {
		return err
	}
	if err := s.proxy.Apply(cfg); err != nil {
		return err
	}
	secure()
	for _, w := range cfg.Warnings() {
		s.log.Warn("configuration", "warning", w)
	}
	if s.flags.listen != "" && cfg.Unrestricted() {
		s.log.Warn("configuration", "warning", config.EveryCallerMayDoEverything)
	}
	s.noteShutdown(cfg)
	s.warnMemory(int64(cfg.Limits.TotalMemory))
	if s.listen == "" {
		s.listen, s.adminListen, s.adminToken = cfg.Listen, cfg.Admin.Listen, cfg.Admin.TokenFile
		s.discovery = cmp.Or(s.flags.discovery, cfg.Discovery.File)
		close(s.applied)
		return nil
	}
	s.log.Info("configuration applied", "file", s.from.path, "backends", len(cfg.Backends))
	s.warnMoved("listen", cfg.Listen, s.listen)
	s.warnMoved("admin.listen", cfg.Admin.Listen, s.adminListen)
	s.warnTLS(cfg)
	return nil
}

// checkPort checks that a configuration may be served on the open port, whatever address it has,
// and reads its certificates, which are used after the returned function is called.
func (s *served) checkPort(cfg *config.Config) (secure func(), err error) {
	secure = func() {}
	if s.listen == "" || s.flags.stdio {
		return secure, nil
	}
	if err := mayReach(s.listen, cfg.IncomingAuth, s.flags.insecure); err != nil {
		return nil, err
	}
	if s.tls == nil || cfg.TLS.Cert == "" {
		return secure, nil
	}
	return s.tls.Follow(cfg.TLS)
}

// warnTLS warns that a change between TLS and plain HTTP takes effect after a restart.
func (s *served) warnTLS(cfg *config.Config) {
	switch {
	case s.flags.stdio:
	case s.tls == nil && cfg.TLS.Cert != "":
		s.log.Warn("tls is configured, but the port was opened without TLS: restart to serve with TLS")
	case s.tls != nil && cfg.TLS.Cert == "":
		s.log.Warn("tls is not configured any more, but the port was opened with TLS: restart to serve without TLS")
	}
}

// warnMoved warns that a changed address takes effect after a restart.
func (s *served) warnMoved(key, now, serving string) {
	if now != serving && !s.flags.stdio {
		s.log.Warn(key+" has changed: restart to serve at the new address", "listen", now, "serving", serving)
	}
}

// open opens the ports of a configuration.
func (s *served) open(cfg *config.Config) (err error) {
	l, err := listen(cfg.Listen, cfg.IncomingAuth, s.flags.insecure)
	if err != nil {
		return err
	}
	s.listener = l
	if s.tls, err = certs.NewServer(cfg.TLS, s.log); err != nil {
		return err
	}
	if cfg.TLS.Cert == "" && !config.IsLoopback(cfg.Listen) {
		s.log.Warn("no tls: requests to this address can be intercepted, unless a proxy in front of it terminates TLS", "listen", cfg.Listen)
	}
	s.page = cfg.Admin.HasPage()
	if cfg.Admin.Listen != "" {
		s.admin, err = listenAdmin(&cfg.Admin, &cfg.IncomingAuth)
	}
	return err
}

// rejected logs why a version is not served, one line per problem.
func (s *served) rejected(err error) {
	s.proxy.Refused(err)
	for _, problem := range eachProblem(err) {
		s.log.Error("configuration not applied, the previous version stays in force", "err", problem)
	}
}
