package backends

import (
	"context"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// A backend with token exchange and no discovery credential has credentials of principals alone,
// and cannot be connected before the first principal has called. It is down until then, is listed
// with that principal's credential, and with another one's when that has expired. Calls do not use
// this connection.

// errNoCaller is the error of such a backend while it is down.
var errNoCaller = errors.New("not connected before the first call with a token that can be exchanged; configure tokenExchange.discovery to connect at once")

// arrivalWait is how long the first caller waits for the lists of such a backend.
const arrivalWait = 5 * time.Second

// Arrive is called with the principal of a request before the request is handled. It reports whether a
// backend was connected with the principal's credential, and waits for its lists for at most arrivalWait.
func (s *Set) Arrive(ctx context.Context, user *credentials.User) bool {
	var waited []*Backend
	for _, b := range s.All() {
		if b.credentials.NeedsCaller() && b.arrive(user) {
			waited = append(waited, b)
		}
	}
	if len(waited) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	for _, b := range waited {
		b.awaitAttempt(ctx)
	}
	return true
}

// arrive makes user the lister if the present one has no valid token. It reports whether the
// backend begins to connect now.
func (b *Backend) arrive(user *credentials.User) bool {
	for {
		old := b.lister.Load()
		if old.Usable(time.Now()) && (old.Key != user.Key || old.Token == user.Token) {
			return false
		}
		if !b.lister.CompareAndSwap(old, user) {
			continue
		}
		if old.Usable(time.Now()) {
			b.credentials.For(user) // with a newer token of the same principal
			return false
		}
		break
	}
	if b.State().Status != Down {
		return false
	}
	b.setState(Connecting, nil)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return true
}

// awaitAttempt waits until the first attempt to connect has ended, or the backend is closed.
func (b *Backend) awaitAttempt(ctx context.Context) {
	for {
		state, changed := b.watch()
		if !state.Starting() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-b.ctx.Done():
			return
		}
	}
}

// listerSource returns the source of credentials for the main connection of a backend that
// needs a principal's.
func (b *Backend) listerSource(ctx context.Context) (credentials.Source, error) {
	user := b.lister.Load()
	if !user.Usable(time.Now()) {
		return nil, &Error{Backend: b.name, Kind: Unavailable, Err: errNoCaller}
	}
	source, err := b.dialer.SourceFor(ctx, user)
	if conn.KindOf(err) == Denied {
		b.lister.CompareAndSwap(user, nil)
	}
	return source, err
}

// rest waits d, or less when a new lister arrives, until the next attempt to connect.
func (b *Backend) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.arrived:
	case <-b.ctx.Done():
	}
}
