package edge

import "time"

const sweepEvery = 15 * time.Second

// Pressure ends one of these sessions of clients, so that another client gets its place at a backend: the one that has
// been idle for longest, for at least sessionIdle.pressure, without an open stream or a running request. The next
// request of its client is answered with 404, so that the client begins a new session and knows that its state is lost.
func (v *Server) Pressure(backend string, ids []string) (ended bool) {
	var oldest *Session
	var since time.Time
	before := time.Now().Add(-v.idle.Load().Pressure.Std())
	for _, id := range ids {
		s := v.sessions.find(id)
		if s == nil {
			continue
		}
		used, busy := s.idleSince()
		if !busy && used.Before(before) && (oldest == nil || used.Before(since)) {
			oldest, since = s, used
		}
	}
	if oldest == nil {
		return false
	}
	v.log.Warn("session ended: another client needs its place at a backend", "backend", backend,
		"session", oldest.ID[:6], "idle", time.Since(since).Round(time.Second))
	v.pressed.Add(1)
	v.endSession(oldest)
	return true
}

// sweep ends idle sessions, at intervals.
func (v *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			v.EachSession(func(s *Session) { s.streams.Age(now) })
			v.endUnused(now)
			v.expireSessions(now)
		case <-v.life.Done():
			return
		}
	}
}

func (v *Server) expireSessions(now time.Time) {
	limit := v.idle.Load().Client.Std()
	for _, s := range v.sessions.idle(now.Add(-limit)) {
		v.log.Info("session expired", "session", s.ID[:6], "idle", limit)
		v.expired.Add(1)
		v.endSession(s)
	}
}
