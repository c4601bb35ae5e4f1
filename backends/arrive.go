package backends

import (
	"context"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// A backend whose every credential is a principal's, because its token exchange has no
// discovery, cannot be connected while nobody has called. It is down until the first principal
// arrives, lists with that principal's credential, and takes the next one's when that has
// ended. Calls never use this connection.

// errNoCaller is why such a backend is down.
var errNoCaller = errors.New("it is connected when the first principal calls whose token can be exchanged; tokenExchange.discovery has it listed before")

// arrivalWait is how long the first caller of a backend waits for its lists.
const arrivalWait = 5 * time.Second

// Arrive is called with who calls, before anything is done for the call. It reports whether a backend
// waited for that; what it offers is there then, if it could be connected in time.
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

// arrive takes a principal to list with, if there is none that can be. It reports whether the
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

// awaitAttempt waits until the attempt to connect that is running has ended, or the backend is
// closed.
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

// listerSource is the source of credentials for the main connection where that takes a
// principal's.
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

// rest waits until the next attempt to connect.
func (b *Backend) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.arrived:
	case <-b.ctx.Done():
	}
}
