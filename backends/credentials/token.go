package credentials

import (
	"context"
	"sync"
	"time"
)

const (
	// tokenLife is how long a token without expires_in is used, and bounds the use of an exchanged
	// token.
	tokenLife = time.Hour
	// renewAgain is the wait after a failed renewal of a token that is still good.
	renewAgain = 5 * time.Second
)

// token is an access token.
type token struct {
	value string
	renew time.Time // after nine tenths of its lifetime
	until time.Time // end of its lifetime
}

// lasting returns a token that is valid from now until its end, or for tokenLife if that is zero.
func lasting(value string, now, until time.Time) token {
	if until.IsZero() {
		until = now.Add(tokenLife)
	}
	return token{value, now.Add(until.Sub(now) / 10 * 9), until}
}

// tokens is the source of one identity's token. One fetch runs at a time, on a goroutine of the
// pool; callers without a valid token wait for it. States: see the package comment.
type tokens struct {
	pool  *Pool
	fetch func(context.Context) (token, error)

	mu     sync.Mutex
	now    token     // guarded by mu; the zero token while there is none
	flight *flight   // guarded by mu; nil: no fetch is running
	failed time.Time // guarded by mu: when a renewal last failed
}

// A flight is one fetch.
type flight struct {
	done  chan struct{} // closed when token and err are set
	token token
	err   error
}

// Get implements Source.
func (s *tokens) Get(ctx context.Context) (Credential, error) {
	now := s.pool.o.Now()
	s.mu.Lock()
	good := now.Before(s.now.until)
	if good && (now.Before(s.now.renew) || now.Sub(s.failed) < renewAgain) {
		defer s.mu.Unlock()
		return bearer(s.now.value), nil
	}
	f := s.flight
	if f == nil {
		f = s.begin()
	}
	value := s.now.value
	s.mu.Unlock()
	if good {
		return bearer(value), nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return Credential{}, context.Cause(ctx)
	}
	if f.err != nil {
		return Credential{}, f.err
	}
	return bearer(f.token.value), nil
}

// begin starts a fetch. mu is held.
func (s *tokens) begin() *flight {
	f := &flight{done: make(chan struct{})}
	s.flight = f
	if !s.pool.spawn(func() { s.run(f) }) {
		s.flight, f.err = nil, unavailable("closed")
		close(f.done)
	}
	return f
}

// run fetches a token. It does not use the context of a caller, because several may wait for it.
func (s *tokens) run(f *flight) {
	ctx, cancel := context.WithTimeout(s.pool.ctx, issuerTimeout)
	defer cancel()
	f.token, f.err = s.fetch(ctx)
	if f.err == nil {
		s.pool.hide(f.token.value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = nil
	if f.err == nil {
		s.now, s.failed = f.token, time.Time{}
	} else {
		s.failed = s.pool.o.Now()
		if s.failed.Before(s.now.until) {
			s.pool.o.Log.Warn("token not renewed, the previous one stays in use", "err", f.err)
		}
	}
	close(f.done)
}

// Refused implements Source. It drops the token, unless there is another one already.
func (s *tokens) Refused(c Credential) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bearer(s.now.value) == c {
		s.now = token{}
	}
	return true
}

func bearer(token string) Credential { return Credential{"Authorization", "Bearer " + token} }
