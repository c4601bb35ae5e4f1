package peers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// alivePath is where a replica says that it is alive.
const alivePath = "/peer/alive"

// A peer is another replica while requests are under way to it. One goroutine asks whether it is alive.
type peer struct {
	id   string
	addr string

	mu       sync.Mutex
	underway map[*passing]struct{} // guarded by mu
	silent   bool                  // guarded by mu: it said nothing when it was asked last
}

// begin notes a request that is under way to a replica, until done is called: it ends with errSilent when the replica says
// nothing any more. ok is false for one that says nothing already, and when there are no requests to be passed on any more.
func (p *Peers) begin(t *passing) (done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.peers[t.To]
	if e == nil {
		if p.life.Err() != nil {
			return nil, false
		}
		e = &peer{id: t.To, addr: t.addr, underway: map[*passing]struct{}{}}
		p.peers[t.To] = e
		p.work.Go(func() { p.attend(e) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent {
		return nil, false
	}
	e.underway[t] = struct{}{}
	return func() {
		e.mu.Lock()
		delete(e.underway, t)
		e.mu.Unlock()
	}, true
}

// errSilent ends requests to a replica that says nothing.
var errSilent = errors.New("the replica says nothing")

// attend asks a replica at intervals whether it is alive, as long as requests are under way to it.
func (p *Peers) attend(e *peer) {
	tick := time.NewTicker(p.o.Timeout)
	defer tick.Stop()
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
			p.log.Warn("a replica says nothing: what it has not begun is served elsewhere", "peer", e.id, "requests", n)
		}
	}
}

// keptIdle is for how many intervals a peer is kept to which nothing is under way.
const keptIdle = 10

// rests reports whether there is no reason to ask: no request has been under way since a time, and it did not fall silent.
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

// note ends what is under way to a replica that says nothing, and returns how much that was.
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

// forget drops a peer to which nothing is under way.
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

// alive asks a replica whether it is.
func (p *Peers) alive(e *peer) bool {
	ctx, cancel := context.WithTimeout(p.life, p.o.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scheme()+"://"+e.addr+alivePath, nil)
	if err != nil {
		return false
	}
	p.sign(r, Passage{To: e.id})
	resp, err := p.pings.Do(r)
	if err != nil {
		return p.life.Err() != nil
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}

// pause notes that this process has stood still: it was stopped, or the machine was.
type pause struct {
	last  atomic.Int64 // nanoseconds since 1970 when the process was last seen to go on
	stood atomic.Bool  // it has stood still, and nobody has looked since what others have taken over

	looking sync.Mutex // held by who looks: the others wait for what is found
}

const (
	pauseTick = 250 * time.Millisecond
	// stillFor is how long a process that goes on is not seen to do so at most.
	stillFor = time.Second
)

func (s *pause) watch(ctx context.Context) {
	tick := time.NewTicker(pauseTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // its own time is from before a pause, maybe
			s.tick(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// tick notes that the process goes on.
func (s *pause) tick(now time.Time) {
	last := s.last.Swap(now.UnixNano())
	if last != 0 && now.UnixNano()-last > int64(stillFor) {
		s.stood.Store(true)
	}
}

// stoodStill reports whether the process has stood still since the last look.
func (s *pause) stoodStill() bool {
	return s.stood.Load() || time.Now().UnixNano()-s.last.Load() > int64(stillFor)
}

// Awake looks up what others have taken over, if this process has stood still: a session of its own may be theirs now. While
// the store is away it cannot, and goes on with what it has: calls do not wait for a store.
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
		p.log.Warn("this process has stood still, and cannot look up what others have taken over", "err", err)
	}
	p.pause.stood.Store(false)
}
