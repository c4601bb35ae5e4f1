package edge

import (
	"crypto/rand"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	cookie = "vmcp_admin"
	// sessionTime is the lifetime of a login, sessionIdle its limit without a request.
	sessionTime = 12 * time.Hour
	sessionIdle = time.Hour
	// maxSessions bounds the sessions: beyond it the least recently used one ends.
	maxSessions = 64
	// loginRate (per second) and loginBurst bound the attempts to log in, over all addresses.
	loginRate, loginBurst = 1, 10
)

// gateSessions are the browser sessions that began with a token.
type gateSessions struct {
	tries *rate.Limiter

	mu  sync.Mutex
	all []gateSession // guarded by mu
}

type gateSession struct {
	id, token   string
	begun, used time.Time
}

func newSessions() gateSessions { return gateSessions{tries: rate.NewLimiter(loginRate, loginBurst)} }

// token is the token of a request's session.
func (s *gateSessions) token(r *http.Request) (string, bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	i := slices.IndexFunc(s.all, func(one gateSession) bool { return one.id == c.Value })
	if i < 0 {
		return "", false
	}
	s.all[i].used = time.Now()
	return s.all[i].token, true
}

// tidy removes expired sessions. mu is held.
func (s *gateSessions) tidy() {
	now := time.Now()
	s.all = slices.DeleteFunc(s.all, func(one gateSession) bool {
		return now.Sub(one.begun) > sessionTime || now.Sub(one.used) > sessionIdle
	})
}

// Login begins a session for a token, and sets its cookie. The error is a *Refusal.
func (g *Gate) Login(w http.ResponseWriter, r *http.Request, rules *Rules, port Port, token string) error {
	if err := rules.reach(r, port); err != nil {
		return err
	}
	if err := fromHere(r); err != nil {
		return err
	}
	if !g.sessions.tries.Allow() {
		return &GateRefusal{Status: http.StatusTooManyRequests, Reason: "too many attempts to log in: try again in some seconds", Login: true}
	}
	if _, err := rules.holder(r, token); err != nil {
		return err
	}
	now := time.Now()
	one := gateSession{id: rand.Text() + rand.Text(), token: token, begun: now, used: now}
	s := &g.sessions
	s.mu.Lock()
	s.tidy()
	if len(s.all) >= maxSessions {
		oldest := 0
		for i := range s.all {
			if s.all[i].used.Before(s.all[oldest].used) {
				oldest = i
			}
		}
		s.all = slices.Delete(s.all, oldest, oldest+1)
	}
	s.all = append(s.all, one)
	s.mu.Unlock()
	setCookie(w, r, one.id, int(sessionTime/time.Second))
	return nil
}

// Logout ends the session of a browser.
func (g *Gate) Logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookie); err == nil {
		s := &g.sessions
		s.mu.Lock()
		s.all = slices.DeleteFunc(s.all, func(one gateSession) bool { return one.id == c.Value })
		s.mu.Unlock()
	}
	setCookie(w, r, "", -1)
}

// LoggedIn reports whether a request has the cookie of a session.
func (g *Gate) LoggedIn(r *http.Request) bool {
	_, ok := g.sessions.token(r)
	return ok
}

func setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// isUnix reports whether a request came over a Unix socket.
func isUnix(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix"
}
