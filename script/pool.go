package script

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool is what the runs of a process share: memory, room for answers that are being
// read, and the right to compute. Each run that has no caller is a tenant from its
// beginning to its end; the runs that it calls are part of it.
//
// Memory. A tenant weighs what its runs have been charged so far, not what they may be
// charged, and grows in steps. One that finds no room waits, without a slot, until others
// have ended. While somebody else computes, that can happen; when everybody who could
// compute waits for memory, it cannot. Then the oldest goes on, and of those who wait the
// youngest that has had no effect yet is refused as busy, else the youngest ends with the
// limit totalMemory. So the oldest always comes to its end. Those who are in the middle
// of an effect wait for the world, not for memory, and are left alone; one that waits
// for them waits for growWithin at most.
//
// Slots. To compute, a run needs one of a few slots. It has it only while one of its
// branches computes, not while all wait, and passes it on after a while when others wait
// for theirs: so runs that only compute get equal shares, and the rest of the process
// gets a share too.
//
// Answers. See reading.
//
// A nil Pool sets no bounds. The mutexes of a pool are taken below all others and never
// held while anything waits.
type Pool struct {
	mu      sync.Mutex
	most    int64             // of all charges
	charged int64             // granted to all tenants
	tenants []*tenant         // oldest first
	growers []*grower         // tenants that wait for memory
	active  int               // runs of which a branch computes, or would if it had a slot or memory
	noted   func(total int64) // called when charged has changed

	slots     slots
	contended atomic.Bool // somebody waits for a slot

	reading reading
}

// tenant is a request that has runs.
type tenant struct {
	pool    *Pool
	request *request
	end     context.CancelCauseFunc // ends its runs
	granted int64                   // guarded by pool.mu
	effects atomic.Bool             // it has had one
	ending  bool                    // it was told to; guarded by pool.mu
}

// grower is a run of a tenant that waits for memory.
type grower struct {
	tenant  *tenant
	charged int64 // of the tenant
	ready   chan struct{}
}

// Busy says that a run was not gone on with, because there was no room and it had done
// nothing yet: the same request may be sent again.
type Busy struct{ Why string }

func (b *Busy) Error() string { return "busy: " + b.Why }

const (
	// growWithin is how long a tenant waits for memory that others hold who wait themselves.
	growWithin = 30 * time.Second
	// A tenant grows by a quarter at a time, within these bounds.
	leastGrowth = 1 << 20
	mostGrowth  = 16 << 20
)

// NewPool makes a pool of so many bytes and slots. noted is called, under a lock, with what all
// runs together have been charged whenever that has changed by a step; it may be nil.
func NewPool(memory int64, slots int, noted func(charged int64)) *Pool {
	p := &Pool{noted: noted}
	p.slots.free = slots
	p.SetMemory(memory)
	return p
}

// SetMemory changes how much all runs together may be charged.
func (p *Pool) SetMemory(n int64) {
	p.mu.Lock()
	p.most = n
	p.admitGrowers()
	p.mu.Unlock()
	p.reading.set(MostReading(n))
}

// join makes q a tenant; end ends its runs.
func (p *Pool) join(q *request, end context.CancelCauseFunc) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q.tenant = &tenant{pool: p, request: q, end: end}
	p.tenants = append(p.tenants, q.tenant)
}

// pool is what q is a tenant of, or nil.
func (q *request) pool() *Pool {
	if q.tenant == nil {
		return nil
	}
	return q.tenant.pool
}

// leave gives back all that m has.
func (m *tenant) leave() {
	if m == nil {
		return
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants = slices.DeleteFunc(p.tenants, func(o *tenant) bool { return o == m })
	p.grant(m, -m.granted)
	p.admitGrowers()
}

// grant changes what m has. The caller holds the mutex.
func (p *Pool) grant(m *tenant, n int64) {
	m.granted += n
	p.charged += n
	if p.noted != nil {
		p.noted(p.charged)
	}
}

// touched notes that m has had an effect.
func (m *tenant) touched() {
	if m != nil {
		m.effects.Store(true)
	}
}

// grow sees to it that m has what its runs were granted by their ledgers, which is
// charged. It waits, as the comment of Pool has it; b is the branch that computes.
func (m *tenant) grow(b *branch, charged int64) error {
	p := m.pool
	p.mu.Lock()
	if len(p.growers) == 0 && p.fits(m, charged) || charged <= m.granted {
		p.mu.Unlock()
		return nil
	}
	g := &grower{tenant: m, charged: charged, ready: make(chan struct{})}
	p.growers = append(p.growers, g)
	p.admitGrowers()
	p.mu.Unlock()
	p.slots.release(b.run)
	defer b.compute()
	return g.wait(b.ctx)
}

// fits grants m what was charged, and a step ahead where there is room.
func (p *Pool) fits(m *tenant, charged int64) bool {
	need := charged - m.granted
	if need <= 0 {
		return true
	}
	if p.charged+need > p.most {
		return false
	}
	step := min(max(m.granted/4, leastGrowth), mostGrowth)
	p.grant(m, min(max(need, step), p.most-p.charged))
	return true
}

// wait waits for the memory, for the end of the run, or for too long.
func (g *grower) wait(ctx context.Context) error {
	late := time.NewTimer(growWithin)
	defer late.Stop()
	p := g.tenant.pool
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		p.forget(g)
		return ended(ctx)
	case <-late.C:
	}
	p.forget(g)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noRoom(g.tenant)
}

func (p *Pool) forget(g *grower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.growers = slices.DeleteFunc(p.growers, func(o *grower) bool { return o == g })
	p.admitGrowers()
}

// admitGrowers lets those go on who have room now, the oldest first, and ends one when nobody
// can. The caller holds the mutex.
func (p *Pool) admitGrowers() {
	for len(p.growers) > 0 {
		g := p.oldest()
		if !p.fits(g.tenant, g.charged) {
			break
		}
		p.growers = slices.DeleteFunc(p.growers, func(o *grower) bool { return o == g })
		close(g.ready)
	}
	if len(p.growers) == 0 || p.active > len(p.growers) || slices.ContainsFunc(p.tenants, func(m *tenant) bool { return m.ending }) {
		return
	}
	if m := p.victim(); m != nil {
		m.ending = true
		m.end(p.noRoom(m))
	}
}

// oldest is the one of the growers that has been a tenant for the longest time.
func (p *Pool) oldest() *grower {
	return slices.MinFunc(p.growers, func(a, b *grower) int { return p.age(a.tenant) - p.age(b.tenant) })
}

func (p *Pool) age(m *tenant) int { return slices.Index(p.tenants, m) }

// victim is who has to end, because all wait for memory: the youngest that has had no
// effect, else the youngest; one that waits alone while others are in the middle of an
// effect may wait for these.
func (p *Pool) victim() *tenant {
	var all []*tenant
	for _, m := range p.tenants {
		if slices.ContainsFunc(p.growers, func(g *grower) bool { return g.tenant == m }) {
			all = append(all, m)
		}
	}
	if len(all) == 1 && len(p.tenants) > 1 {
		return nil
	}
	for _, m := range slices.Backward(all[min(1, len(all)-1):]) {
		if !m.effects.Load() {
			return m
		}
	}
	return all[len(all)-1]
}

// noRoom is the error of m when it has to end.
func (p *Pool) noRoom(m *tenant) error {
	if m.effects.Load() || len(p.tenants) == 1 {
		return reached("totalMemory", Bytes(p.most))
	}
	return &Busy{fmt.Sprintf("the scripts that run have all of %s together (limits.totalMemory)", Bytes(p.most))}
}

// activate notes that a branch of r has the turn now, where none had.
func (r *Run) activate() {
	if p := r.pool; p != nil && !r.active {
		r.active = true
		p.mu.Lock()
		p.active++
		p.mu.Unlock()
	}
}

// rest notes that no branch of r has the turn any more.
func (r *Run) rest() {
	p := r.pool
	if p == nil || !r.active {
		return
	}
	r.active = false
	p.slots.release(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	p.admitGrowers()
}

// compute waits until the run of b, which has the turn, has a slot.
func (b *branch) compute() {
	if p := b.run.pool; p != nil && !b.run.slot {
		p.slots.acquire(b.ctx, b.run, &p.contended)
	}
}

// keepingTurn calls f, which should take no time, while b keeps the turn. When it takes some
// all the same, because whoever is notified reads slowly, others get the slot.
func (p *Pool) keepingTurn(b *branch, f func()) {
	if p == nil {
		f()
		return
	}
	released := make(chan struct{})
	late := time.AfterFunc(turnTime, func() {
		p.slots.release(b.run)
		close(released)
	})
	f()
	if !late.Stop() {
		<-released
		b.compute()
	}
}

// slots are the right to compute. Those who wait for one get it in order.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

// turnTime is how long a run computes while others wait for its slot.
const turnTime = 10 * time.Millisecond

// acquire waits for a slot for r. When ctx ends, r goes on without: it is about to end.
func (s *slots) acquire(ctx context.Context, r *Run, contended *atomic.Bool) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		r.slot, r.since = true, time.Time{}
		return
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	contended.Store(true)
	s.mu.Unlock()
	select {
	case <-turn:
		r.slot, r.since = true, time.Now()
	case <-ctx.Done():
		s.forget(turn)
	}
	s.mu.Lock()
	contended.Store(len(s.waiting) > 0)
	s.mu.Unlock()
}

// forget takes turn out of those who wait; a slot that it got meanwhile goes on.
func (s *slots) forget(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
	s.pass()
}

// release gives back the slot of r, if it has one.
func (s *slots) release(r *Run) {
	if !r.slot {
		return
	}
	r.slot = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass gives a slot to the next one. The caller holds the mutex.
func (s *slots) pass() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// share passes on the slot of b's run when others wait for one and it has had it for a
// while.
func (p *Pool) share(b *branch) {
	if p == nil || !p.contended.Load() || !b.run.slot {
		return
	}
	if b.run.since.IsZero() {
		b.run.since = time.Now()
	}
	if time.Since(b.run.since) < turnTime {
		return
	}
	p.slots.release(b.run)
	p.slots.acquire(b.ctx, b.run, &p.contended)
	b.run.since = time.Now()
}
