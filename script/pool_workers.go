package script

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Workers of isolated runs. A run that needs one waits for it like for memory, as a grower. When it has to, those are
// taken away that runs do not need while they wait (holder.idle): such a run gets another one later, like any other.

// lookAgain is how often workers are looked for that can be taken away while runs wait for them.
const lookAgain = 100 * time.Millisecond

// holder is the session of an isolated run, as the pool sees it.
type holder struct {
	tenant *Tenant
	// idle reports whether the worker may be given to another run; it acquires no mutex.
	idle func() bool
	// giveBack ends the worker if it still does not compute.
	giveBack  func()
	active    int            // runs with this worker of which a branch has the turn; guarded by pool.mu, like the next
	ending    bool           // giveBack is called
	returning sync.WaitGroup // calls of giveBack
}

// Staff waits until h may have a worker, with charged bytes granted to its tenant. Dismiss returns it. seat is as for
// Grow.
func (p *Pool) Staff(ctx context.Context, seat *Seat, h *holder, charged int64) error {
	if p == nil {
		return nil
	}
	err := p.grow(ctx, &grower{tenant: h.tenant, seat: seat, holder: h, charged: charged})
	if err != nil {
		p.Dismiss(h) // it may have been admitted meanwhile
	}
	return err
}

// Dismiss returns the worker of h, which has ended, and its memory.
func (p *Pool) Dismiss(h *holder) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.holders, h)
	if i < 0 {
		return
	}
	p.holders = slices.Delete(p.holders, i, i+1)
	m := h.tenant
	p.grant(m, -min(WorkerMemory, m.granted))
	if over := m.spare - m.granted; over > 0 {
		m.spare -= over
		p.spare -= over
	}
	p.admitGrowers()
}

// lent returns the memory of the workers that m has, which it does not keep. The caller holds the mutex.
func (p *Pool) lent(m *Tenant) (n int64) {
	for _, h := range p.holders {
		if h.tenant == m {
			n += WorkerMemory
		}
	}
	return n
}

// stuck returns how many runs of which a branch has the turn wait for memory or a worker. The caller holds the mutex.
func (p *Pool) stuck() int { return p.waiting(func(*grower) bool { return true }) }

// waiting counts the growers of runs of which a branch has the turn. The caller holds the mutex.
func (p *Pool) waiting(of func(*grower) bool) (n int) {
	for _, g := range p.growers {
		if g.seat.active && of(g) {
			n++
		}
	}
	return n
}

// strip takes the worker of the youngest run that waits for memory itself, when all runs do; the oldest keeps its own. It
// reports whether one was found. The caller holds the mutex.
func (p *Pool) strip() bool {
	oldest := p.oldest().tenant
	for _, m := range slices.Backward(p.tenants) {
		for _, h := range p.holders {
			if h.tenant != m || m == oldest || p.waiting(func(g *grower) bool { return g.seat.holder == h }) < h.active {
				continue
			}
			p.end(h)
			return true
		}
	}
	return false
}

// end starts taking a worker away. The caller holds the mutex.
func (p *Pool) end(h *holder) {
	if !h.ending {
		h.ending = true
		h.returning.Go(func() { p.takeBack(h) })
	}
}

// reclaim takes workers away from runs that wait, at most one for each grower. It reports whether there are workers
// that it may take, now or later. The caller holds the mutex.
func (p *Pool) reclaim() (some bool) {
	want := len(p.growers)
	for _, h := range p.holders {
		if h.active > 0 {
			continue
		}
		some = true
		switch {
		case h.ending:
			want--
		case want > 0 && h.idle():
			want--
			p.end(h)
		}
	}
	if some && p.look == nil {
		p.look = time.AfterFunc(lookAgain, p.lookAgain)
	}
	return some
}

func (p *Pool) takeBack(h *holder) {
	h.giveBack()
	p.mu.Lock()
	defer p.mu.Unlock()
	h.ending = false
	p.admitGrowers()
}

func (p *Pool) lookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look = nil
	p.admitGrowers()
}
