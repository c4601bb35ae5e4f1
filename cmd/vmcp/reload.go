package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
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
	from := source{path: name, load: config.Load, remove: func() {}}
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

	ctx      context.Context // ends with the service
	stop     context.CancelFunc
	work     sync.WaitGroup
	listener net.Listener
	listen   string        // the address as configured when the service began
	applied  chan struct{} // closed when the first configuration is
	ended    chan struct{} // closed when the source is not followed any more
	err      error         // why; set before ended closes
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
			return errTold // the user knows
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
}

func (s *served) follow(reload <-chan os.Signal) {
	defer close(s.ended)
	var from config.Source = config.Fixed{Config: s.from.fixed}
	if s.from.fixed == nil {
		from = &config.File{Path: s.from.path, Load: s.from.load, Reload: reload, Rejected: s.rejected}
	}
	s.err = from.Watch(s.ctx, s.apply)
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
			select {
			case reload <- sig:
			case <-s.ctx.Done():
			case <-s.ended: // nothing is followed
			}
		}
	}
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
	if s.listen == "" && !s.flags.stdio {
		l, err := listen(cfg.Listen, s.flags.insecure)
		if err != nil {
			return err
		}
		s.listener = l
	}
	if err := s.proxy.Apply(s.ctx, cfg); err != nil {
		return err
	}
	if s.listen == "" {
		s.listen = cfg.Listen
		close(s.applied)
		return nil
	}
	s.log.Info("configuration applied", "file", s.from.path, "backends", len(cfg.Backends))
	if cfg.Listen != s.listen && !s.flags.stdio {
		s.log.Warn("listen is another address now: it takes a restart to serve there", "listen", cfg.Listen, "serving", s.listen)
	}
	return nil
}

// rejected logs why a version is not served, a line for every problem.
func (s *served) rejected(err error) {
	for _, problem := range split(err) {
		s.log.Error("configuration not applied, the version before goes on", "err", problem)
	}
}
