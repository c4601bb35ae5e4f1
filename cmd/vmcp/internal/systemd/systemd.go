// Package systemd tells the service manager how the service is (sd_notify(3)), where NOTIFY_SOCKET says that one
// asks: READY=1 when the port is open, STATUS= with counts, RELOADING=1 while a configuration is applied, STOPPING=1,
// and WATCHDOG=1 as long as the service looks alive.
//
//	m := systemd.New(systemd.Options{Status: counts, Changed: changed, Look: look, Log: log})
//	l = m.Listener(l) // that the server accepts on
//	m.Started(l)
//	defer m.Close()
//
// A nil *Manager tells nobody anything. Programs that the service starts do not inherit the variables.
package systemd

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

// Options are what a Manager needs to know.
type Options struct {
	// Status says in a line how the service is.
	Status func() string
	// Changed is closed when Status may have changed.
	Changed func() <-chan struct{}
	// Look looks at what the service does its work with; it does not return while that is stuck.
	Look func()
	Log  *slog.Logger
}

// A Manager is the service manager that has started this process. It is safe for concurrent use.
type Manager struct {
	o        Options
	watchdog time.Duration // how often it wants to be told that the service is alive; 0: never
	accepts  accepts

	mu    sync.Mutex
	state state  // guarded by mu
	told  string // guarded by mu: the last status

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

// New is the manager that the environment names; nil without one.
func New(o Options) *Manager {
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

// Started says that the port is open, and keeps telling how the service is until Close. l is what Listener has returned.
func (m *Manager) Started(l net.Listener) {
	if m == nil {
		return
	}
	m.set(starting, ready)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.work.Go(func() { m.tellStatus(ctx) })
	if m.watchdog > 0 {
		m.work.Go(func() { m.tellAlive(ctx, l.Addr()) })
	}
}

// Reloading says that a configuration is read, Reloaded that it is applied or refused.
func (m *Manager) Reloading() {
	if m != nil {
		m.set(ready, reloading)
	}
}

// Reloaded is the end of Reloading.
func (m *Manager) Reloaded() {
	if m != nil {
		m.set(reloading, ready)
	}
}

// Stopping says that the service is about to end. The watchdog is told on until Close, without a look at the port.
func (m *Manager) Stopping() {
	if m != nil {
		m.set(ready, stopping)
	}
}

// Close ends the goroutines and waits for them.
func (m *Manager) Close() {
	if m == nil || m.stop == nil {
		return
	}
	m.stop()
	m.work.Wait()
}

// set goes from one state to another one, if it is in the first, and tells the manager. Nothing is reloaded before the
// service is ready, and nothing is ready again that stops.
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

// status is the line about the status. mu is held.
func (m *Manager) status() string {
	m.told = strings.ReplaceAll(m.o.Status(), "\n", " ")
	return "STATUS=" + m.told
}

// send sends lines in one datagram.
func (m *Manager) send(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		m.o.Log.Warn("the service manager was not told", "message", lines[0], "err", err)
	}
}

// tellStatus tells the status whenever it has changed.
func (m *Manager) tellStatus(ctx context.Context) {
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

// tellAlive tells the watchdog at half of its time that the service is alive, after it has looked: a new connection is
// accepted, and Look returns.
func (m *Manager) tellAlive(ctx context.Context, addr net.Addr) {
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		if err := m.look(ctx, addr); err == nil {
			m.send(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			m.o.Log.Error("the service does not look alive; the service manager is going to restart it", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) look(ctx context.Context, addr net.Addr) error {
	m.o.Look()
	m.mu.Lock()
	ends := m.state == stopping
	m.mu.Unlock()
	if ends {
		return nil // the port is closed, or will be in a moment
	}
	ctx, cancel := context.WithTimeout(ctx, m.watchdog/2)
	defer cancel()
	return m.accepts.look(ctx, addr)
}
