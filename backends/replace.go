package backends

import (
	"context"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/listing"
	"github.com/vmcp-dev/vmcp/backends/internal/settings"
	"github.com/vmcp-dev/vmcp/config"
)

// A backend whose configuration changes leaves no gap.
//
// What concerns the proxy alone (settings) is applied in place, under running calls, and so are
// headers and the certificates to trust: the next request has the new ones, in the session that
// there is. For everything else, such as the command, the environment or the URL, the backend is
// replaced: its successor connects beside it while the old one goes on serving lists and
// calls (Set.next), and takes its place in Set.all when it is ready, when its first
// attempt has gone wrong, or after handOverTime. Only then does the old one retire: it
// finishes its running calls, passes calls on that still come to it by an older catalog,
// and closes. A backend that serves nobody, because it is down or starting itself, is
// replaced at once.
//
// Set.mu is held while anybody changes all or next. A successor that is not in next any
// more was overtaken by a newer configuration and is closed by who took it out.

// handOverTime is how long a backend goes on serving beside a successor that neither gets
// ready nor fails.
const handOverTime = time.Minute

// runs reports whether the backend can be brought to cfg by other settings. One that is down may
// be so for a header that is wrong: then it is tried anew at once.
func (b *Backend) runs(cfg config.Backend) bool {
	return settings.SameBut(b.cfg, cfg) && (b.serving() || b.dialer.Carries(cfg))
}

// adjust applies settings in place.
func (b *Backend) adjust(cfg config.Backend, t settings.General) {
	b.settings.Store(settings.For(cfg, t, b.settings.Load()))
	if !b.dialer.Carries(cfg) {
		if b.dialer.Carry(cfg) {
			b.suspicious.Store(true)
		}
		b.stale.Or(listing.All) // what is offered may depend on who asks
	}
	b.wakeLoop() // the time between health checks may be another
}

// serving reports whether clients lose anything when the backend is closed.
func (b *Backend) serving() bool {
	s := b.State()
	return s.Status != Down && s.Status != Disabled && !s.Starting()
}

// createOrUpdate makes the backend for cfg, or changes it. old is the one of that name so far, or
// nil; when it is not the one that is returned, the caller retires it. mu is held.
func (s *Set) createOrUpdate(cfg config.Backend, old *Backend) *Backend {
	next := s.next[cfg.Name]
	switch {
	case old == nil:
		return s.newBackend(cfg, s.general)
	case next != nil && next.runs(cfg):
		next.adjust(cfg, s.general)
		old.adjust(cfg, s.general)
		return old
	case old.runs(cfg):
		s.giveUp(cfg.Name)
		old.adjust(cfg, s.general)
		return old
	}
	s.giveUp(cfg.Name)
	next = s.newBackend(cfg, s.general)
	if user := old.lister.Load(); user != nil && next.credentials.NeedsCaller() {
		next.arrive(user)
	}
	if !old.serving() || next.State().Status == Disabled || cfg.Unusable != "" {
		old.successor.Store(next)
		return next
	}
	s.next[cfg.Name] = next
	old.log.Info("backend is replaced: the one before serves until the new one is ready")
	s.wg.Go(func() { s.handOver(old, next) })
	return old
}

// giveUp closes a successor that is not wanted any more. mu is held.
func (s *Set) giveUp(name string) {
	if next := s.next[name]; next != nil {
		delete(s.next, name)
		s.wg.Go(next.close)
	}
}

// handOver waits for next and puts it in the place of old, unless a newer configuration
// has other plans.
func (s *Set) handOver(old, next *Backend) {
	s.awaitTried(next)
	s.mu.Lock()
	if s.closed || s.next[old.name] != next {
		s.mu.Unlock()
		return
	}
	delete(s.next, old.name)
	s.all = slices.Clone(s.all)
	s.all[slices.Index(s.all, old)] = next
	old.successor.Store(next)
	s.mu.Unlock()
	next.spawn(func() { next.inheritSubscriptions(old) })
	s.changed()
	old.retire()
}

// awaitTried waits until b was tried once, is closed, or handOverTime is over.
func (s *Set) awaitTried(b *Backend) {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if b.awaitAttempt(ctx); ctx.Err() != nil {
		b.log.Warn("backend takes the place of its predecessor without being ready", "waited", handOverTime)
	}
}

// inheritSubscriptions asks for updates of the resources that old was asked for, by sessions of their own
// and by all.
func (b *Backend) inheritSubscriptions(old *Backend) {
	b.pool.inherit(&old.pool)
	for _, uri := range old.subs.list() {
		if err := b.Subscribe(b.ctx, uri); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// Replacing reports whether a backend goes on serving until its successor is ready.
func (s *Set) Replacing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.next) > 0
}

// enter counts a call in and returns the backend to make it on, which leave counts it out
// of: one that was replaced passes its calls on.
func (b *Backend) enter() *Backend {
	for {
		b.stats.entered.Add(1)
		next := b.successor.Load()
		if next == nil {
			return b
		}
		b.leave()
		b = next
	}
}

// leave undoes enter.
func (b *Backend) leave() {
	if b.stats.entered.Add(-1) == 0 {
		b.idle()
	}
}

// busy reports whether a call is being made or its answer is being read.
func (b *Backend) busy() bool {
	return b.stats.entered.Load() > 0 || b.dialer.Counts().Running.Load() > 0
}
