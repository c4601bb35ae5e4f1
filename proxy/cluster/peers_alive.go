package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
)

// alivePath is the path of the liveness probe between replicas.
const alivePath = "/peer/alive"

// A peer is another replica to which requests are or were recently in flight. One goroutine (attend) probes whether it
// is alive. Where both are needed, Peers.mu is locked before peer.mu.
type peer struct {
	id string

	mu       sync.Mutex
	addr     string                // guarded by mu
	to       *httpclient.Transport // for requests of clients; guarded by mu
	underway map[*passing]struct{} // guarded by mu
	silent   bool                  // the last probe got no answer; guarded by mu
}

// begin registers a request in flight to a replica, until done is called; it is cancelled with errSilent if a probe
// gets no answer. ok is false if the last probe got none, and after Close.
func (p *Peers) begin(t *passing) (done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.peers[t.To]
	if e == nil {
		if p.life.Err() != nil {
			return nil, false
		}
		e = &peer{id: t.To, underway: map[*passing]struct{}{}}
		p.peers[t.To] = e
		p.work.Go(func() { p.attend(e) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent {
		return nil, false
	}
	if e.addr != t.addr {
		e.leave()
		e.addr, e.to = t.addr, p.transportTo(t.addr)
	}
	t.to = e.to
	e.underway[t] = struct{}{}
	return func() {
		e.mu.Lock()
		delete(e.underway, t)
		e.mu.Unlock()
	}, true
}

// errSilent is the cause with which requests to a replica are cancelled that does not answer probes.
var errSilent = errors.New("the replica does not answer")

// attend probes a replica every Options.Timeout while requests are in flight to it, and ends when none have been for
// keptIdle intervals.
func (p *Peers) attend(e *peer) {
	tick := time.NewTicker(p.o.Timeout)
	defer tick.Stop()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.leave()
	}()
	for idle := 0; ; {
		select {
		case <-tick.C:
		case <-p.life.Done():
			return
		}
		if _, there := p.o.Address(e.id); e.rests(time.Now().Add(-p.o.Timeout/2), there) {
			if idle++; idle > keptIdle && p.forget(e) {
				return
			}
			continue
		}
		idle = 0
		if n := e.note(p.alive(e)); n > 0 {
			p.log.Warn("a replica does not answer: requests that it has not started are served elsewhere", "peer", e.id, "requests", n)
		}
	}
}

// leave closes the idle connections. mu is held.
func (e *peer) leave() {
	if e.to != nil {
		e.to.CloseIdleConnections()
	}
}

// keptIdle is the number of idle intervals after which a peer is removed.
const keptIdle = 10

// rests reports whether no probe is needed: no request that began before since is in flight, and the peer answered the
// last probe or is no longer in the table of replicas (there is false).
func (e *peer) rests(since time.Time, there bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.underway {
		if t.began.Before(since) {
			return false
		}
	}
	return !e.silent || !there
}

// note records the result of a probe. If there was no answer, it cancels all requests in flight and returns their
// number.
func (e *peer) note(alive bool) (ended int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent = !alive; alive {
		return 0
	}
	for t := range e.underway {
		t.cancel(errSilent)
	}
	return len(e.underway)
}

// forget removes a peer without requests in flight; false if it has some.
func (p *Peers) forget(e *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.underway) > 0 {
		return false
	}
	delete(p.peers, e.id)
	return true
}

// alive probes a replica: true if it answers within Options.Timeout, or if its machine answers that the port is closed: a
// process that leaves finishes what it has started, and the connections of one that was killed end with it. A probe that
// fails because of Close counts as answered.
func (p *Peers) alive(e *peer) bool {
	ctx, cancel := context.WithTimeout(p.life, p.o.Timeout)
	defer cancel()
	e.mu.Lock()
	addr := e.addr
	e.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scheme()+"://"+addr+alivePath, nil)
	if err != nil {
		return false
	}
	p.sign(r, Passage{To: e.id})
	resp, err := p.pings.Do(r)
	if err != nil {
		return p.life.Err() != nil || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}

// pause detects that this process was suspended (SIGSTOP, a paused virtual machine).
type pause struct {
	last  atomic.Int64 // time of the last tick, in nanoseconds since 1970
	stood atomic.Bool  // the process was suspended, and adoptions were not read since

	looking sync.Mutex // held while adoptions are read; others wait for the result
}

const (
	pauseTick = 250 * time.Millisecond
	// stillFor is the interval between ticks above which the process counts as suspended.
	stillFor = time.Second
)

func (s *pause) watch(ctx context.Context) {
	tick := time.NewTicker(pauseTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // the tick's own time may be from before a suspension
			s.tick(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// tick notes that the process is running at the time now.
func (s *pause) tick(now time.Time) {
	last := s.last.Swap(now.UnixNano())
	if last != 0 && now.UnixNano()-last > int64(stillFor) {
		s.stood.Store(true)
	}
}

// stoodStill reports whether the process was suspended and adoptions were not read since.
func (s *pause) stoodStill() bool {
	return s.stood.Load() || time.Now().UnixNano()-s.last.Load() > int64(stillFor)
}

// Awake reads the adoptions of other replicas if this process was suspended: they may own its sessions now. If the
// store is away, it logs that and returns: calls do not wait for the store.
func (p *Peers) Awake(ctx context.Context) {
	if !p.pause.stoodStill() {
		return
	}
	p.pause.looking.Lock()
	defer p.pause.looking.Unlock()
	if !p.pause.stoodStill() {
		return
	}
	p.pause.tick(time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeout)
	defer cancel()
	if err := p.o.Refresh(ctx); err != nil {
		p.log.Warn("this process was suspended and cannot read which of its sessions other replicas have adopted", "err", err)
	}
	p.pause.stood.Store(false)
}
