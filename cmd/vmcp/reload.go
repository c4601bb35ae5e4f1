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

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/systemd"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/follow"
	"github.com/vmcp-dev/vmcp/internal/certs"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// source is where the configuration of serve comes from.
type source struct {
	path   string
	load   func(path string) (*config.Config, error)
	fixed  *config.Config // instead of a file: it was read from standard input
	demo   bool
	remove func() // takes away what was made for it
}

// source finds the named file, or vmcp.yaml, or makes the demo.
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

// served is one run of serve: a configuration that is followed, and what serves it.
type served struct {
	flags serveFlags
	from  source
	proxy *proxy.Proxy
	log   *slog.Logger

	manager *systemd.Manager // nil: nobody asks how the service is

	ceiling int64 // of the memory that the process may have

	ctx      context.Context // ends with the service
	stop     context.CancelFunc
	work     sync.WaitGroup
	listener net.Listener
	tls      *certs.Server // nil: plain HTTP
	admin    net.Listener  // for operators; nil without admin.listen
	page     bool          // the page for operators is served, there or at the endpoint
	applied  chan struct{} // closed when the first configuration is
	ended    chan struct{} // closed when the source is not followed any more
	err      error         // why; set before ended closes

	listen, adminListen string // the addresses as configured when the service began
	adminToken          string // the file with the token for operators; "" is none
	discovery           string // the discovery file; "" is none
	tokenFile           string // with the token that everybody is asked for, absolute; "" is none

	shutdown atomic.Pointer[config.Shutdown] // as the last configuration and the flags want it
}

// start follows the source and returns when its first configuration is applied.
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
			return errReported // the user knows
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
	var from follow.Source = follow.Fixed{Config: s.from.fixed}
	if s.from.fixed == nil {
		from = &follow.File{Path: s.from.path, Load: s.read, Reload: reload, Rejected: s.rejected}
	}
	s.err = from.Watch(s.ctx, func(cfg *config.Config) error {
		defer s.manager.Reloaded()
		return s.apply(cfg)
	})
}

// read reads the configuration, and says that it does.
func (s *served) read(path string) (*config.Config, error) {
	s.manager.Reloading()
	cfg, err := s.from.load(path)
	if err != nil {
		s.manager.Reloaded()
	}
	return cfg, err
}

// managed is what the service manager is told, if there is one.
func (s *served) managed() *systemd.Manager {
	return systemd.New(systemd.Options{Log: s.log, Changed: s.proxy.Changed, Look: func() { s.proxy.Overview() }, Status: func() string {
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

// hangups passes on that somebody wants the configuration read anew. When it is the
// user's terminal that has gone, the service ends like any other program there.
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
			case <-s.ended: // nothing is followed
			}
		}
	}
}

// memoryNeed is the memory that scripts, which may be charged for total, and clients can make a process need.
func memoryNeed(total int64) int64 {
	return total + total/4 + script.MostReading(total) + proxy.Held + 64<<20
}

// warnMemory warns when scripts and clients together may need more memory than the process
// may have.
func (s *served) warnMemory(total int64) {
	if memoryNeed(total) <= s.ceiling {
		return
	}
	fits := total
	for fits > 64<<20 && memoryNeed(fits) > s.ceiling {
		fits -= 64 << 20
	}
	s.log.Warn("scripts and clients can make this process need more memory than it may have: lower limits.totalMemory, or allow it more",
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

// apply brings the service to a configuration: the first one opens the port.
func (s *served) apply(cfg *config.Config) error {
	if s.flags.listen != "" {
		cfg.Listen = s.flags.listen
	}
	cfg.IncomingAuth.TokenFile = s.tokenFile
	if s.flags.locked {
		cfg.Pins.Enforce()
	}
	if s.flags.stdio && cfg.Audit.Enabled && cfg.Audit.LogFile == "" {
		return errors.New("audit.logFile: with --stdio the standard output is the client's: name a file")
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

// checkPort holds a configuration to the port that is open, whatever address it names itself,
// and reads its certificates, which serve when the returned function is called.
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

// warnTLS warns that the port goes on speaking what it spoke from the beginning.
func (s *served) warnTLS(cfg *config.Config) {
	switch {
	case s.flags.stdio:
	case s.tls == nil && cfg.TLS.Cert != "":
		s.log.Warn("tls is configured now, and the port is open without: it takes a restart to serve with TLS")
	case s.tls != nil && cfg.TLS.Cert == "":
		s.log.Warn("tls is not configured any more, and the port is open with it: it takes a restart to serve without TLS")
	}
}

// warnMoved warns that an address is another one than the one that is served.
func (s *served) warnMoved(key, now, serving string) {
	if now != serving && !s.flags.stdio {
		s.log.Warn(key+" is another address now: it takes a restart to serve there", "listen", now, "serving", serving)
	}
}

// open opens the ports that a configuration names.
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
		s.log.Warn("no tls: what is sent to this address can be read on the way, unless TLS ends in front of it", "listen", cfg.Listen)
	}
	s.page = cfg.Admin.HasPage()
	if cfg.Admin.Listen != "" {
		s.admin, err = listenAdmin(&cfg.Admin, &cfg.IncomingAuth)
	}
	return err
}

// rejected logs why a version is not served, a line for every problem.
func (s *served) rejected(err error) {
	s.proxy.Refused(err)
	for _, problem := range eachProblem(err) {
		s.log.Error("configuration not applied, the version before goes on", "err", problem)
	}
}
