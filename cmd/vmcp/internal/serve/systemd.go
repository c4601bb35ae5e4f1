package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// This part of the package notifies the service manager of the service's state (sd_notify(3)) if NOTIFY_SOCKET is set:
// READY=1 when the port is open, STATUS= with counts, RELOADING=1 while a configuration is applied, STOPPING=1,
// and WATCHDOG=1 as long as the service responds.
//
//	m := systemd.New(systemd.Options{Status: counts, Changed: changed, Probe: look, Log: log})
//	l = m.Listener(l) // that the server accepts on
//	m.Started(l)
//	defer m.Close()
//
// On a nil *Manager all methods do nothing. Child processes do not inherit the variables of the protocol.

// NotifierOptions are what a Manager needs of the service.
type NotifierOptions struct {
	// Status is the state of the service in a line.
	Status func() string
	// Changed is closed when Status may have changed.
	Changed func() <-chan struct{}
	// Probe exercises what the service works with; it does not return while that hangs.
	Probe func()
	Log   *slog.Logger
}

// A Manager notifies the service manager that has started this process. It is safe for concurrent use.
type Manager struct {
	o        NotifierOptions
	watchdog time.Duration // the service manager's timeout; 0: none
	accepts  accepts

	mu    sync.Mutex
	state state  // guarded by mu
	told  string // guarded by mu: the last status sent

	stop context.CancelFunc // nil before Started
	work sync.WaitGroup
}

type state int

const (
	starting state = iota
	ready
	reloading
	stopping
)

// NewNotifier returns a Manager for the socket in the environment; nil without one.
func NewNotifier(o NotifierOptions) *Manager {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	m := &Manager{o: o}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		o.Log.Warn("no watchdog for the service manager", "err", err)
	}
	m.watchdog = every
	return m
}

// Started sends READY=1, and from then on each change of the status, until Close. l is what Listener has returned.
func (m *Manager) Started(l net.Listener) {
	if m == nil {
		return
	}
	m.set(starting, ready)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.work.Go(func() { m.sendStatus(ctx) })
	if m.watchdog > 0 {
		m.work.Go(func() { m.pingWatchdog(ctx, l.Addr()) })
	}
}

// Reloading sends that a configuration is being applied.
func (m *Manager) Reloading() {
	if m != nil {
		m.set(ready, reloading)
	}
}

// Reloaded sends that it has been applied or refused.
func (m *Manager) Reloaded() {
	if m != nil {
		m.set(reloading, ready)
	}
}

// Stopping sends that the service is about to end. The watchdog is still notified until Close, without a probe of the port.
func (m *Manager) Stopping() {
	if m != nil {
		m.set(ready, stopping)
	}
}

// Close stops the goroutines and waits for them.
func (m *Manager) Close() {
	if m == nil || m.stop == nil {
		return
	}
	m.stop()
	m.work.Wait()
}

// set goes from one state to another, if it is in the first, and sends that; to stopping it goes from every state. So nothing
// is reloaded before the service is ready, and nothing follows stopping.
func (m *Manager) set(from, to state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != from && (to != stopping || m.state == stopping) {
		return
	}
	m.state = to
	switch to {
	case ready:
		m.send(daemon.SdNotifyReady, m.status())
	case reloading:
		m.send(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
	case stopping:
		m.send(daemon.SdNotifyStopping, "STATUS=stopping: running calls may end")
	}
}

// status is the line with the status, which counts as sent. mu is held.
func (m *Manager) status() string {
	m.told = strings.ReplaceAll(m.o.Status(), "\n", " ")
	return "STATUS=" + m.told
}

// send sends lines in one datagram.
func (m *Manager) send(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		m.o.Log.Warn("the service manager was not notified", "message", lines[0], "err", err)
	}
}

// sendStatus sends the status whenever it has changed.
func (m *Manager) sendStatus(ctx context.Context) {
	for {
		changed := m.o.Changed()
		m.mu.Lock()
		if m.state == ready && m.told != strings.ReplaceAll(m.o.Status(), "\n", " ") {
			m.send(m.status())
		}
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// pingWatchdog sends WATCHDOG=1 every half of the timeout, after a probe: Probe returns, and a new connection is
// accepted.
func (m *Manager) pingWatchdog(ctx context.Context, addr net.Addr) {
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		if err := m.probe(ctx, addr); err == nil {
			m.send(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			m.o.Log.Error("the service does not respond; the service manager will restart it", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) probe(ctx context.Context, addr net.Addr) error {
	m.o.Probe()
	m.mu.Lock()
	ends := m.state == stopping
	m.mu.Unlock()
	if ends {
		return nil // the port is closed, or is about to be
	}
	ctx, cancel := context.WithTimeout(ctx, m.watchdog/2)
	defer cancel()
	return m.accepts.probe(ctx, addr)
}
