package edge

import (
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// The number of sessions.
//
// initialize costs a client nothing, so a session costs little until it is used, and the table has room for
// clientSessions.max of them, and for fewer of one principal or address. When there is no room for a new session,
// others end: first those for which no message but initialize has arrived, the oldest first; then the one that has been
// idle for longest, for at least sessionIdle.pressure, without a running request or an open stream. If there is none,
// the client is answered to try again. A session in use is never ended.

const (
	// unusedTime is how long a session is kept for which no message but initialize has arrived.
	unusedTime = time.Minute
	// evictUnused is how long such a session is kept at least.
	evictUnused = 2 * time.Second
	// fullTime is how long a table without room is not searched again.
	fullTime = time.Second
)

var errFull = wire.Errorf(wire.Busy, "the endpoint has as many sessions as it may have (clientSessions); try again in a moment")

// sessionLimits are the limits of a configuration for sessions.
type sessionLimits struct {
	max, perPrincipal, perAddress int
	trusted                       []netip.Prefix
}

func newSessionLimits(cfg *config.Config) *sessionLimits {
	c := cfg.ClientSessions
	l := &sessionLimits{max: c.Max, perPrincipal: c.PerPrincipal, perAddress: c.PerAddress}
	for _, n := range cfg.TrustedProxies {
		if p, err := config.ParseNetwork(n); err == nil {
			l.trusted = append(l.trusted, p)
		}
	}
	return l
}

// sessions is the table of HTTP sessions.
type sessions struct {
	limits         atomic.Pointer[sessionLimits] // nil: no limits
	evicted, ended atomic.Uint64                 // counters: ended for room, and since they were never used
	refused        atomic.Uint64

	mu     sync.Mutex
	byID   map[string]*Session  // guarded by mu, like all below
	byText map[string]*Session  // by session id of the client
	counts map[string]int       // number of sessions by key of countsFor
	full   map[string]time.Time // by key: when no session could be ended for a new one
}

// countsFor returns the keys, principal and address, by which a session is limited in addition to all sessions.
// Anonymous sessions have no principal key.
func (l *sessionLimits) countsFor(s *Session, r *http.Request) (keys []string) {
	if s.Client.Principal != "" {
		keys = append(keys, "principal "+s.Client.Principal)
	}
	if addr, ok := addressOf(r, l.trusted); ok {
		keys = append(keys, "address "+addr.String())
	}
	return keys
}

func (l *sessionLimits) of(key string) int {
	switch {
	case key == "":
		return l.max
	case key[0] == 'p':
		return l.perPrincipal
	}
	return l.perAddress
}

// admitSession adds a new session to the table, ending others if there is no room.
func (v *Server) admitSession(s *Session, r *http.Request) error {
	l := v.sessions.limits.Load()
	s.countsFor = append(l.countsFor(s, r), "")
	for {
		full := v.sessions.tryAdd(s, l)
		if full == nil {
			return nil
		}
		out := v.sessions.victims(*full, l.of(*full), v.idle.Load().Pressure.Std())
		if len(out) == 0 {
			v.sessions.refused.Add(1)
			return errFull
		}
		for _, old := range out {
			v.log.Info("session ended: another client needs its place", "session", old.ID[:6])
			v.sessions.evicted.Add(1)
			v.endSession(old)
		}
	}
}

// tryAdd adds a session, or returns the key for which there are too many.
func (t *sessions) tryAdd(s *Session, l *sessionLimits) (full *string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range s.countsFor {
		if t.counts[key] >= l.of(key) {
			return &key
		}
	}
	t.put(s)
	return nil
}

// put adds a session. mu is held.
func (t *sessions) put(s *Session) {
	if t.byID == nil {
		t.byID, t.byText, t.counts, t.full = map[string]*Session{}, map[string]*Session{}, map[string]int{}, map[string]time.Time{}
	}
	t.byID[s.ID], t.byText[s.Text] = s, s
	for _, key := range s.countsFor {
		t.counts[key]++
	}
}

// add adds a session regardless of the limits.
func (t *sessions) add(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(s)
}

func (t *sessions) find(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// named finds the session that an id names. A sealed id is opened first, once for each sealer; said is its content if
// the session is not in this process.
func (t *sessions) named(text string, by *Sealer) (s *Session, said *IDSession) {
	t.mu.Lock()
	s = t.byText[text]
	known := s != nil && s.opened == by
	t.mu.Unlock()
	if by == nil || known {
		return s, nil
	}
	said, ok := by.Open(text)
	if !ok || s == nil {
		return nil, said
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.opened = by
	return s, nil
}

func (t *sessions) remove(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil {
		return nil
	}
	delete(t.byID, id)
	delete(t.byText, s.Text)
	for _, key := range s.countsFor {
		if t.counts[key]--; t.counts[key] == 0 {
			delete(t.counts, key)
		}
	}
	return s
}

func (t *sessions) all() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*Session, 0, len(t.byID))
	for _, s := range t.byID {
		out = append(out, s)
	}
	return out
}

// idle returns the sessions that were not used since before.
func (t *sessions) idle(before time.Time) []*Session {
	var out []*Session
	for _, s := range t.all() {
		if used, busy := s.idleSince(); !busy && used.Before(before) {
			out = append(out, s)
		}
	}
	return out
}

// neverUsed returns the sessions begun before a time for which no message but initialize has arrived.
func (t *sessions) neverUsed(before time.Time) []*Session {
	return slices.DeleteFunc(t.idle(before), (*Session).wasUsed)
}

// victims are the sessions to end for a new one that counts for key. Unused ones are returned in larger numbers, so
// that a flood does not search the table for each session.
func (t *sessions) victims(key string, limit int, pressure time.Duration) []*Session {
	now := time.Now()
	t.mu.Lock()
	since, searched := t.full[key]
	t.mu.Unlock()
	if searched && now.Sub(since) < fullTime {
		return nil
	}
	isOf := func(s *Session) bool { return !slices.Contains(s.countsFor, key) }
	unused := slices.DeleteFunc(t.neverUsed(now.Add(-evictUnused)), isOf)
	if len(unused) > 0 {
		return oldest(unused, limit/100+1)
	}
	if out := oldest(slices.DeleteFunc(t.idle(now.Add(-pressure)), isOf), 1); len(out) > 0 {
		return out
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.full) // there is room again
	t.full[key] = now
	return nil
}

// oldest returns up to n sessions, those that have been idle for longest.
func oldest(some []*Session, n int) []*Session {
	used := make(map[*Session]time.Time, len(some))
	for _, s := range some {
		used[s], _ = s.idleSince()
	}
	slices.SortFunc(some, func(a, b *Session) int { return used[a].Compare(used[b]) })
	return some[:min(n, len(some))]
}

// endUnused ends the sessions for which no message but initialize has arrived.
func (v *Server) endUnused(now time.Time) {
	for _, s := range v.sessions.neverUsed(now.Add(-unusedTime)) {
		v.sessions.ended.Add(1)
		v.endSession(s)
	}
}
