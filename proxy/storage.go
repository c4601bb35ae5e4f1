package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

const (
	// pingWithin is the time without an answer after which the store counts as unavailable.
	pingWithin = 2 * time.Second
	// pingShown is how long /readyz waits for a ping: load balancers ask every second, and remove a replica that
	// answers slowly.
	pingShown = 500 * time.Millisecond
)

// pings is the result of pinging the store; at most one ping is in progress.
type pings struct {
	mu       sync.Mutex
	underway chan struct{} // closed when it ends; nil: none is in progress. Guarded by mu, like all below
	asked    bool
	err      error // of the last finished ping
}

var errUnasked = errors.New("the store has not answered yet")

// ask returns why the store does not answer; if the current ping takes longer than pingShown, the previous result.
func (p *pings) ask(ctx context.Context, ping func() error, spawn func(func()) bool) error {
	wait, cancel := context.WithTimeout(ctx, pingShown)
	defer cancel()
	select {
	case <-p.begin(ping, spawn):
	case <-wait.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked {
		return errUnasked
	}
	return p.err
}

// begin begins a ping unless one is in progress.
func (p *pings) begin(ping func() error, spawn func(func()) bool) (ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underway != nil {
		return p.underway
	}
	done := make(chan struct{})
	if !spawn(func() { p.run(ping, done) }) {
		close(done) // the proxy is closing: the previous result is kept
		return done
	}
	p.underway = done
	return done
}

// run pings once.
func (p *pings) run(ping func() error, done chan struct{}) {
	err := ping()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.asked, p.underway = err, true, nil
	close(done)
}

// storage is the store of runs in /readyz.
func (p *Proxy) storage(ctx context.Context) *storageStatus {
	s := &storageStatus{Provider: config.StorageMemory, OK: true}
	if p.stored != nil {
		s.Provider = p.stored.SessionStorage.Provider
	}
	if err := p.pings.ask(ctx, p.pingStore, p.spawn); err != nil {
		s.OK, s.Error = false, p.secrets.Text(err.Error())
	}
	return s
}

func (p *Proxy) pingStore() error {
	ctx, cancel := context.WithTimeout(p.life, pingWithin)
	defer cancel()
	return p.runs.Store().Ping(ctx)
}
