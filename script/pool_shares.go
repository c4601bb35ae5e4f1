package script

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

// This part of the package distributes memory, room for answers and slots to compute among the runs of a process.

// A Pool is what the runs of a process share: memory, room for answers that are being read, and slots to compute in.
// Each outermost run is a tenant from its beginning to its end; the runs that it calls belong to it.
//
// Memory. A tenant counts with what its runs have been charged so far, not with what they may be charged, and grows in
// steps. One that finds no room waits, without a slot, until others have ended. While another run computes, that can
// happen; when every run that could compute waits for memory, it cannot. Then the oldest continues, and of those that
// wait the youngest that has had no effect yet is refused as Busy, or else the youngest ends with the limit
// totalMemory. So the oldest always completes. Runs in the middle of an effect wait for its answer, not for memory,
// and are left alone; a run that waits for them is refused when none was admitted for growWithin.
//
// Slots. To compute, a run needs one of a few slots. It has it only while one of its branches computes, not while all
// wait, and after turnTime passes it on if other runs wait for one: so runs that only compute get equal shares, and
// the rest of the process gets a share too.
//
// Answers. See reading.
//
// Results and journals of suspended or ended runs that stay in memory count as memory (CountKept).
//
// Garbage. What ended runs leave is in memory until it is collected. While a collection is in progress and there is no
// room beside it (Noted), a tenant that was granted memory waits for the collection, without a slot, before it uses
// it.
//
// A nil Pool sets no bounds. The mutexes of a pool are acquired below all others of package script, and never held
// while waiting.
type Pool struct {
	mu      sync.Mutex
	most    int64       // of all charges
	charged int64       // granted to all tenants, and kept
	kept    int64       // of runs that are not being executed
	spare   int64       // granted to tenants, and returned by runs that these called
	tenants []*Tenant   // oldest first
	growers []*grower   // tenants that wait for memory
	active  int         // runs of which a branch has the turn, with a slot and memory or waiting for them
	noted   Noted       // may be nil
	holders []*holder   // with a worker, or about to open it
	look    *time.Timer // for workers that can be given back; nil: none is set
	grown   time.Time   // when a grower was admitted

	slots     slots
	contended atomic.Bool // a run waits for a slot

	reading reading
}

// Noted is called, under a lock, with the memory that all tenants together were granted, in bytes. It does not wait.
// When it returns a channel, the memory is still occupied by the garbage of ended runs: a tenant that grew waits until
// the channel is closed, and calls it again.
type Noted = func(charged int64) (collecting <-chan struct{})

// A Tenant is a request that has runs. The nil Tenant belongs to no pool.
type Tenant struct {
	pool    *Pool
	end     context.CancelCauseFunc // ends its runs
	granted int64                   // guarded by pool.mu
	spare   int64                   // what of that was returned by runs that it called; guarded by pool.mu
	effects atomic.Bool             // it has had an effect
	ending  bool                    // end was called; guarded by pool.mu
	reading int64                   // bytes of answers being read; guarded by reading.mu
}

// A Seat is the state of one run in a pool. It belongs to the branch that has the turn.
type Seat struct {
	active bool      // a branch has the turn; guarded by pool.mu
	slot   bool      // it has a slot
	lent   bool      // of the pool's lent ones
	since  time.Time // when others began to wait for the slot; zero for none
	holder *holder   // of an isolated run
}

// grower is a run of a tenant that waits for memory.
type grower struct {
	tenant  *Tenant
	seat    *Seat
	holder  *holder // waits for a worker, too; nil: it does not
	charged int64   // of the tenant
	ready   chan struct{}
	// collecting is what to wait for after ready, or nil: a collection of garbage that frees the memory.
	collecting <-chan struct{}
}

// Busy says that a run was refused before it had any effect, because there was no room: the same request may be sent
// again. Why names what is exhausted.
type Busy struct{ Why string }

func (b *Busy) Error() string { return "busy: " + b.Why }

const (
	// growWithin is how long a tenant waits for memory while no other gets some either.
	growWithin = 30 * time.Second
	// A tenant grows by a quarter at a time, within these bounds, in bytes.
	leastGrowth = 1 << 20
	mostGrowth  = 16 << 20
)

// NewPool makes a pool of so many bytes and slots. noted is called with the memory that all runs together have been
// charged whenever that changes by a step; it may be nil.
func NewPool(memory int64, slots int, noted Noted) *Pool {
	p := &Pool{noted: noted}
	p.slots.all, p.slots.free = slots, slots
	p.SetMemory(memory)
	return p
}

// SetMemory changes how many bytes all runs together may be charged.
func (p *Pool) SetMemory(n int64) {
	p.mu.Lock()
	p.most = n
	p.admitGrowers()
	p.mu.Unlock()
	p.reading.set(MostReading(n))
}

// Join adds a tenant; end is called to end its runs.
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

// Pool returns the pool of m, or nil.
func (m *Tenant) Pool() *Pool {
	if m == nil {
		return nil
	}
	return m.pool
}

// Leave removes m and returns all that it was granted.
func (m *Tenant) Leave() {
	if m == nil {
		return
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants = slices.DeleteFunc(p.tenants, func(o *Tenant) bool { return o == m })
	p.spare -= m.spare
	p.grant(m, -m.granted)
	p.admitGrowers()
}

// grant adds n to what m was granted. The caller holds the mutex.
func (p *Pool) grant(m *Tenant, n int64) (collecting <-chan struct{}) {
	m.granted += n
	return p.add(n)
}

// add adds n to what is charged. The caller holds the mutex.
func (p *Pool) add(n int64) (collecting <-chan struct{}) {
	p.charged += n
	if p.noted == nil {
		return nil
	}
	return p.noted(p.charged - p.kept - p.spare)
}

// CountKept adds n bytes for journals and results of runs that are not being executed. They count like memory of runs,
// and never wait: the caller checks MostKept first.
func (p *Pool) CountKept(n int64) {
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

// MostKept returns how many bytes may be kept for runs that are not being executed.
func (p *Pool) MostKept() int64 {
	if p == nil {
		return mostKept
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return MostReading(p.most)
}

// mostKept is what may be kept without a pool, in bytes.
const mostKept = 256 << 20

// Touched records that m has had an effect.
func (m *Tenant) Touched() {
	if m != nil {
		m.effects.Store(true)
	}
}

// Grow waits until m was granted charged bytes, what its ledgers have granted to its runs. It gives up the slot while
// it waits, as the comment of Pool describes. The error is that of ctx when ctx has ended.
func (m *Tenant) Grow(ctx context.Context, seat *Seat, charged int64) error {
	if m == nil {
		return nil
	}
	return m.pool.grow(ctx, &grower{tenant: m, seat: seat, charged: charged})
}

func (p *Pool) grow(ctx context.Context, g *grower) error {
	seat := g.seat
	p.mu.Lock()
	if g.holder == nil && g.charged <= g.tenant.granted {
		collecting := p.reuse(g.tenant, g.charged)
		p.mu.Unlock()
		return p.beside(ctx, seat, collecting)
	}
	if len(p.growers) == 0 {
		if wait, fits := p.fits(g); fits {
			p.mu.Unlock()
			return p.beside(ctx, seat, wait)
		}
	}
	g.ready = make(chan struct{})
	p.growers = append(p.growers, g)
	p.admitGrowers()
	p.mu.Unlock()
	p.slots.release(seat)
	defer p.Compute(ctx, seat)
	if err := g.wait(ctx); err != nil {
		return err
	}
	return p.beside(ctx, seat, g.collecting)
}

// Return reports that the runs of m are charged only charged bytes now, since runs that m called have ended. m keeps
// what it was granted; the difference is garbage, and counted as spare.
func (m *Tenant) Return(charged int64) {
	if m == nil {
		return
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if back := m.granted - charged - m.spare; back > leastGrowth {
		m.spare += back
		p.spare += back
		p.add(0)
	}
}

// reuse takes what m is charged, and a step more, from its spare memory. The caller holds the mutex.
func (p *Pool) reuse(m *Tenant, charged int64) (collecting <-chan struct{}) {
	need := charged - (m.granted - m.spare)
	if need <= 0 {
		return nil
	}
	need = min(need+leastGrowth, m.spare)
	m.spare -= need
	p.spare -= need
	return p.add(0)
}

// beside waits, without the slot, for collecting: garbage occupies the memory that a tenant was granted.
func (p *Pool) beside(ctx context.Context, seat *Seat, collecting <-chan struct{}) error {
	if collecting == nil {
		return nil
	}
	p.slots.release(seat)
	defer p.Compute(ctx, seat)
	for collecting != nil {
		select {
		case <-collecting:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.mu.Lock()
		collecting = p.add(0)
		p.mu.Unlock()
	}
	return nil
}

// fits grants a grower what its tenant was charged, and a step more where there is room, and the worker that it waits for.
// The caller holds the mutex.
func (p *Pool) fits(g *grower) (collecting <-chan struct{}, fits bool) {
	m, need := g.tenant, g.charged-g.tenant.granted
	if g.holder != nil && len(p.holders) >= MostWorkers || need > 0 && p.charged+need > p.most {
		return nil, false
	}
	if g.holder != nil {
		p.holders = append(p.holders, g.holder)
	}
	if need <= 0 {
		return nil, true
	}
	p.spare -= m.spare
	m.spare = 0
	step := min(max((m.granted-p.lent(m))/4, leastGrowth), mostGrowth)
	return p.grant(m, min(max(need, step), p.most-p.charged)), true
}

// wait waits for the memory, for the end of ctx, or until no grower was admitted for growWithin.
func (g *grower) wait(ctx context.Context) error {
	late := time.NewTimer(growWithin)
	defer late.Stop()
	p := g.tenant.pool
	for {
		select {
		case <-g.ready:
			return nil
		case <-ctx.Done():
			p.forget(g)
			return ctx.Err()
		case <-late.C:
		}
		p.mu.Lock()
		left := growWithin - time.Since(p.grown)
		p.mu.Unlock()
		if left <= 0 {
			break
		}
		late.Reset(left)
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

// admitGrowers admits the growers for which there is room now, the oldest first, and ends a tenant when none can be
// admitted. The caller holds the mutex.
func (p *Pool) admitGrowers() {
	for len(p.growers) > 0 {
		g := p.oldest()
		collecting, fits := p.fits(g)
		if !fits {
			break
		}
		g.collecting, p.grown = collecting, time.Now()
		p.growers = slices.DeleteFunc(p.growers, func(o *grower) bool { return o == g })
		close(g.ready)
	}
	if len(p.growers) == 0 || p.reclaim() || p.active > p.stuck() || p.strip() || slices.ContainsFunc(p.tenants, func(m *Tenant) bool { return m.ending }) {
		return
	}
	if m := p.victim(); m != nil {
		m.ending = true
		m.end(p.noRoom(m))
	}
}

// oldest returns the grower that has been a tenant for the longest time.
func (p *Pool) oldest() *grower {
	return slices.MinFunc(p.growers, func(a, b *grower) int { return p.age(a.tenant) - p.age(b.tenant) })
}

func (p *Pool) age(m *Tenant) int { return slices.Index(p.tenants, m) }

// victim returns the tenant that has to end because all wait for memory: the youngest that has had no effect,
// otherwise the youngest; nil if only one waits while others are in the middle of an effect, for it may wait for
// these.
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

// noRoom returns the error with which m ends.
func (p *Pool) noRoom(m *Tenant) error {
	if m.effects.Load() || len(p.tenants) == 1 {
		return &meter.LimitError{Limit: "totalMemory", Value: limits.Bytes(p.most).String()}
	}
	return &Busy{fmt.Sprintf("the running scripts use all of the %s that they may use together (limits.totalMemory)", limits.Bytes(p.most))}
}

// Activate records that a branch of the run has the turn, where none had.
func (p *Pool) Activate(seat *Seat) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if seat.active {
		return
	}
	seat.active = true
	p.active++
	if seat.holder != nil {
		seat.holder.active++
	}
}

// Rest records that no branch of the run has the turn any more, and releases the slot.
func (p *Pool) Rest(seat *Seat) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !seat.active {
		return
	}
	p.slots.release(seat)
	seat.active = false
	p.active--
	if seat.holder != nil {
		seat.holder.active--
	}
	p.admitGrowers()
}

// Compute waits until the run has a slot. When ctx ends, it returns without one: the run is about to end.
func (p *Pool) Compute(ctx context.Context, seat *Seat) {
	if p != nil && !seat.slot {
		p.slots.acquire(ctx, seat, &p.contended)
	}
}

// Release releases the slot, if the run has one.
func (p *Pool) Release(seat *Seat) {
	if p != nil {
		p.slots.release(seat)
	}
}

// Pause releases the slot if other runs wait for one.
func (p *Pool) Pause(seat *Seat) {
	if p != nil && p.contended.Load() {
		p.slots.release(seat)
	}
}

// Share releases and reacquires the slot if other runs wait for one and the run has had it for turnTime since.
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

// KeepingTurn calls f, which should be fast, while the run keeps the turn. If f takes longer than turnTime, for
// example because the reader of a notification is slow, the slot is released meanwhile.
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

// Use is what a pool has granted.
type Use struct {
	Charged int64 // bytes
	Active  int   // runs
	Free    int   // unused slots
}

// Usage returns what is granted at the moment.
func (p *Pool) Usage() Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots.mu.Lock()
	defer p.slots.mu.Unlock()
	return Use{p.charged, p.active, p.slots.free}
}

// slots are acquired in the order of the requests for them.
//
// A slot is passed between operations. While one operation takes long and others wait, one more slot is lent to these, for
// each that there is: it is passed on among them until a run that has a slot of its own releases that.
type slots struct {
	mu      sync.Mutex
	all     int // that there are, without those lent
	free    int
	lent    int
	waiting []chan bool // each gets whether its slot is lent
	passed  time.Time   // when a slot was passed last
	late    *time.Timer // lends one; nil: nobody waits
}

const (
	// turnTime is how long a run may compute while others wait for its slot.
	turnTime = 10 * time.Millisecond
	// lendAfter is how long no slot may be passed while runs wait until one is lent.
	lendAfter = 3 * turnTime
)

// acquire waits for a slot, or for the end of ctx.
func (s *slots) acquire(ctx context.Context, seat *Seat, contended *atomic.Bool) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		seat.slot, seat.lent, seat.since = true, false, time.Time{}
		return
	}
	turn := make(chan bool, 1)
	if len(s.waiting) == 0 {
		s.passed = time.Now()
	}
	s.waiting = append(s.waiting, turn)
	if s.late == nil {
		s.late = time.AfterFunc(lendAfter, s.lend)
	}
	contended.Store(true)
	s.mu.Unlock()
	select {
	case lent := <-turn:
		seat.slot, seat.lent, seat.since = true, lent, time.Now()
	case <-ctx.Done():
		s.forget(turn)
	}
	s.mu.Lock()
	contended.Store(len(s.waiting) > 0)
	s.mu.Unlock()
}

// lend lends a slot to the next that waits, if none was passed for lendAfter.
func (s *slots) lend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = nil
	if len(s.waiting) == 0 {
		return
	}
	left := lendAfter - time.Since(s.passed)
	if left <= 0 && s.lent < s.all {
		s.lent++
		s.pass(true)
	}
	s.late = time.AfterFunc(max(left, turnTime), s.lend)
}

// forget removes turn from the waiting; a slot that it was given meanwhile is passed on.
func (s *slots) forget(turn chan bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
	s.leave(<-turn)
}

// release releases the slot of a run, if it has one.
func (s *slots) release(seat *Seat) {
	if !seat.slot {
		return
	}
	seat.slot = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(seat.lent)
}

// leave takes back a slot. The caller holds the mutex.
func (s *slots) leave(lent bool) {
	if s.lent > 0 && (!lent || len(s.waiting) == 0) { // one of those that are lent is not any more
		s.lent--
		return
	}
	s.pass(lent && s.lent > 0)
}

// pass gives a slot to the next that waits. The caller holds the mutex.
func (s *slots) pass(lent bool) {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	s.passed = time.Now()
	s.waiting[0] <- lent
	s.waiting = s.waiting[1:]
}
