package backends

import (
	"context"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"

	"github.com/vmcp-dev/vmcp/config"
)

// Replacing a backend whose configuration changes, without a gap.
//
// Settings of the proxy alone (settings.go) are applied in place, under running calls, and so are
// headers and trusted certificates: the next request uses the new ones, in the same session. For
// everything else, such as the command, the environment or the URL, the backend is replaced: its
// successor connects (Set.next) while the old one still serves lists and calls, and replaces it in
// Set.all when it is ready, when its first attempt has failed, or after handOverTime. Then the old one
// retires: it finishes its running calls, forwards new calls that an older catalog routes to it, and
// closes. A backend that is down or starting itself is replaced at once.
//
// Set.mu guards all and next. A successor that is no longer in next was superseded by a
// newer configuration; giveUp, which removed it, closes it.

// handOverTime is how long a backend serves on while its successor is neither ready nor
// failed.
const handOverTime = time.Minute

// runs reports whether cfg can be applied to the backend in place. One that is down, perhaps because
// of a wrong header, is replaced instead, so that it is tried at once.
func (b *Backend) runs(cfg config.Backend) bool {
	return SameBut(b.cfg, cfg) && (b.serving() || b.dialer.Carries(cfg))
}

// adjust applies settings in place.
func (b *Backend) adjust(cfg config.Backend, t General) {
	b.settings.Store(For(cfg, t, b.settings.Load()))
	if !b.dialer.Carries(cfg) {
		if b.dialer.Apply(cfg) {
			b.suspicious.Store(true)
		}
		b.stale.Or(conn.All) // the offer may depend on the credential
	}
	b.wakeLoop() // the interval of health checks may have changed
}

// serving reports whether the backend serves clients, which its closing would interrupt.
func (b *Backend) serving() bool {
	s := b.State()
	return s.Status != Down && s.Status != Disabled && !s.Starting()
}

// createOrUpdate returns the backend for cfg: old, the present one of that name or nil, with cfg
// applied, or a new one, and the caller then retires old. mu is held.
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
	old.log.Info("backend is being replaced; the old connection serves until the new one is ready")
	s.wg.Go(func() { s.handOver(old, next) })
	return old
}

// giveUp closes the successor of a name, if there is one. mu is held.
func (s *Set) giveUp(name string) {
	if next := s.next[name]; next != nil {
		delete(s.next, name)
		s.wg.Go(next.close)
	}
}

// handOver waits for next and replaces old by it, unless a newer configuration has
// superseded next.
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

// awaitTried waits until the first attempt of b has ended, b is closed, or handOverTime has passed.
func (s *Set) awaitTried(b *Backend) {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if b.awaitAttempt(ctx); ctx.Err() != nil {
		b.log.Warn("backend is replaced by one that is not ready yet", "waited", handOverTime)
	}
}

// inheritSubscriptions subscribes to the resources that old was subscribed to, by private sessions and for
// all clients.
func (b *Backend) inheritSubscriptions(old *Backend) {
	b.pool.inherit(&old.pool)
	for _, uri := range old.subs.list() {
		if err := b.Subscribe(b.ctx, uri); err != nil {
			b.log.Info("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// Replacing reports whether the successor of a backend is not ready yet.
func (s *Set) Replacing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.next) > 0
}

// enter counts a call and returns the backend to make it on: b, or the successor of one that
// was replaced. Its leave ends the count.
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

// Gone reports whether the backend was removed from the configuration and has no successor. A later configuration may
// have another one of its name.
func (b *Backend) Gone() bool { return b.retiring.Load() && b.successor.Load() == nil }

// leave undoes enter.
func (b *Backend) leave() {
	if b.stats.entered.Add(-1) == 0 {
		b.idle()
	}
}

// busy reports whether a call is running or its response is being read.
func (b *Backend) busy() bool {
	return b.stats.entered.Load() > 0 || b.dialer.Counts().Running.Load() > 0
}
