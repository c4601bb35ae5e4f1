// Package pool shares out what the runs of a process have together.
package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
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
// Runs that nobody executes, because they wait or have ended, keep what they did and returned. It counts as memory (Keep).
//
// A nil Pool sets no bounds. The mutexes of a pool are taken below all others and never
// held while anything waits.
type Pool struct {
	mu      sync.Mutex
	most    int64             // of all charges
	charged int64             // granted to all tenants, and kept
	kept    int64             // of runs that nobody executes
	tenants []*Tenant         // oldest first
	growers []*grower         // tenants that wait for memory
	active  int               // runs of which a branch computes, or would if it had a slot or memory
	noted   func(total int64) // called when what all tenants were granted has changed

	slots     slots
	contended atomic.Bool // somebody waits for a slot

	reading reading
}

// A Tenant is a request that has runs. A nil one is that of no pool.
type Tenant struct {
	pool    *Pool
	end     context.CancelCauseFunc // ends its runs
	granted int64                   // guarded by pool.mu
	effects atomic.Bool             // it has had one
	ending  bool                    // it was told to; guarded by pool.mu
	reading int64                   // bytes of answers that are under way; guarded by the mutex of reading
}

// A Seat is what one run has of a pool. It belongs to the branch that has the turn.
type Seat struct {
	active bool      // a branch has the turn
	slot   bool      // to compute
	since  time.Time // when others began to wait for it; zero for none
}

// grower is a run of a tenant that waits for memory.
type grower struct {
	tenant  *Tenant
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

// New makes a pool of so many bytes and slots. noted is called, under a lock, with what all
// runs together have been charged whenever that has changed by a step; it may be nil.
func New(memory int64, slots int, noted func(charged int64)) *Pool {
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

// Join makes a tenant; end ends its runs.
func (p *Pool) Join(end context.CancelCauseFunc) *Tenant {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &Tenant{pool: p, end: end}
	p.tenants = append(p.tenants, m)
	return m
}

// Pool is what m is a tenant of, or nil.
func (m *Tenant) Pool() *Pool {
	if m == nil {
		return nil
	}
	return m.pool
}

// Leave gives back all that m has.
func (m *Tenant) Leave() {
	if m == nil {
		return
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants = slices.DeleteFunc(p.tenants, func(o *Tenant) bool { return o == m })
	p.grant(m, -m.granted)
	p.admitGrowers()
}

// grant changes what m has. The caller holds the mutex.
func (p *Pool) grant(m *Tenant, n int64) {
	m.granted += n
	p.add(n)
}

// add changes what is charged. The caller holds the mutex.
func (p *Pool) add(n int64) {
	p.charged += n
	if p.noted != nil {
		p.noted(p.charged - p.kept)
	}
}

// Keep notes that n more bytes are kept of runs that nobody executes: what these did, and what they returned. They count
// like what runs have been charged, and never wait: whoever keeps them asks MostKept first.
func (p *Pool) Keep(n int64) {
	if p == nil || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept += n
	p.add(n)
	if n < 0 {
		p.admitGrowers()
	}
}

// MostKept is how many bytes may be kept of runs that nobody executes.
func (p *Pool) MostKept() int64 {
	if p == nil {
		return mostKept
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return MostReading(p.most)
}

// mostKept is what may be kept where there is no pool.
const mostKept = 256 << 20

// Touched notes that m has had an effect.
func (m *Tenant) Touched() {
	if m != nil {
		m.effects.Store(true)
	}
}

// Grow sees to it that m has what its runs were granted by their ledgers, which is
// charged. It waits, as the comment of Pool has it, and gives up the slot meanwhile. The error is
// that of ctx when that has ended.
func (m *Tenant) Grow(ctx context.Context, seat *Seat, charged int64) error {
	if m == nil {
		return nil
	}
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
	p.slots.release(seat)
	defer p.Compute(ctx, seat)
	return g.wait(ctx)
}

// fits grants m what was charged, and a step ahead where there is room.
func (p *Pool) fits(m *Tenant, charged int64) bool {
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
		return ctx.Err()
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
	if len(p.growers) == 0 || p.active > len(p.growers) || slices.ContainsFunc(p.tenants, func(m *Tenant) bool { return m.ending }) {
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

func (p *Pool) age(m *Tenant) int { return slices.Index(p.tenants, m) }

// victim is who has to end, because all wait for memory: the youngest that has had no
// effect, else the youngest; one that waits alone while others are in the middle of an
// effect may wait for these.
func (p *Pool) victim() *Tenant {
	var all []*Tenant
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
func (p *Pool) noRoom(m *Tenant) error {
	if m.effects.Load() || len(p.tenants) == 1 {
		return &meter.LimitError{Limit: "totalMemory", Value: limits.Bytes(p.most).String()}
	}
	return &Busy{fmt.Sprintf("the scripts that run have all of %s together (limits.totalMemory)", limits.Bytes(p.most))}
}

// Activate notes that a branch of the run has the turn now, where none had.
func (p *Pool) Activate(seat *Seat) {
	if p == nil || seat.active {
		return
	}
	seat.active = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active++
}

// Rest notes that no branch of the run has the turn any more.
func (p *Pool) Rest(seat *Seat) {
	if p == nil || !seat.active {
		return
	}
	seat.active = false
	p.slots.release(seat)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	p.admitGrowers()
}

// Compute waits until the run has a slot. When ctx ends, it goes on without: it is about to end.
func (p *Pool) Compute(ctx context.Context, seat *Seat) {
	if p != nil && !seat.slot {
		p.slots.acquire(ctx, seat, &p.contended)
	}
}

// Pause gives the slot to others, if some wait for one.
func (p *Pool) Pause(seat *Seat) {
	if p != nil && p.contended.Load() {
		p.slots.release(seat)
	}
}

// Share passes on the slot of a run when others wait for one and it has had it for a while.
func (p *Pool) Share(ctx context.Context, seat *Seat) {
	if p == nil || !p.contended.Load() || !seat.slot {
		return
	}
	if seat.since.IsZero() {
		seat.since = time.Now()
	}
	if time.Since(seat.since) < turnTime {
		return
	}
	p.slots.release(seat)
	p.slots.acquire(ctx, seat, &p.contended)
	seat.since = time.Now()
}

// KeepingTurn calls f, which should take no time, while the run keeps the turn. When it takes some
// all the same, because whoever is notified reads slowly, others get the slot.
func (p *Pool) KeepingTurn(ctx context.Context, seat *Seat, f func()) {
	if p == nil {
		f()
		return
	}
	released := make(chan struct{})
	late := time.AfterFunc(turnTime, func() {
		p.slots.release(seat)
		close(released)
	})
	f()
	if !late.Stop() {
		<-released
		p.Compute(ctx, seat)
	}
}

// Use is what a pool has given out.
type Use struct {
	Charged int64 // bytes
	Active  int   // runs
	Free    int   // slots that nobody has
}

// Use says what is given out at the moment.
func (p *Pool) Use() Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots.mu.Lock()
	defer p.slots.mu.Unlock()
	return Use{p.charged, p.active, p.slots.free}
}

// slots are the right to compute. Those who wait for one get it in order.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

// turnTime is how long a run computes while others wait for its slot.
const turnTime = 10 * time.Millisecond

// acquire waits for a slot for a run.
func (s *slots) acquire(ctx context.Context, seat *Seat, contended *atomic.Bool) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		seat.slot, seat.since = true, time.Time{}
		return
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	contended.Store(true)
	s.mu.Unlock()
	select {
	case <-turn:
		seat.slot, seat.since = true, time.Now()
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

// release gives back the slot of a run, if it has one.
func (s *slots) release(seat *Seat) {
	if !seat.slot {
		return
	}
	seat.slot = false
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
