package suite

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// The order of a test.
//
// Effects that take time arrive from goroutines of several runs, in an arbitrary order. So each is held. When no run
// computes, and all effects in progress are held or wait for a run that they started, only the scheduler is active: it
// computes the answers of fakes, in the order of the effects' keys, and then releases one effect. Nothing else wakes a
// goroutine, neither time nor the end of a context. So the goroutines alternate:
//
//	runs compute → all are idle → the scheduler computes and releases one effect → its run computes
//
// A run is idle from RunOptions.Idle until one of its effects is released, or until a run ends that one of them waits
// for. Idle is called with the mutex of the run's turns held, so that mutex is acquired before scheduler.mu; the
// scheduler calls fakes, which compute in the run of the test, with neither held.

// running is a run that has not ended: of the test, of a tool, or of a tool that one calls.
type running struct {
	id     string // ID of the effect that started it, with "#" for the run of a tool; "" for the test
	idle   int    // effects in progress while no branch computes; -1: one computes
	atRest int    // how many of these are held or wait for a run
	parent *running
	timed  bool          // limits.time bounds it
	left   time.Duration // how long it may still be awake, by the clock of the test
	ends   time.Time     // its lifetime, by the clock of the test; zero: none
	limits script.Limits
	cancel context.CancelCauseFunc
}

// effect is a held effect.
type effect struct {
	script.Attempt
	id      string
	of      *running
	ctx     context.Context
	release chan struct{}
	seq     int // order in which effects arrived
	asleep  bool
	stop    bool // the run is stopped at this effect
	ready   bool
	due     time.Time

	tool     *Tool  // the called tool
	fake     *fake  // that answers it, or nil
	called   string // the name in the script
	timeout  time.Duration
	question *script.Question
	raw      json.RawMessage
	err      error
}

type effectKey struct{}

func effectOf(ctx context.Context) *effect {
	e, _ := ctx.Value(effectKey{}).(*effect)
	return e
}

// scheduler releases the effects of one attempt.
type scheduler struct {
	a       *attempt
	base    context.Context // of the attempt
	abort   context.CancelCauseFunc
	wake    chan struct{}
	stopped chan struct{}

	mu        sync.Mutex
	live      []*running
	held      []*effect
	now       time.Time
	taken     int            // effects that arrived so far
	answered  map[string]int // effects answered so far, by branch
	computing bool           // a fake computes
}

// epoch is the time at which every test begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScheduler(a *attempt) *scheduler {
	return &scheduler{a: a, now: epoch, wake: make(chan struct{}, 1), stopped: make(chan struct{}), answered: map[string]int{}}
}

// begin adds a run that is about to start; the effect of parent waits for it.
func (s *scheduler) begin(parent *running, id string, l script.Limits) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &running{id: id, idle: -1, parent: parent, limits: l.Or(script.DefaultLimits())}
	if parent != nil {
		parent.atRest++
		r.timed, r.left = true, r.limits.Time.Std()
		if parent.parent == nil && r.limits.Lifetime > 0 { // the test has called it
			r.ends = s.now.Add(r.limits.Lifetime.Std())
		}
	}
	s.live = append(s.live, r)
	return r
}

func (s *scheduler) end(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = slices.DeleteFunc(s.live, func(o *running) bool { return o == r })
	if r.parent != nil {
		r.parent.atRest--
		r.parent.idle = -1
	}
}

// noteIdle records that no branch of a run computes any more.
func (s *scheduler) noteIdle(r *running, flying int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.computing { // a fake performed an effect that it may not
		return
	}
	r.idle = flying
	s.wakeUp()
}

// busy records that a run computes again, or is about to.
func (s *scheduler) busy(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.idle = -1
}

func (s *scheduler) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// await waits until the effect is released, and returns its error.
func (s *scheduler) await(e *effect) error {
	s.mu.Lock()
	if s.base.Err() != nil {
		s.mu.Unlock()
		return context.Cause(s.base)
	}
	s.held = append(s.held, e)
	e.of.atRest++
	s.wakeUp()
	s.mu.Unlock()
	<-e.release
	return e.err
}

// drive is the goroutine of the scheduler. It ends when done is closed, after the last run.
func (s *scheduler) drive(ctx context.Context, done <-chan struct{}) {
	defer close(s.stopped)
	over := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-over:
			over = nil
			s.endAll(context.Cause(ctx))
		case <-s.wake:
			for s.step() {
			}
		}
	}
}

// endAll ends all effects.
func (s *scheduler) endAll(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) > 0 {
		s.held[0].err = why
		s.resume(s.held[0])
	}
}

// quiet reports whether no run computes, and no effect is about to be held.
func (s *scheduler) quiet() bool {
	for _, r := range s.live {
		if r.idle < 0 || r.idle != r.atRest {
			return false
		}
	}
	return len(s.held) > 0
}

// step releases an effect if all runs are idle; it reports whether it has to be called again.
func (s *scheduler) step() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet() || s.base.Err() != nil {
		return false
	}
	slices.SortFunc(s.held, func(x, y *effect) int { return compareIDs(x.id, y.id) })
	for _, e := range slices.Clone(s.held) {
		if e.ready {
			continue
		}
		s.taken++
		e.ready, e.seq = true, s.taken
		if e.ctx.Err() != nil || e.asleep || e.stop {
			continue
		}
		s.computing = true
		s.mu.Unlock()
		problem := s.a.reply(e)
		s.mu.Lock()
		s.computing = false
		if problem != nil {
			s.a.problem = problem
			s.abort(problem)
			return false
		}
	}
	e := s.next()
	if e.ctx.Err() == nil && !e.stop {
		if r, at, why := s.overdue(e.due); r != nil {
			s.advance(at)
			r.timed, r.ends = false, time.Time{}
			r.cancel(why)
			return true
		}
		s.advance(e.due)
	}
	switch {
	case e.ctx.Err() != nil:
		e.raw, e.err = nil, context.Cause(e.ctx)
	case e.stop:
		s.a.variant.hit = true
		e.raw, e.err = nil, &script.Suspended{Questions: []script.Question{{Key: e.Key, Method: "stop"}}}
	}
	s.answered[branchOf(e.id)]++
	s.resume(e)
	return false
}

// overdue returns the run that a limit ends first before t, when, and the limit; nil for none.
func (s *scheduler) overdue(t time.Time) (first *running, at time.Time, why error) {
	reached := func(r *running, end time.Time, limit string, value script.Duration) {
		if t.After(end) && (first == nil || end.Before(at)) {
			first, at, why = r, end, &script.LimitError{Limit: limit, Value: value.String()}
		}
	}
	for _, r := range s.live {
		if r.timed && s.awake(r, t) > r.left {
			reached(r, s.now.Add(r.left), "time", r.limits.Time)
		}
		if !r.ends.IsZero() {
			reached(r, r.ends, "lifetime", r.limits.Lifetime)
		}
	}
	return first, at, why
}

// awake returns how much of the time from now to t a run is awake while no effect is released: until all of its calls have
// their answers. It is at rest while it only sleeps, waits for people, or waits for runs that are at rest; the time of a
// production run is measured in the same way.
func (s *scheduler) awake(r *running, t time.Time) (d time.Duration) {
	for _, e := range s.held {
		if e.of == r && !e.asleep && e.question == nil {
			d = max(d, min(e.due.Sub(s.now), t.Sub(s.now)))
		}
	}
	for _, called := range s.live {
		if called.parent == r {
			d = max(d, s.awake(called, t))
		}
	}
	return d
}

// advance sets the clock of the test to t, unless that is past.
func (s *scheduler) advance(t time.Time) {
	if !t.After(s.now) {
		return
	}
	for _, r := range s.live {
		r.left -= s.awake(r, t)
	}
	s.now = t
}

// resume releases an effect.
func (s *scheduler) resume(e *effect) {
	s.held = slices.DeleteFunc(s.held, func(o *effect) bool { return o == e })
	e.of.atRest--
	e.of.idle = -1
	close(e.release)
}

// next returns the effect that is answered next: one that is cancelled or stopped, otherwise the first in the order of
// the variant, otherwise the one that is due first.
func (s *scheduler) next() *effect {
	for _, e := range s.held {
		if e.ctx.Err() != nil || e.stop {
			return e
		}
	}
	free := s.movable()
	if rank := s.a.variant.ranking(s.answered); rank != nil {
		return slices.MinFunc(free, rank)
	}
	return slices.MinFunc(free, inTime)
}

func inTime(x, y *effect) int {
	if c := x.due.Compare(y.due); c != 0 {
		return c
	}
	return x.seq - y.seq
}

// movable returns the effects that could end next: of those that sleep, only the one that wakes first.
func (s *scheduler) movable() (free []*effect) {
	var sleeper *effect
	for _, e := range s.held {
		switch {
		case !e.asleep:
			free = append(free, e)
		case sleeper == nil || inTime(e, sleeper) < 0:
			sleeper = e
		}
	}
	if sleeper != nil {
		free = append(free, sleeper)
	}
	return free
}

// Now returns the time of the test.
func (s *scheduler) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Wait waits until the clock of the test has reached t.
func (s *scheduler) Wait(ctx context.Context, t time.Time) error {
	e := effectOf(ctx)
	if e == nil {
		return nil
	}
	e.asleep, e.due = true, t
	return s.await(e)
}

// compareIDs orders effects by their positions in the script.
func compareIDs(x, y string) int {
	for x != "" && y != "" {
		i, j := digits(x), digits(y)
		switch {
		case i > 0 && j > 0:
			if i != j {
				return i - j
			}
			if c := strings.Compare(x[:i], y[:j]); c != 0 {
				return c
			}
			x, y = x[i:], y[j:]
		case x[0] != y[0]:
			return int(x[0]) - int(y[0])
		default:
			x, y = x[1:], y[1:]
		}
	}
	return len(x) - len(y)
}

func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// branchOf returns the branch of an effect: its ID without the last number.
func branchOf(id string) string { return id[:strings.LastIndexAny(id, ".#/")+1] }
